//! What the model may call, as requests say it.

use crate::http::body::short;
use crate::problem::Problem;
use akunu::{Grammar, Tool, ToolChoice, ToolInput};
use serde_json::{Value, json};
use std::collections::HashMap;

/// What the model may call.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// As chat templates take them: `{"type": "function", "function": …}`.
    pub shown: Vec<Value>,
    /// The same, for the grammar.
    pub list: Vec<Tool>,
    pub choice: ToolChoice,
    /// The namespaces of tools that have one.
    pub namespaces: HashMap<String, String>,
    /// More than one in a reply.
    pub parallel: bool,
}

/// The most tools of a request, and the longest name.
const MOST_TOOLS: usize = 512;
const LONGEST_NAME: usize = 128;

impl Tools {
    /// None.
    pub fn none() -> Self {
        Self { choice: ToolChoice::Auto, parallel: true, ..Self::default() }
    }

    /// Adds a tool; `field` is where the request has it.
    pub fn add(
        &mut self,
        field: &str,
        name: &str,
        description: Option<&str>,
        input: ToolInput,
        strict: bool,
    ) -> Result<(), Problem> {
        let fault = |what: String| Err(Problem::field(field, format!("{field}: {what}")));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_name) {
            return fault(format!("{:?} cannot be the name of a tool", short(name)));
        }
        if self.list.iter().any(|tool| tool.name == name) {
            return fault(format!("there are two tools called {name}"));
        }
        if self.list.len() >= MOST_TOOLS {
            return fault(format!("there are more than {MOST_TOOLS} tools"));
        }
        let parameters = match &input {
            ToolInput::Schema(schema) => schema.clone(),
            ToolInput::Text(_) => {
                json!({ "type": "object", "properties": { "input": { "type": "string" } }, "required": ["input"] })
            }
        };
        let mut function = json!({ "name": name, "description": description.unwrap_or_default() });
        function["parameters"] = parameters;
        self.shown.push(json!({ "type": "function", "function": function }));
        self.list.push(Tool { name: name.to_owned(), parameters: input, strict });
        Ok(())
    }

    /// What may be called is one of these, if it was named.
    pub fn check(&self, field: &str) -> Result<(), Problem> {
        match &self.choice {
            ToolChoice::Named(name) if !self.list.iter().any(|tool| tool.name == *name) => {
                Err(Problem::field(field, format!("{field}: there is no tool called {:?}", short(name))))
            }
            ToolChoice::Required if self.list.is_empty() => {
                Err(Problem::field(field, format!("{field}: there are no tools to call")))
            }
            _ => Ok(()),
        }
    }

    /// Whether a reply may call any.
    pub fn are_offered(&self) -> bool {
        !self.list.is_empty() && self.choice != ToolChoice::None
    }

    /// Whether a tool takes a text instead of JSON.
    pub fn takes_text(&self, name: &str) -> bool {
        self.list.iter().any(|tool| tool.name == name && matches!(tool.parameters, ToolInput::Text(_)))
    }
}

/// The form of a custom tool's text: `{"type": "grammar", "syntax": "lark" | "regex", "definition": …}`, or free text.
pub fn custom_form(field: &str, format: Option<&Value>) -> Result<Option<Grammar>, Problem> {
    let Some(format) = format.filter(|f| !f.is_null()) else { return Ok(None) };
    // One API has them one level deeper.
    let grammar = format.get("grammar").unwrap_or(format);
    let text = |name: &str| grammar[name].as_str();
    match (format["type"].as_str(), text("syntax"), text("definition")) {
        (Some("text"), ..) => Ok(None),
        (Some("grammar"), Some("lark"), Some(definition)) => Ok(Some(Grammar::Lark(definition.to_owned()))),
        (Some("grammar"), Some("regex"), Some(definition)) => Ok(Some(Grammar::Regex(definition.to_owned()))),
        _ => Err(Problem::field(field, format!("{field}: a format is text, or a grammar with syntax and definition"))),
    }
}
