//! An answer as lines of JSON, or as one.

use super::{error, nanos, time};
use crate::answer::{Call, Ending, Gathered, Likelihood, Part, Reason, Writer};
use crate::http::stream::Frame;
use crate::models::{Generator, InUse};
use crate::problem::Problem;
use akunu::LogProbs;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// Where a line has what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// In `message`.
    Chat,
    /// In `response`.
    Generate,
}

pub struct Lines {
    shape: Shape,
    model: String,
    /// How long loading took.
    loading: Duration,
    /// A call whose arguments still come.
    call: Option<Call>,
    /// Calls that were sent.
    called: usize,
    /// Whose tokens they are.
    generator: Option<InUse<Generator>>,
    /// How likely tokens were, until there is a line to tell it in.
    likelihoods: Vec<Value>,
    ending: Option<Ending>,
}

impl Lines {
    pub fn new(shape: Shape, model: &str, loading: Duration) -> Self {
        let (generator, likelihoods) = (None, Vec::new());
        Self { shape, model: model.to_owned(), loading, call: None, called: 0, generator, likelihoods, ending: None }
    }

    /// Whose tokens they are: what tells how likely they were.
    pub fn of(self, generator: InUse<Generator>) -> Self {
        Self { generator: Some(generator), ..self }
    }

    fn likely(&mut self, token: u32, of: &LogProbs) {
        let write = |generator: &InUse<Generator>| Likelihood::Logarithms.write(generator, token, of);
        self.likelihoods.extend(self.generator.as_ref().map(write));
    }

    fn line(&mut self, text: &str, thought: &str, calls: Vec<Value>) -> Value {
        let mut line = json!({ "model": self.model, "created_at": time::written(SystemTime::now()) });
        let said = match self.shape {
            Shape::Chat => {
                line["message"] = json!({ "role": "assistant", "content": text });
                &mut line["message"]
            }
            Shape::Generate => {
                line["response"] = text.into();
                &mut line
            }
        };
        if !thought.is_empty() {
            said["thinking"] = thought.into();
        }
        if !calls.is_empty() {
            said["tool_calls"] = calls.into();
        }
        if !self.likelihoods.is_empty() {
            line["logprobs"] = std::mem::take(&mut self.likelihoods).into();
        }
        line["done"] = false.into();
        line
    }

    /// The line that says that it is over.
    fn last(&self, mut line: Value, prompt: usize, ending: &Ending) -> Value {
        let summary = &ending.summary;
        line["done"] = true.into();
        line["done_reason"] = match ending.reason {
            Reason::Length => "length".into(),
            Reason::Done | Reason::StopString(_) | Reason::Calls => "stop".into(),
        };
        line["total_duration"] = nanos(self.loading + summary.total).into();
        line["load_duration"] = nanos(self.loading).into();
        line["prompt_eval_count"] = prompt.into();
        line["prompt_eval_duration"] = nanos(summary.first_token.saturating_sub(summary.waited)).into();
        line["eval_count"] = ending.generated.into();
        line["eval_duration"] = nanos(summary.total.saturating_sub(summary.first_token)).into();
        line
    }

    /// All of it in one.
    pub fn whole(mut self, mut gathered: Gathered) -> Value {
        let choice = gathered.choices.pop().unwrap_or_default();
        choice.likelihoods().for_each(|(token, of)| self.likely(token, of));
        let calls = choice.calls.iter().enumerate().filter_map(|(i, call)| written(i, call)).collect();
        let line = self.line(&choice.text, &choice.thought, calls);
        match &choice.ending {
            Some(ending) => self.last(line, gathered.prompt, ending),
            None => line,
        }
    }

    /// There was nothing to answer.
    pub fn only(mut self, reason: &str) -> Value {
        let mut line = self.line("", "", Vec::new());
        line["done"] = true.into();
        line["done_reason"] = reason.into();
        line
    }

    /// Sends the call that has come, now that nothing more of it comes.
    fn flush(&mut self) -> Option<Frame> {
        let call = written(self.called, &self.call.take()?)?;
        self.called += 1;
        Some(Frame::Data(self.line("", "", vec![call])))
    }
}

/// A call; one that the end cut short must not be made.
fn written(index: usize, call: &Call) -> Option<Value> {
    let id = format!("call_{:016x}", crate::random());
    Some(json!({ "id": id, "function": { "index": index, "name": call.name, "arguments": call.input()? } }))
}

impl Writer for Lines {
    fn begin(&mut self, _: usize) -> Vec<Frame> {
        Vec::new()
    }

    fn part(&mut self, _: usize, part: Part) -> Vec<Frame> {
        match &part {
            Part::Arguments { text, .. } => {
                if let Some(call) = &mut self.call {
                    call.arguments += text;
                }
                return Vec::new();
            }
            Part::Token { id, logprobs } => {
                if let Some(of) = logprobs {
                    self.likely(*id, of);
                }
                return Vec::new();
            }
            _ => {}
        }
        let mut frames: Vec<Frame> = self.flush().into_iter().collect();
        match part {
            Part::Text(text) => frames.push(Frame::Data(self.line(&text, "", Vec::new()))),
            Part::Thought(text) => frames.push(Frame::Data(self.line("", &text, Vec::new()))),
            Part::Call { name, .. } => self.call = Some(Call { name, arguments: String::new() }),
            Part::End(ending) => self.ending = Some(ending),
            Part::Arguments { .. } | Part::Token { .. } => {}
        }
        frames
    }

    fn end(&mut self, prompt: usize) -> Vec<Frame> {
        let line = self.line("", "", Vec::new());
        let last = self.ending.as_ref().map(|ending| self.last(line, prompt, ending));
        last.map(Frame::Data).into_iter().collect()
    }

    fn fault(&mut self, problem: &Problem) -> Vec<Frame> {
        vec![Frame::Data(error(problem))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_sent_once_it_is_whole() {
        let mut lines = Lines::new(Shape::Chat, "m", Duration::ZERO);
        let call = |index, name: &str| Part::Call { index, name: name.into() };
        let arguments = |index, text: &str| Part::Arguments { index, text: text.into() };
        let parts = [
            call(0, "paint"),
            arguments(0, "{\"color\":"),
            arguments(0, "\"red\"}"),
            call(1, "wait"),
            Part::Text("Done.".into()),
            call(2, "cut"),
            arguments(2, "{\"sh"),
            Part::Text(String::new()),
        ];
        let sent: Vec<Value> = parts
            .into_iter()
            .flat_map(|part| lines.part(0, part))
            .map(|frame| match frame {
                Frame::Data(line) => line["message"].clone(),
                frame => panic!("{frame:?}"),
            })
            .collect();
        let function = |line: &Value| line["tool_calls"][0]["function"].clone();
        assert_eq!(function(&sent[0]), json!({ "index": 0, "name": "paint", "arguments": { "color": "red" } }));
        assert_eq!(function(&sent[1]), json!({ "index": 1, "name": "wait", "arguments": {} }));
        assert_eq!(sent[2]["content"], "Done.");
        // What was cut short is not sent.
        assert!(sent.len() == 4 && sent[3].get("tool_calls").is_none(), "{sent:?}");
    }
}
