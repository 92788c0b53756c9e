//! Chat templates: conversations to prompts, as HF transformers renders them.

mod budget;
mod builtins;
mod clock;
mod environment;
mod expression;
mod namespace;
mod python;
mod scan;
mod slice;
mod source;

use std::fmt;
use std::sync::Arc;

use akunu_limits::{Limits, over};
use minijinja::value::Value as Dynamic;
use minijinja::{Environment, ErrorKind};
use serde_json::{Map, Value};

use crate::error::{Error, excerpt};
use crate::guard;
use budget::Stopped;
use environment::Raised;

/// A template that turns a conversation into a prompt. Cloning shares it.
#[derive(Clone)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    source: Arc<str>,
    limits: Limits,
}

const NAME: &str = "chat template";

impl ChatTemplate {
    /// Compiles a template.
    pub fn new(source: &str) -> Result<Self, Error> {
        Self::new_within(source, Limits::default())
    }

    /// As [`Self::new`], within other limits, which also hold for its renderings.
    pub fn new_within(source: &str, limits: Limits) -> Result<Self, Error> {
        // The largest public ones have 30 KB.
        if source.len() as u64 > limits.template_bytes {
            return Err(Error::TemplateTooLong { bytes: source.len(), over: over!(limits, template_bytes) });
        }
        let prepared = source::prepare(source).map_err(|why| Error::TemplateSyntax(why.to_owned()))?;
        let mut environment = environment::build(limits.template_steps);
        environment.add_template_owned(NAME, prepared).map_err(|error| Error::TemplateSyntax(describe(&error)))?;
        Ok(ChatTemplate { environment: Arc::new(environment), source: source.into(), limits })
    }

    /// The template as it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Variables that some templates want and that are not in a conversation: today's date in UTC, in two forms, and the tools'
    /// functions as a text.
    pub fn extras(tools: &[Value]) -> Map<String, Value> {
        let functions: Vec<&Value> = tools.iter().map(|tool| &tool["function"]).collect();
        let functions = serde_json::to_string_pretty(&functions).unwrap_or_default();
        let extras = [
            ("date_string", clock::strftime_now("%d %b %Y")),
            ("datetime", clock::strftime_now("%b %d %Y")),
            ("functions", functions),
        ];
        extras.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect()
    }

    /// The prompt of a conversation. `input` is a map with `messages`, and with `tools`, `documents`,
    /// `add_generation_prompt` and any other variable that the template asks for.
    pub fn render(&self, input: &Value, bos: &str, eos: &str) -> Result<String, Error> {
        let Value::Object(input) = input else {
            return Err(Error::TemplateFailed("its input is not a map".to_owned()));
        };
        let rendered = guard::caught(|| self.render_here(input, bos, eos));
        namespace::clear();
        rendered
            .unwrap_or_else(|| Err(Error::TemplateFailed("the template engine could not make sense of it".to_owned())))
    }

    fn render_here(&self, input: &Map<String, Value>, bos: &str, eos: &str) -> Result<String, Error> {
        let failure = |error: minijinja::Error| failure(&error, &self.limits);
        budget::begin(self.limits.template_text_bytes, size(input.values()));
        // What transformers always passes, so that templates find them defined.
        let mut context: Vec<(&str, Dynamic)> = vec![
            ("messages", Dynamic::from(Vec::<Dynamic>::new())),
            ("tools", Dynamic::from(())),
            ("documents", Dynamic::from(())),
            ("add_generation_prompt", Dynamic::from(false)),
            ("bos_token", Dynamic::from(bos)),
            ("eos_token", Dynamic::from(eos)),
        ];
        context.extend(input.iter().map(|(key, value)| (key.as_str(), Dynamic::from_serialize(value))));
        for (_, value) in &context {
            budget::check_depth(value, MAX_INPUT_DEPTH).map_err(failure)?;
        }
        let context: Dynamic = context.into_iter().collect();
        let template = self.environment.get_template(NAME).map_err(failure)?;
        template.render(context).map_err(failure)
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("source", &self.source).finish_non_exhaustive()
    }
}

/// JSON that is read from text has at most 128 levels.
const MAX_INPUT_DEPTH: usize = 130;

/// How many bytes of text and values the input has, without recursion so that no depth can hurt.
fn size<'v>(values: impl Iterator<Item = &'v Value>) -> usize {
    let mut stack: Vec<&Value> = values.collect();
    let mut total = 0usize;
    while let Some(value) = stack.pop() {
        total += match value {
            Value::String(text) => text.len(),
            Value::Array(items) => {
                stack.extend(items);
                1
            }
            Value::Object(map) => {
                stack.extend(map.values());
                map.keys().map(String::len).sum()
            }
            _ => 8,
        };
    }
    total
}

fn failure(error: &minijinja::Error, limits: &Limits) -> Error {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(current) = cause {
        if let Some(raised) = current.downcast_ref::<Raised>() {
            return Error::TemplateRaised(shown(&raised.0));
        }
        if let Some(stopped) = current.downcast_ref::<Stopped>() {
            return match stopped.0 {
                what @ budget::TOO_MUCH_TEXT => Error::TemplateOver { what, over: over!(limits, template_text_bytes) },
                why => Error::TemplateStopped(why),
            };
        }
        if let Some(engine) = current.downcast_ref::<minijinja::Error>() {
            if engine.kind() == ErrorKind::OutOfFuel {
                return Error::TemplateOver { what: "it runs too long", over: over!(limits, template_steps) };
            }
            if engine.detail() == Some("recursion limit exceeded") {
                return Error::TemplateStopped("it recurses too deeply");
            }
        }
        cause = current.source();
    }
    Error::TemplateFailed(describe(error))
}

/// A message of the template's, as much of it as anybody reads, on one line.
fn shown(message: &str) -> String {
    const MOST_CHARS: usize = 500;
    let end = message.char_indices().nth(MOST_CHARS).map_or(message.len(), |(at, _)| at);
    let line = message[..end].chars().map(|c| if c.is_control() { ' ' } else { c });
    line.chain((end < message.len()).then_some('…')).collect()
}

/// The innermost reason and its line, in one sentence.
fn describe(error: &minijinja::Error) -> String {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("{} (line {line})", excerpt(&detail)),
        None => excerpt(&detail),
    }
}
