//! How likely tokens were, as the APIs write it.

use crate::models::Generator;
use crate::number::number;
use akunu::LogProbs;
use serde_json::{Value, json};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likelihood {
    /// OpenAI's API, and Ollama's.
    Logarithms,
    /// llama.cpp's, which names the tokens' ids.
    WithIds,
    /// llama.cpp's, which has probabilities where they are those that tokens were drawn by.
    Sampled,
}

impl Likelihood {
    /// A token, and those that were likeliest in its place.
    pub fn write(self, generator: &Generator, token: u32, of: &LogProbs) -> Value {
        let one = |token: u32, logarithm: f32| {
            let mut one = json!({ "token": generator.token_text(token), "bytes": generator.token_bytes(token) });
            if self != Likelihood::Logarithms {
                one["id"] = token.into();
            }
            match self {
                Likelihood::Sampled => one["prob"] = number(logarithm.exp()),
                Likelihood::Logarithms | Likelihood::WithIds => one["logprob"] = number(logarithm),
            }
            one
        };
        let mut written = one(token, of.chosen);
        let name = if self == Likelihood::Sampled { "top_probs" } else { "top_logprobs" };
        written[name] = of.top.iter().map(|(token, logarithm)| one(*token, *logarithm)).collect();
        written
    }
}
