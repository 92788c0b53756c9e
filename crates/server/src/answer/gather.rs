//! An answer as a whole, for who does not want it piece by piece.

use super::{Answer, Ending, Part};
use crate::problem::Problem;
use akunu::LogProbs;
use futures_core::Stream;
use serde_json::{Map, Value};
use std::future::poll_fn;
use std::pin::Pin;

/// A tool to call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    pub name: String,
    pub arguments: String,
}

impl Call {
    /// Its arguments; `None` where the end of the answer cut them short.
    pub fn input(&self) -> Option<Value> {
        match self.arguments.trim() {
            "" => Some(Value::Object(Map::new())),
            arguments => serde_json::from_str(arguments).ok(),
        }
    }
}

/// One answer.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub text: String,
    pub thought: String,
    pub calls: Vec<Call>,
    pub tokens: Vec<u32>,
    /// Of those tokens, where they were asked for.
    pub logprobs: Vec<LogProbs>,
    pub ending: Option<Ending>,
}

/// All answers to a request.
pub struct Gathered {
    pub choices: Vec<Choice>,
    pub prompt: usize,
}

impl Gathered {
    /// Tokens of all answers.
    pub fn generated(&self) -> usize {
        self.choices.iter().filter_map(|c| c.ending.as_ref()).map(|e| e.generated).sum()
    }

    /// Of those, tokens of thoughts.
    pub fn thought(&self) -> usize {
        self.choices.iter().filter_map(|c| c.ending.as_ref()).map(|e| e.thought).sum()
    }

    /// Tokens of the prompt that were in the cache, for the first answer.
    pub fn cached(&self) -> usize {
        self.choices.iter().find_map(|c| c.ending.as_ref()).map_or(0, |e| e.summary.cached)
    }
}

impl Choice {
    /// Its tokens with how likely they were; none where that was not asked for.
    pub fn likelihoods(&self) -> impl Iterator<Item = (u32, &LogProbs)> {
        self.tokens.iter().copied().zip(&self.logprobs)
    }

    pub fn take(&mut self, part: Part) {
        match part {
            Part::Text(text) => self.text += &text,
            Part::Thought(text) => self.thought += &text,
            Part::Call { index, name } => {
                self.calls.resize_with(self.calls.len().max(index + 1), Call::default);
                self.calls[index].name = name;
            }
            Part::Arguments { index, text } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments += &text;
                }
            }
            Part::Token { id, logprobs } => {
                self.tokens.push(id);
                self.logprobs.extend(logprobs);
            }
            Part::End(ending) => self.ending = Some(ending),
        }
    }
}

impl Answer {
    /// Waits for all of it.
    pub async fn gather(mut self) -> Result<Gathered, Problem> {
        let mut choices = vec![Choice::default(); self.choices.len()];
        while let Some(next) = poll_fn(|context| Pin::new(&mut self).poll_next(context)).await {
            let (choice, part) = next?;
            choices[choice].take(part);
        }
        Ok(Gathered { choices, prompt: self.prompt() })
    }
}
