//! What every dialect's request for text becomes.

use super::Tools;
use akunu::{Encode, GenerateOptions, Grammar, Tokenizer};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What to go on from.
#[derive(Clone, Debug)]
pub enum Prompt {
    Messages(Conversation),
    Row(Row),
}

/// Messages as chat templates take them.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    pub messages: Vec<Value>,
    /// Other variables of the template's.
    pub variables: Map<String, Value>,
    /// Whether the last message is one that has begun and is gone on with; `None`: where it is an answer without calls.
    pub goes_on: Option<bool>,
}

impl Conversation {
    /// Whose last message is gone on with where it is an answer.
    pub fn new(messages: Vec<Value>, variables: Map<String, Value>) -> Self {
        Self { messages, variables, goes_on: None }
    }
}

/// A text in pieces: special tokens in texts are read as such, tokens are as the client encoded them.
pub type Row = Vec<Piece>;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Piece {
    Text(String),
    Token(u32),
}

/// The tokens of a row; where it begins with a text, with what the model wants around one.
pub fn encode(tokenizer: &Tokenizer, row: &[Piece]) -> Result<Vec<u32>, akunu::Error> {
    let mut tokens = Vec::new();
    for (i, piece) in row.iter().enumerate() {
        match piece {
            Piece::Token(token) => tokens.push(*token),
            Piece::Text(text) => {
                tokens.extend(tokenizer.encode(text, Encode { add_special: i == 0, parse_special: true })?);
            }
        }
    }
    Ok(tokens)
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
    /// Texts whose tokens are all biased by so much.
    pub biases: Vec<(String, f32)>,
    /// How many answers; each has a seed of its own.
    pub choices: usize,
    /// The form of the answer.
    pub form: Option<Grammar>,
    pub think: Think,
    pub tools: Tools,
}

impl Ask {
    /// For one answer in any form.
    pub fn new(model: Option<String>, prompt: Prompt, options: GenerateOptions) -> Self {
        let (choices, tools) = (1, Tools::none());
        Self { model, prompt, options, biases: Vec::new(), choices, form: None, think: Think::Usual, tools }
    }
}
