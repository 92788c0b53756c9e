//! What every dialect's request for text becomes.

use akunu::{GenerateOptions, Grammar};
use serde_json::{Map, Value};

/// What to go on from.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// Messages as chat templates take them, with other variables of the template's.
    Messages { messages: Vec<Value>, variables: Map<String, Value> },
    /// A text to continue, special tokens in it read as such.
    Text(String),
    /// The same, encoded by the client.
    Tokens(Vec<u32>),
}

impl Prompt {
    /// Messages of which the last, where the model itself began it, is gone on with.
    pub fn conversation(messages: Vec<Value>, mut variables: Map<String, Value>) -> Self {
        let begun = |m: &Value| m["role"] == "assistant" && m["content"] != "" && m.get("tool_calls").is_none();
        if messages.last().is_some_and(begun) {
            variables.insert("continue_final_message".into(), true.into());
        }
        Prompt::Messages { messages, variables }
    }
}

/// Whether the model thinks before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Think {
    /// As its template has it.
    #[default]
    Usual,
    Not,
    /// With at most so many tokens; `None`: as many as it likes.
    Upto(Option<usize>),
}

/// A request for text.
#[derive(Clone, Debug)]
pub struct Ask {
    pub model: Option<String>,
    pub prompt: Prompt,
    /// `grammar` and `thinking` in it are set from what follows.
    pub options: GenerateOptions,
    /// How many answers; each has a seed of its own.
    pub choices: usize,
    /// The form of the answer.
    pub form: Option<Grammar>,
    pub think: Think,
}
