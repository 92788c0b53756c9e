//! Prompts to go on from and texts to embed, as OpenAI's API and llama.cpp's take them.

use crate::App;
use crate::answer::{Piece, Row};
use crate::problem::Problem;
use schemars::JsonSchema;
use serde::Deserialize;

/// A text; a list of prompts; or, of llama.cpp's, one list of tokens and texts, which is one prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Prompts {
    Text(String),
    Named(Named),
    List(Vec<Item>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Named {
    prompt_string: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Item {
    Piece(Piece),
    Row(Row),
    Named(Named),
}

impl Prompts {
    /// The rows, as many as may be answered at once.
    pub fn to_go_on_from(&self, app: &App, streams: bool) -> Result<Vec<Row>, Problem> {
        let (rows, most) = (self.rows("prompt")?, app.options.limits.choices);
        match (rows.len(), streams) {
            (2.., true) => Err(Problem::field("prompt", "prompt: one at a time where the answer is streamed")),
            (n, _) if n == 0 || n > most => {
                Err(Problem::field("prompt", format!("prompt: between 1 and {most} at a time")))
            }
            _ => Ok(rows),
        }
    }

    /// Each prompt. A list with a token in it is one, else each of its items is.
    pub fn rows(&self, field: &str) -> Result<Vec<Row>, Problem> {
        let text = |text: &String| vec![Piece::Text(text.clone())];
        let items = match self {
            Prompts::Text(of) | Prompts::Named(Named { prompt_string: of }) => return Ok(vec![text(of)]),
            Prompts::List(items) => items,
        };
        if items.iter().any(|item| matches!(item, Item::Piece(Piece::Token(_)))) {
            let piece = |item: &Item| match item {
                Item::Piece(piece) => Ok(piece.clone()),
                Item::Row(_) | Item::Named(_) => {
                    let sentence =
                        format!("{field}: a list with tokens in it is one text, and has nothing but tokens and texts");
                    Err(Problem::field(field, sentence))
                }
            };
            return Ok(vec![items.iter().map(piece).collect::<Result<Row, Problem>>()?]);
        }
        let row = |item: &Item| match item {
            Item::Piece(piece) => vec![piece.clone()],
            Item::Row(row) => row.clone(),
            Item::Named(Named { prompt_string }) => text(prompt_string),
        };
        Ok(items.iter().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_with_a_token_in_it_is_one_prompt() {
        let counts = |value| {
            let prompts: Prompts = serde_json::from_value(value).unwrap();
            prompts.rows("prompt").map(|rows| rows.iter().map(Vec::len).collect::<Vec<_>>())
        };
        let of = |value| counts(value).unwrap();
        assert_eq!(of(json!("a")), [1]);
        assert_eq!(of(json!({ "prompt_string": "a" })), [1]);
        assert_eq!(of(json!([1, 2, "a", 3])), [4]);
        assert_eq!(of(json!(["a", "b"])), [1, 1]);
        assert_eq!(of(json!(["a", [1, 2, 3], [1, "b"], { "prompt_string": "c" }])), [1, 3, 2, 1]);
        assert_eq!(of(json!([])), [0; 0]);
        assert_eq!(counts(json!([1, [2]])).unwrap_err().field.as_deref(), Some("prompt"));
        assert!(serde_json::from_value::<Prompts>(json!({ "prompt_string": "a", "multimodal_data": "b" })).is_err());
    }
}
