//! A model that writes, with all that stands between messages and tokens.

use super::Entry;
use crate::Options;
use crate::answer::Think;
use crate::problem::Problem;
use akunu::{ChatTemplate, Engine, LoadOptions, SchedulerOptions, Service, Tokenizer};
use akunu_formats::ModelFile;
use serde_json::{Map, Value};
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
    template: Option<ChatTemplate>,
    path: String,
}

/// Room for some sequences of full length; those that run beyond it give their blocks back in turn.
pub fn load_options(options: &Options) -> LoadOptions {
    let SchedulerOptions { sequences, cache, .. } = options.scheduler;
    LoadOptions { sequences: sequences.min(4), extra_positions: cache, ..options.load.clone() }
}

impl Generator {
    pub fn load(entry: &Entry, file: ModelFile, options: &Options) -> Result<Self, Problem> {
        let template = match &entry.template {
            Some(source) => ChatTemplate::new(source),
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
        Ok(Self {
            name: entry.name.clone(),
            context: engine.context(),
            vocab: engine.vocab(),
            tokenizer: engine.tokenizer().cloned(),
            template,
            path: engine.file().path().display().to_string(),
            queue: Arc::new(Semaphore::new(options.limits.queue)),
            service: Service::start(engine, options.scheduler)?,
        })
    }

    pub fn tokenizer(&self) -> Result<&Tokenizer, Problem> {
        self.tokenizer.as_ref().ok_or_else(|| akunu::Error::NoTokenizer { path: self.path.clone() }.into())
    }

    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// The prompt that asks for an answer to the messages; with the variable `continue_final_message`, one that ends where
    /// the last message does, to go on with it.
    pub fn render(&self, messages: Vec<Value>, variables: Map<String, Value>, think: Think) -> Result<String, Problem> {
        let tokenizer = self.tokenizer()?;
        let Some(template) = &self.template else {
            return Err(Problem::invalid("the model has no chat template: ask for a completion instead"));
        };
        let mut input = variables;
        let goes_on = input.remove("continue_final_message").is_some_and(|value| value == true);
        let last = messages.last().and_then(|m| m["content"].as_str()).map(|text| text.trim().to_owned());
        input.insert("messages".into(), messages.into());
        input.entry("add_generation_prompt").or_insert((!goes_on).into());
        match think {
            Think::Usual => {}
            Think::Not => drop(input.entry("enable_thinking").or_insert(false.into())),
            Think::Upto(_) => drop(input.entry("enable_thinking").or_insert(true.into())),
        }
        let mut prompt = template.render(&input.into(), tokenizer.bos_text(), tokenizer.eos_text())?;
        if goes_on {
            // What the template writes after a message would end it.
            let end = last.and_then(|last| prompt.rfind(&last).map(|at| at + last.len()));
            prompt.truncate(end.ok_or_else(|| {
                Problem::invalid("the chat template does not write the last message as it is: it cannot be continued")
            })?);
        }
        Ok(prompt)
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
