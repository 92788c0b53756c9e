//! Messages made of blocks, as messages that chat templates take.

use crate::http::body::read;
use crate::problem::Problem;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Turn {
    role: Role,
    /// A text, or blocks.
    content: Value,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
    System,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    /// Thoughts that only their writer can read.
    RedactedThinking {},
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        content: Option<Value>,
        #[serde(default)]
        is_error: bool,
    },
}

/// All that has been said, in its order. Turns of one side in a row are one message, as that API has it: many templates take
/// only sides that alternate.
pub fn plain(system: Option<Value>, turns: Vec<Turn>) -> Result<Vec<Value>, Problem> {
    let mut history = History::default();
    if let Some(system) = system {
        history.open(Role::System);
        history.say("content", &text(system, "system")?, "");
    }
    for (i, turn) in turns.into_iter().enumerate() {
        let at = format!("messages[{i}].content");
        let blocks = blocks(turn.content, &at)?;
        if blocks.is_empty() {
            history.open(turn.role);
        }
        for (j, block) in blocks.into_iter().enumerate() {
            history.block(turn.role, block, &format!("{at}[{j}]"))?;
        }
    }
    Ok(history.done())
}

/// A text, or blocks of which each is one.
fn blocks(content: Value, at: &str) -> Result<Vec<Block>, Problem> {
    match content {
        Value::String(text) => Ok(vec![Block::Text { text }]),
        Value::Array(_) => read(content, at),
        _ => Err(Problem::field(at, format!("{at} must be a text or a list of blocks"))),
    }
}

/// What can only be text.
fn text(content: Value, at: &str) -> Result<String, Problem> {
    let mut text = String::new();
    for block in blocks(content, at)? {
        let Block::Text { text: line } = block else {
            return Err(Problem::field(at, format!("{at} must be a text or a list of blocks of text")));
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text += &line;
    }
    Ok(text)
}

#[derive(Default)]
struct History {
    messages: Vec<Map<String, Value>>,
    /// Of the tools, by the identifiers of calls.
    names: HashMap<String, String>,
}

impl History {
    /// Goes on with the last message where it is the same side's, or begins one.
    fn open(&mut self, role: Role) {
        let name = role.name();
        let goes_on = role != Role::System && self.messages.last().is_some_and(|m| m["role"] == name);
        if !goes_on {
            self.push(json!({ "role": name, "content": "" }));
        }
    }

    fn push(&mut self, message: Value) {
        if let Value::Object(message) = message {
            self.messages.push(message);
        }
    }

    /// Adds to a field of the last message.
    fn say(&mut self, field: &str, text: &str, between: &str) {
        let Some(message) = self.messages.last_mut() else { return };
        if let Value::String(said) = message.entry(field).or_insert_with(|| "".into()) {
            if !said.is_empty() && !text.is_empty() {
                *said += between;
            }
            *said += text;
        }
    }

    fn block(&mut self, role: Role, block: Block, at: &str) -> Result<(), Problem> {
        match block {
            Block::Text { text } => {
                self.open(role);
                // What the model wrote stands as it wrote it; blocks of others are lines of their own.
                self.say("content", &text, if role == Role::Assistant { "" } else { "\n" });
            }
            Block::Thinking { thinking } if role == Role::Assistant => {
                self.open(role);
                self.say("reasoning_content", &thinking, "");
            }
            Block::RedactedThinking {} if role == Role::Assistant => {}
            Block::ToolUse { id, name, input } if role == Role::Assistant => {
                self.open(role);
                self.names.insert(id.clone(), name.clone());
                let call = json!({ "id": id, "type": "function", "function": { "name": name, "arguments": input } });
                let calls = self.messages.last_mut().map(|m| m.entry("tool_calls").or_insert_with(|| json!([])));
                if let Some(Value::Array(calls)) = calls {
                    calls.push(call);
                }
            }
            Block::ToolResult { tool_use_id, content, is_error } if role == Role::User => {
                let Some(name) = self.names.get(&tool_use_id) else {
                    let sentence = format!("{at}.tool_use_id: no tool_use block before it has this id");
                    return Err(Problem::field(format!("{at}.tool_use_id"), sentence));
                };
                let said = content.map(|c| text(c, &format!("{at}.content"))).transpose()?.unwrap_or_default();
                // Templates have no other place for it.
                let said = if is_error { format!("Error: {said}") } else { said };
                self.push(json!({ "role": "tool", "tool_call_id": tool_use_id, "name": name, "content": said }));
            }
            _ => {
                let sentence = format!("{at}: a block of this type cannot be in a message of the role {}", role.name());
                return Err(Problem::field(at, sentence));
            }
        }
        Ok(())
    }

    fn done(self) -> Vec<Value> {
        self.messages.into_iter().map(Value::Object).collect()
    }
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(turns: Value) -> Result<Vec<Value>, Problem> {
        plain(None, serde_json::from_value(turns).unwrap())
    }

    #[test]
    fn calls_and_their_results_become_messages_of_their_own() {
        let turns = json!([
            { "role": "user", "content": "What time is it?" },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "I have a clock.", "signature": "" },
                { "type": "text", "text": "Let me " },
                { "type": "text", "text": "see." },
                { "type": "tool_use", "id": "toolu_1", "name": "clock", "input": { "zone": "UTC" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": [{ "type": "text", "text": "broken" }], "is_error": true },
                { "type": "text", "text": "Then guess." },
            ] },
            { "role": "user", "content": "Please." },
        ]);
        let call = json!({ "id": "toolu_1", "type": "function", "function": { "name": "clock", "arguments": { "zone": "UTC" } } });
        let messages = [
            json!({ "role": "user", "content": "What time is it?" }),
            json!({ "role": "assistant", "content": "Let me see.", "reasoning_content": "I have a clock.", "tool_calls": [call] }),
            json!({ "role": "tool", "tool_call_id": "toolu_1", "name": "clock", "content": "Error: broken" }),
            json!({ "role": "user", "content": "Then guess.\nPlease." }),
        ];
        assert_eq!(of(turns).unwrap(), messages);
    }

    #[test]
    fn a_block_on_the_wrong_side_is_named() {
        let call = json!({ "type": "tool_use", "id": "a", "name": "b", "input": {} });
        let problem = of(json!([{ "role": "user", "content": ["x"] }])).unwrap_err();
        assert!(problem.message.starts_with("messages[0].content[0]"), "{}", problem.message);
        let problem = of(json!([{ "role": "user", "content": [{ "type": "text", "text": "x" }, call] }])).unwrap_err();
        assert_eq!(problem.field.as_deref(), Some("messages[0].content[1]"));
    }
}
