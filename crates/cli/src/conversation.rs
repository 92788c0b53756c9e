//! A conversation with a model: its messages, and the part of the KV cache that belongs to them.

use std::path::Path;

use akunu::{GenerateOptions, ReplyFormat, Sequence, Thinking};
use akunu_text::{ChatTemplate, Encode, Tokenizer};
use anyhow::Result;
use serde_json::{Value, json};

use crate::failure::{NextStep, failure};
use crate::generation::{self, Ended, Speeds, Writer};
use crate::interrupt::Interrupt;

/// A template with the special tokens it may write, and the form of the replies that it shows.
pub struct Prompter {
    template: ChatTemplate,
    format: ReplyFormat,
    bos: String,
    eos: String,
}

impl Prompter {
    pub fn new(template: ChatTemplate, tokenizer: &Tokenizer) -> Self {
        let format = ReplyFormat::of(&template, tokenizer);
        Self { template, format, bos: tokenizer.bos_text().to_owned(), eos: tokenizer.eos_text().to_owned() }
    }

    /// Lets the model think before a grammar binds it, as a prompt leaves it.
    pub fn let_think(&self, prompt: &str, options: &mut GenerateOptions) {
        if let Some(tags) = self.format.thinking() {
            let open = self.format.thinks_after(prompt);
            options.thinking = if open { Thinking::Open } else { Thinking::MayOpen };
            options.thoughts.tags = tags.clone();
        }
    }

    /// The prompt that asks for an answer to the messages.
    pub fn prompt(&self, messages: &[Value]) -> Result<String> {
        let input = json!({ "messages": messages, "add_generation_prompt": true });
        let next = "change the messages, or use another template";
        self.template.render(&input, &self.bos, &self.eos).next_step(next)
    }

    /// The ids of a rendered prompt: the template has written the special tokens already.
    pub fn ids(tokenizer: &Tokenizer, prompt: &str) -> Result<Vec<u32>> {
        Ok(tokenizer.encode(prompt, Encode { add_special: false, parse_special: true })?)
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
    pub writer: Writer,
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
    pub fn new(writer: Writer, template: ChatTemplate, options: GenerateOptions, chunk: usize) -> Result<Self> {
        let prompter = Prompter::new(template, writer.engine.need_tokenizer()?);
        let sequence = writer.engine.sequence();
        Ok(Self {
            writer,
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
        let (prompt, ids) = self.fitting_prompt()?;
        each(Said::Prompt(&prompt))?;
        let reused = self.keep_common(&ids);
        let mut options = self.options.clone();
        self.prompter.let_think(&prompt, &mut options);
        if options.context_shift.is_some() {
            options.context_shift = Some(self.system_tokens(&ids));
        }
        options.sampling.seed = options.sampling.seed.wrapping_add(self.turns);
        self.turns += 1;
        let Self { writer, sequence, chunk, .. } = self;
        let answer =
            generation::answer(writer, sequence, &ids, options, *chunk, interrupt, |p| each(Said::Answer(&p.text)));
        let (tokens, shifts) = answer.as_ref().map(|a| (&a.tokens[..], &a.shifts[..])).unwrap_or_default();
        self.remember(ids.iter().chain(tokens).copied().collect(), shifts);
        let answer = answer?;
        self.last = Turn { reused, speeds: answer.speeds };
        Ok(answer.ended)
    }

    /// The prompt of all messages; where it does not fit and may be shortened, without the oldest turns.
    fn fitting_prompt(&mut self) -> Result<(String, Vec<u32>)> {
        loop {
            let prompt = self.prompter.prompt(&self.messages)?;
            let engine = &self.writer.engine;
            let ids = Prompter::ids(engine.need_tokenizer()?, &prompt)?;
            let (tokens, context) = (ids.len(), engine.context());
            if tokens < context {
                return Ok((prompt, ids));
            }
            let first = usize::from(self.system().is_some());
            // The last message is the question.
            let turn = self.messages.len().saturating_sub(first + 1).min(2);
            if self.options.context_shift.is_none() || turn == 0 {
                let sentence = format!("the conversation has {tokens} tokens, and the context only {context}");
                return Err(failure(
                    sentence,
                    "`/reset` it, or start again with a larger --context or --context-shift",
                ));
            }
            self.messages.drain(first..first + turn);
        }
    }

    /// How many tokens of a prompt come before its first turn.
    fn system_tokens(&self, ids: &[u32]) -> usize {
        let Some(tokenizer) = self.writer.engine.tokenizer() else { return 0 };
        let question = json!({ "role": "user", "content": "" });
        let messages: Vec<Value> = self.messages.iter().take_while(|m| m["role"] == "system").cloned().collect();
        let alone = self.prompter.prompt(&[messages, vec![question]].concat()).unwrap_or_default();
        let alone = Prompter::ids(tokenizer, &alone).unwrap_or_default();
        alone.iter().zip(ids).take_while(|(a, b)| a == b).count()
    }

    /// Takes the KV cache back to what it shares with `ids`, but for the last token, which must be fed again to get its
    /// logits. Returns how many tokens it holds then.
    fn keep_common(&mut self, ids: &[u32]) -> usize {
        let mut common = common(&self.cached, ids);
        // Where the oldest turns are gone, what follows them moves up.
        if let Some(dropped) = moved(&self.cached[common..], &ids[common..])
            && self.options.context_shift.is_some()
            && self.writer.engine.shift(&mut self.sequence, common, dropped).is_ok()
        {
            self.cached.drain(common..common + dropped);
            common = self.cached.len();
        }
        let common = common.min(ids.len().saturating_sub(1));
        if self.sequence.truncate(common).is_none() {
            // A sliding window has dropped what would be needed.
            self.forget();
            return 0;
        }
        self.cached.truncate(common);
        common
    }

    /// Notes which tokens of `text` are in the KV cache. It may hold more than was given out, where greedy chains run ahead.
    fn remember(&mut self, text: Vec<u32>, shifts: &[(usize, usize)]) {
        self.cached = generation::stored(text, shifts, self.sequence.len());
        if self.sequence.len() > self.cached.len() && self.sequence.truncate(self.cached.len()).is_none() {
            self.forget();
        }
    }

    /// Writes the conversation with its part of the KV cache.
    pub fn save_session(&mut self, path: &Path) -> Result<()> {
        let note = self.to_json().to_string();
        let Self { writer, sequence, cached, .. } = self;
        Ok(writer.engine.save_session(path, sequence, cached, &note)?)
    }

    /// Goes on with what `save_session` wrote.
    pub fn load_session(&mut self, path: &Path) -> Result<()> {
        let session = self.writer.engine.load_session(path)?;
        self.load(&session.note).map_err(|what| anyhow::anyhow!("{}: its note {what}", path.display()))?;
        (self.sequence, self.cached) = (session.sequence, session.tokens);
        self.cached.truncate(self.sequence.len());
        Ok(())
    }

    fn forget(&mut self) {
        self.sequence = self.writer.engine.sequence();
        self.cached.clear();
    }
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// How many tokens must go from the beginning of `old` so that `new` begins with the rest; some must stay.
fn moved(old: &[u32], new: &[u32]) -> Option<usize> {
    (1..old.len()).find(|at| new.starts_with(&old[*at..]))
}

/// What goes by while an answer is made.
pub enum Said<'a> {
    Prompt(&'a str),
    Answer(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_up_is_found_where_the_rest_is_the_same() {
        assert_eq!(moved(&[1, 2, 3, 4], &[3, 4, 5]), Some(2));
        assert_eq!(moved(&[1, 2, 3], &[2, 3]), Some(1));
        assert_eq!(moved(&[1, 2, 3], &[2, 4]), None);
        assert_eq!(moved(&[], &[1]), None);
        // Nothing of it would stay.
        assert_eq!(moved(&[1], &[2]), None);
    }
}
