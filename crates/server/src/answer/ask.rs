//! What every dialect's request for text becomes.

use super::Tools;
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
    pub tools: Tools,
}
