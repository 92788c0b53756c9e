//! A conversation with a model: its messages, and the part of the KV cache that belongs to them.

use akunu::text::{ChatTemplate, Encode, Tokenizer};
use akunu::{Engine, GenerateOptions, Sequence};
use anyhow::Result;
use serde_json::{Value, json};

use crate::failure::{NextStep, failure};
use crate::generation::{self, Ended, Speeds};
use crate::interrupt::Interrupt;

/// A template with the special tokens it may write.
pub struct Prompter {
    template: ChatTemplate,
    bos: String,
    eos: String,
}

impl Prompter {
    pub fn new(template: ChatTemplate, tokenizer: &Tokenizer) -> Self {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or("").to_owned();
        Self { template, bos: text(tokenizer.bos()), eos: text(tokenizer.eos()) }
    }

    /// The prompt that asks for an answer to the messages.
    pub fn prompt(&self, messages: &[Value]) -> Result<String> {
        let input = json!({ "messages": messages, "add_generation_prompt": true });
        let next = "change the messages, or use another template";
        self.template.render(&input, &self.bos, &self.eos).next_step(next)
    }

    /// The ids of a rendered prompt: the template has written the special tokens already.
    pub fn ids(tokenizer: &Tokenizer, prompt: &str) -> Vec<u32> {
        tokenizer.encode(prompt, Encode { add_special: false, parse_special: true })
    }
}

/// What the last answer cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// Tokens of the prompt that were in the KV cache already.
    pub reused: usize,
    pub speeds: Speeds,
}

pub struct Conversation {
    pub engine: Engine,
    pub options: GenerateOptions,
    prompter: Prompter,
    chunk: usize,
    messages: Vec<Value>,
    sequence: Sequence,
    /// The tokens in `sequence`.
    cached: Vec<u32>,
    pub last: Turn,
    turns: u64,
}

impl Conversation {
    pub fn new(engine: Engine, template: ChatTemplate, options: GenerateOptions, chunk: usize) -> Result<Self> {
        let prompter = Prompter::new(template, engine.need_tokenizer()?);
        let sequence = engine.sequence();
        Ok(Self {
            engine,
            options,
            prompter,
            chunk,
            messages: Vec::new(),
            sequence,
            cached: Vec::new(),
            last: Turn::default(),
            turns: 0,
        })
    }

    /// Forgets everything but the system message.
    pub fn reset(&mut self) {
        self.messages.retain(|m| m["role"] == "system");
        self.last = Turn::default();
    }

    pub fn system(&self) -> Option<&str> {
        self.messages.first().filter(|m| m["role"] == "system").and_then(|m| m["content"].as_str())
    }

    /// Replaces the system message; an empty one removes it.
    pub fn set_system(&mut self, text: &str) {
        self.messages.retain(|m| m["role"] != "system");
        if !text.is_empty() {
            self.messages.insert(0, json!({ "role": "system", "content": text }));
        }
    }

    /// Messages so far.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Tokens in the KV cache.
    pub fn cached(&self) -> usize {
        self.cached.len()
    }

    /// What `/save` writes and `akunu render` reads.
    pub fn to_json(&self) -> Value {
        json!({ "messages": self.messages })
    }

    /// Goes on with what `to_json` gave.
    pub fn load(&mut self, json: &str) -> Result<(), String> {
        let value: Value = serde_json::from_str(json).map_err(|e| format!("is not JSON: {e}"))?;
        let messages = value["messages"].as_array().ok_or("has no list of messages")?;
        if messages.iter().any(|m| !m["role"].is_string()) {
            return Err("has a message without a role".to_owned());
        }
        self.messages = messages.clone();
        self.last = Turn::default();
        Ok(())
    }

    /// Answers `text`. `each` first gets the prompt, whose end may open a thinking block, then the answer as it comes.
    pub fn answer(
        &mut self,
        text: &str,
        interrupt: &Interrupt,
        mut each: impl FnMut(Said<'_>) -> Result<()>,
    ) -> Result<Ended> {
        self.messages.push(json!({ "role": "user", "content": text }));
        let mut reply = String::new();
        let ended = self.reply(interrupt, |said| {
            if let Said::Answer(text) = said {
                reply.push_str(text);
            }
            each(said)
        });
        match &ended {
            // Nothing was said: the question is forgotten too, so that it can be asked again.
            Err(_) => drop(self.messages.pop()),
            Ok(Ended::Interrupted) if reply.is_empty() => drop(self.messages.pop()),
            Ok(_) => self.messages.push(json!({ "role": "assistant", "content": reply })),
        }
        ended
    }

    fn reply(&mut self, interrupt: &Interrupt, mut each: impl FnMut(Said<'_>) -> Result<()>) -> Result<Ended> {
        let prompt = self.prompter.prompt(&self.messages)?;
        let ids = Prompter::ids(self.engine.need_tokenizer()?, &prompt);
        if ids.len() >= self.engine.context() {
            let (tokens, context) = (ids.len(), self.engine.context());
            let sentence = format!("the conversation has {tokens} tokens, and the context only {context}");
            return Err(failure(sentence, "`/reset` it, or start again with a larger --context"));
        }
        each(Said::Prompt(&prompt))?;
        let reused = self.keep_common(&ids);
        let mut options = self.options.clone();
        options.sampling.seed = options.sampling.seed.wrapping_add(self.turns);
        self.turns += 1;
        let Self { engine, sequence, chunk, .. } = self;
        let answer =
            generation::answer(engine, sequence, &ids[reused..], options, *chunk, interrupt, |t| each(Said::Answer(t)));
        let tokens = answer.as_ref().map(|a| a.tokens.as_slice()).unwrap_or_default();
        self.remember(ids.iter().chain(tokens).copied());
        let answer = answer?;
        self.last = Turn { reused, speeds: answer.speeds };
        Ok(answer.ended)
    }

    /// Takes the KV cache back to what it shares with `ids`, but for the last token, which must be fed again to get its
    /// logits. Returns how many tokens it holds then.
    fn keep_common(&mut self, ids: &[u32]) -> usize {
        let common = self.cached.iter().zip(ids).take_while(|(a, b)| a == b).count();
        let common = common.min(ids.len().saturating_sub(1));
        if self.sequence.truncate(common).is_none() {
            // A sliding window has dropped what would be needed.
            self.forget();
            return 0;
        }
        self.cached.truncate(common);
        common
    }

    /// Notes which of `tokens` are in the KV cache. It may hold more than was given out, where greedy chains run ahead.
    fn remember(&mut self, tokens: impl Iterator<Item = u32>) {
        self.cached = tokens.collect();
        let stored = self.sequence.len();
        if stored > self.cached.len() && self.sequence.truncate(self.cached.len()).is_none() {
            return self.forget();
        }
        self.cached.truncate(stored);
    }

    fn forget(&mut self) {
        self.sequence = self.engine.sequence();
        self.cached.clear();
    }
}

/// What goes by while an answer is made.
pub enum Said<'a> {
    Prompt(&'a str),
    Answer(&'a str),
}
