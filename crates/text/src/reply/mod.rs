//! Replies: the form in which a family's models write thoughts, text and calls of tools. What a chat template shows of it
//! chooses the form; it makes a grammar, so that a call is always valid, and a reader that takes a reply apart as it comes.

mod arguments;
mod braces;
mod families;
mod fixed;
mod form;
mod literal;
mod parameters;
mod reader;
mod recognize;
mod shape;
mod unwrap;
mod values;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{ChatTemplate, Error, Grammar, Tokenizer};
use families::{Arguments, Family};
use literal::Literal;
use parameters::Parameter;
pub use reader::{ReplyPart, ReplyReader};
pub use values::closed as closed_schema;

/// What a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: String,
    pub parameters: ToolInput,
    /// Whether a keyword of the schema that cannot be kept is an error; else the keyword is passed over.
    pub strict: bool,
}

/// What a tool takes.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolInput {
    /// A JSON object that a schema describes.
    Schema(Value),
    /// A text, of a form where there is a grammar.
    Text(Option<Grammar>),
}

/// Whether a reply calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It does not.
    None,
    /// As the model likes.
    #[default]
    Auto,
    /// It does.
    Required,
    /// It calls this one.
    Named(String),
}

/// What stands around a model's thoughts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThinkTags {
    pub open: String,
    pub close: String,
    /// What comes between the end of the thoughts and the answer.
    pub then: String,
    /// Whether thoughts are a part of the form that [`ReplyFormat::grammar`] gives.
    pub in_grammar: bool,
}

impl Default for ThinkTags {
    fn default() -> Self {
        ThinkTags { open: "<think>".into(), close: "</think>".into(), then: "\n\n".into(), in_grammar: false }
    }
}

/// The form in which a model replies. Cloning shares it.
#[derive(Clone)]
pub struct ReplyFormat {
    inner: Arc<Inner>,
}

struct Inner {
    family: Family,
    pieces: Pieces,
    tokenizer: Tokenizer,
    thinking: Option<ThinkTags>,
    /// Whether the template tells the model which tools there are.
    shows_tools: bool,
    /// Whether the template takes a call's arguments as the text that JSON is, and not as a map.
    arguments_as_text: bool,
}

/// A family's pieces in this vocabulary.
struct Pieces {
    first: Literal,
    next: Option<Literal>,
    lead: Literal,
    middle: Literal,
    after: Literal,
    close: Literal,
    text: (Literal, Literal),
    tags: Option<TagPieces>,
    /// Around strings, where arguments are no JSON.
    quote: Option<Literal>,
    turns: Vec<Literal>,
    strays: Vec<Stray>,
    think: Option<(Literal, Literal)>,
}

/// What stands around a call that is the whole reply.
struct Stray {
    first: Literal,
    after: Literal,
}

struct TagPieces {
    open: Literal,
    equals: [Literal; 2],
    close: Literal,
}

impl ReplyFormat {
    /// The form that a template shows; JSON where it shows none.
    pub fn of(template: &ChatTemplate, tokenizer: &Tokenizer) -> ReplyFormat {
        recognize::format(template, tokenizer)
    }

    /// The form where there is no template.
    pub fn generic(tokenizer: &Tokenizer) -> ReplyFormat {
        ReplyFormat::new(families::generic(), tokenizer, None, false, false)
    }

    fn new(
        family: Family,
        tokenizer: &Tokenizer,
        thinking: Option<ThinkTags>,
        shows_tools: bool,
        arguments_as_text: bool,
    ) -> ReplyFormat {
        let literal = |text: &str| Literal::new(text, tokenizer);
        let tags = match &family.arguments {
            Arguments::Json | Arguments::Braces(_) => None,
            Arguments::Tagged(tags) => Some(TagPieces {
                open: literal(tags.open),
                equals: tags.equals.map(literal),
                close: literal(tags.close),
            }),
        };
        let quote = match &family.arguments {
            Arguments::Braces(quote) => Some(literal(quote)),
            Arguments::Json | Arguments::Tagged(_) => None,
        };
        let pieces = Pieces {
            first: literal(&family.first),
            next: family.next.as_deref().map(literal),
            lead: literal(family.lead),
            middle: literal(family.middle),
            after: literal(&family.after),
            close: literal(family.close),
            text: (literal(family.text.0), literal(family.text.1)),
            tags,
            quote,
            turns: family.turns.iter().map(|turn| literal(turn)).collect(),
            strays: family
                .strays
                .iter()
                .map(|(first, after)| Stray { first: literal(first), after: literal(after) })
                .collect(),
            think: thinking.as_ref().map(|tags| (literal(&tags.open), literal(&tags.close))),
        };
        let tokenizer = tokenizer.clone();
        ReplyFormat { inner: Arc::new(Inner { family, pieces, tokenizer, thinking, shows_tools, arguments_as_text }) }
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.inner.family.name
    }

    /// What stands around thoughts; `None` where the model does not think.
    pub fn thinking(&self) -> Option<&ThinkTags> {
        self.inner.thinking.as_ref()
    }

    /// Whether the end of a prompt has opened a thinking block.
    pub fn thinks_after(&self, prompt: &str) -> bool {
        self.thinking().is_some_and(|tags| prompt.trim_end().ends_with(tags.open.trim_end()))
    }

    /// Whether the template tells the model which tools there are. Where it does not, [`Self::instructions`] do.
    pub fn shows_tools(&self) -> bool {
        self.inner.shows_tools
    }

    /// Whether a reply can have more than one call.
    pub fn has_parallel_calls(&self) -> bool {
        self.inner.family.next.is_some()
    }

    /// What tells a model how to call tools. `tools` are as templates take them.
    pub fn instructions(&self, tools: &[Value]) -> String {
        let tools: Vec<String> = tools.iter().map(values::json).collect();
        format!(
            "You can call these tools:\n{}\nTo call one, reply with nothing but {}NAME{}{{...}}{} where the braces hold its arguments.",
            tools.join("\n"),
            self.inner.family.first,
            self.inner.family.middle,
            self.inner.family.after,
        )
    }

    /// Whether the last message is a reply that can be gone on with.
    pub fn is_begun(messages: &[Value]) -> bool {
        messages.last().is_some_and(|last| last["role"] == "assistant" && last.get("tool_calls").is_none())
    }

    /// The prompt that asks for a reply to messages, or that goes on with the last of them where that is said, made by the
    /// template that the form was read from; `tools` are as templates take them.
    pub fn prompt(
        &self,
        template: &ChatTemplate,
        (mut messages, goes_on): (Vec<Value>, bool),
        mut variables: Map<String, Value>,
        tools: &[Value],
    ) -> Result<String, Error> {
        self.normalize(&mut messages);
        if !tools.is_empty() {
            if self.shows_tools() {
                variables.insert("tools".into(), tools.into());
            } else {
                instruct(&mut messages, &self.instructions(tools));
            }
        }
        let begun = if goes_on { messages.pop() } else { None };
        match &begun {
            // What has begun comes after the prompt for it.
            Some(_) => drop(variables.insert("add_generation_prompt".into(), true.into())),
            None => drop(variables.entry("add_generation_prompt").or_insert(true.into())),
        }
        for (name, extra) in ChatTemplate::extras(tools) {
            variables.entry(name).or_insert(extra);
        }
        variables.insert("messages".into(), messages.into());
        let tokenizer = &self.inner.tokenizer;
        let prompt = template.render(&variables.into(), tokenizer.bos_text(), tokenizer.eos_text())?;
        Ok(prompt + begun.as_ref().and_then(|b| b["content"].as_str()).unwrap_or_default())
    }

    /// The form that a reply must have; `None` where it is free. `answer` is the form of a reply that is no call.
    pub fn grammar(
        &self,
        tools: &[Tool],
        choice: &ToolChoice,
        parallel: bool,
        answer: Option<&Grammar>,
    ) -> Result<Option<Grammar>, Error> {
        form::grammar(&self.inner, tools, choice, parallel, answer)
    }

    /// Reads a reply to `prompt`, whose end may have opened a thinking block.
    pub fn reader(&self, prompt: &str, tools: &[Tool]) -> ReplyReader {
        ReplyReader::new(self.inner.clone(), tools, self.thinks_after(prompt))
    }

    /// Brings the calls in `messages` into the shape that the template takes: arguments are a map, or the text that JSON
    /// is, whichever way they came; a message without content has an empty one.
    pub fn normalize(&self, messages: &mut [Value]) {
        for message in messages {
            let Some(message) = message.as_object_mut() else { continue };
            let Some(Value::Array(calls)) = message.get_mut("tool_calls") else { continue };
            for call in calls {
                let call = if call.get("function").is_some() { &mut call["function"] } else { call };
                if let Some(arguments) = call.get_mut("arguments") {
                    values::reshape(arguments, self.inner.arguments_as_text);
                }
            }
            let content = message.entry("content").or_insert(Value::Null);
            if content.is_null() {
                *content = "".into();
            }
        }
    }
}

/// Adds instructions to the system message, or makes it.
fn instruct(messages: &mut Vec<Value>, instructions: &str) {
    match messages.first_mut().filter(|m| m["role"] == "system") {
        Some(system) => {
            let text = format!("{}\n\n{instructions}", system["content"].as_str().unwrap_or_default());
            system["content"] = text.into();
        }
        None => messages.insert(0, serde_json::json!({ "role": "system", "content": instructions })),
    }
}

impl fmt::Debug for ReplyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyFormat").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// The name of the only argument of a tool that takes a text.
const INPUT: &str = "input";

impl Tool {
    /// Whether its text comes as it is, in place of arguments: JSON cannot have its form.
    fn is_raw(&self) -> bool {
        !matches!(&self.parameters, ToolInput::Schema(_) | ToolInput::Text(None | Some(Grammar::Regex(_))))
    }

    /// The schema of its arguments.
    fn schema(&self) -> Value {
        match &self.parameters {
            ToolInput::Schema(schema) => values::arguments(schema),
            ToolInput::Text(grammar) => {
                let mut input = serde_json::json!({ "type": "string" });
                if let Some(Grammar::Regex(pattern)) = grammar {
                    input["pattern"] = format!("^(?:{pattern})$").into();
                }
                serde_json::json!({
                    "type": "object", "properties": { INPUT: input }, "required": [INPUT], "additionalProperties": false,
                })
            }
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        parameters::of(&self.schema())
    }
}
