//! An answer as a message of blocks.

use crate::answer::{Ending, Gathered, Reason};
use crate::id;
use serde_json::{Value, json};

pub struct Head {
    id: String,
    model: String,
    /// Thoughts are not sent, only that there were some.
    pub omits_thoughts: bool,
}

impl Head {
    pub fn new(model: &str, omits_thoughts: bool) -> Self {
        Self { id: id("msg_"), model: model.to_owned(), omits_thoughts }
    }

    /// A message that has not ended.
    pub fn begun(&self, content: Value, usage: Value) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage,
        })
    }

    /// A message as a whole.
    pub fn message(&self, gathered: &Gathered) -> Value {
        let mut content = Vec::new();
        let choice = gathered.choices.first().cloned().unwrap_or_default();
        if !choice.thought.is_empty() {
            let thought = if self.omits_thoughts { String::new() } else { choice.thought };
            content.push(json!({ "type": "thinking", "thinking": thought, "signature": "" }));
        }
        if !choice.text.is_empty() {
            content.push(json!({ "type": "text", "text": choice.text }));
        }
        for call in choice.calls {
            // One that the end cut short must not be made.
            if let Some(input) = call.input() {
                content.push(json!({ "type": "tool_use", "id": id("toolu_"), "name": call.name, "input": input }));
            }
        }
        let usage = usage(gathered.prompt, gathered.cached(), gathered.generated());
        let mut message = self.begun(content.into(), usage);
        if let (Some(ending), Some(fields)) = (&choice.ending, message.as_object_mut()) {
            let (reason, sequence) = stop(ending);
            fields.insert("stop_reason".into(), reason.into());
            fields.insert("stop_sequence".into(), sequence.into());
        }
        message
    }
}

/// Why it ended, and at which text.
pub fn stop(ending: &Ending) -> (&'static str, Option<&str>) {
    match &ending.reason {
        Reason::Done => ("end_turn", None),
        Reason::StopString(text) => ("stop_sequence", Some(text)),
        Reason::Length => ("max_tokens", None),
        Reason::Calls => ("tool_use", None),
    }
}

/// Tokens; those that were in the cache are not counted twice.
pub fn usage(prompt: usize, cached: usize, generated: usize) -> Value {
    json!({
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": generated,
    })
}
