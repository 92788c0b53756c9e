//! A model that writes, with all that stands between messages and tokens.

use super::Entry;
use super::catalog::Stamp;
use super::snapshots::{Kept, Snapshots};
use crate::Options;
use crate::answer::{Conversation, Think, Tools};
use crate::problem::Problem;
use akunu::{ChatTemplate, Engine, LoadOptions, ReplyFormat, Scheduler, SchedulerOptions, Service, Tokenizer};
use akunu_formats::ModelFile;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Semaphore;

pub struct Generator {
    pub name: String,
    pub service: Service,
    pub context: usize,
    pub vocab: usize,
    /// A place for every answer that waits or runs.
    pub queue: Arc<Semaphore>,
    tokenizer: Option<Tokenizer>,
    /// How messages become a prompt, and the form of the reply.
    speech: Option<(ChatTemplate, ReplyFormat)>,
    path: String,
    /// Of the file, as it was loaded.
    stamp: Option<Stamp>,
    dropped_lines: Vec<String>,
    think: Option<bool>,
}

/// Room for some sequences of full length; those that run beyond it give their blocks back in turn.
pub fn load_options(options: &Options) -> LoadOptions {
    let SchedulerOptions { sequences, cache, .. } = options.scheduler;
    LoadOptions { sequences: sequences.min(4), extra_positions: cache, ..options.load.clone() }
}

impl Generator {
    /// Loads it, and puts back what it remembered when it was let go.
    pub fn load(entry: &Entry, file: ModelFile, options: &Options, snapshots: &Snapshots) -> Result<Self, Problem> {
        let stamp = entry.stamp();
        let template = match &entry.template {
            Some(source) => ChatTemplate::new_within(source, options.load.limits),
            None => ChatTemplate::from_model_file(&file),
        };
        let template = match template {
            Ok(template) => Some(template),
            Err(akunu_text::Error::NoChatTemplate) => None,
            Err(error) => {
                tracing::warn!(model = %file.path().display(), %error, "the chat template cannot be used");
                None
            }
        };
        let engine = Engine::from_file(file, load_options(options))?;
        let speech = template.zip(engine.tokenizer()).map(|(template, tokenizer)| {
            let format = ReplyFormat::of(&template, tokenizer);
            (template, format)
        });
        let mut scheduler = Scheduler::new(engine, options.scheduler);
        if let Some(snapshot) = stamp.as_ref().and_then(|stamp| snapshots.take(&entry.name, stamp)) {
            let positions = scheduler.restore(&snapshot);
            tracing::info!(model = entry.name, positions, "remembered");
        }
        let engine = scheduler.engine();
        Ok(Self {
            name: entry.name.clone(),
            context: engine.context(),
            vocab: engine.vocab(),
            tokenizer: engine.tokenizer().cloned(),
            speech,
            dropped_lines: options.dropped_lines.clone(),
            think: options.think,
            path: engine.file().path().display().to_string(),
            queue: Arc::new(Semaphore::new(options.limits.queue)),
            stamp,
            service: Service::run(scheduler)?,
        })
    }

    /// Ends it; what it remembers, up to so many bytes, where that can be given back to the same file.
    pub fn let_go(self, most: u64) -> Option<Kept> {
        let snapshot = self.service.stop()?.snapshot(most);
        (snapshot.bytes() > 0).then_some(Kept { model: self.name, stamp: self.stamp?, snapshot })
    }

    pub fn tokenizer(&self) -> Result<&Tokenizer, Problem> {
        self.tokenizer.as_ref().ok_or_else(|| akunu::Error::NoTokenizer { path: self.path.clone() }.into())
    }

    pub fn template(&self) -> Option<&ChatTemplate> {
        self.speech.as_ref().map(|speech| &speech.0)
    }

    /// The form in which it replies to messages.
    pub fn format(&self) -> Result<&ReplyFormat, Problem> {
        Ok(&self.speech()?.1)
    }

    fn speech(&self) -> Result<&(ChatTemplate, ReplyFormat), Problem> {
        let none = || Problem::invalid("the model has no chat template: ask for a completion instead");
        self.speech.as_ref().ok_or_else(none)
    }

    /// The prompt that asks for an answer to the messages.
    pub fn prompt(&self, conversation: Conversation, think: Think, tools: &Tools) -> Result<String, Problem> {
        let Conversation { mut messages, mut variables, goes_on } = conversation;
        let (template, format) = self.speech()?;
        drop_lines(&mut messages, &self.dropped_lines);
        let begun = ReplyFormat::is_begun(&messages);
        if goes_on == Some(true) && !begun {
            let sentence = "continue_final_message: the last message is not an answer that can be gone on with";
            return Err(Problem::field("continue_final_message", sentence));
        }
        match think {
            Think::Usual => drop(self.think.map(|think| variables.entry("enable_thinking").or_insert(think.into()))),
            Think::Not => drop(variables.entry("enable_thinking").or_insert(false.into())),
            Think::Upto(_) => drop(variables.entry("enable_thinking").or_insert(true.into())),
        }
        let shown = if tools.are_offered() { &tools.shown[..] } else { &[] };
        let goes_on = goes_on.unwrap_or(begun);
        Ok(format.prompt(template, (messages, goes_on), variables, shown)?)
    }

    /// The text of a token, with half characters replaced.
    pub fn token_text(&self, token: u32) -> String {
        self.tokenizer.as_ref().map_or_else(String::new, |t| String::from_utf8_lossy(t.token_bytes(token)).into_owned())
    }

    /// The bytes of a token.
    pub fn token_bytes(&self, token: u32) -> &[u8] {
        self.tokenizer.as_ref().map_or(&[], |t| t.token_bytes(token))
    }
}

/// Takes lines that begin so out of system messages: what changes with every request would make the cache useless.
fn drop_lines(messages: &mut [Value], beginnings: &[String]) {
    let drops = |line: &str| beginnings.iter().any(|b| line.trim_start().starts_with(b.as_str()));
    for message in messages.iter_mut().filter(|m| m["role"] == "system") {
        if let Value::String(text) = &mut message["content"]
            && text.lines().any(drops)
        {
            *text = text.split_inclusive('\n').filter(|line| !drops(line)).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_lines_of_system_messages_are_dropped() {
        let text = "x-billing: 17; a=b\nYou help.\n  x-billing: 18\nAlways.";
        let mut messages =
            vec![json!({ "role": "system", "content": text }), json!({ "role": "user", "content": text })];
        drop_lines(&mut messages, &["x-billing:".to_owned()]);
        assert_eq!((&messages[0]["content"], &messages[1]["content"]), (&json!("You help.\nAlways."), &json!(text)));
    }
}
