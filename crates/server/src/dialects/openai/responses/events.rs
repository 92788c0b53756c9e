//! A response as it comes: its items, and an event for every step of each.

use super::super::Count;
use super::store::{Kept, bytes};
use crate::App;
use crate::answer::{Likelihood, Part, Reason, Tools, Writer};
use crate::http::stream::Frame;
use crate::id;
use crate::models::{Generator, InUse};
use crate::problem::{Kind, Problem};
use serde_json::{Value, json};
use std::sync::Arc;

/// Kinds of items that a model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Message,
    Thought,
    Function,
    Custom,
}

impl Item {
    fn prefix(self) -> &'static str {
        match self {
            Item::Message => "msg_",
            Item::Thought => "rs_",
            Item::Function => "fc_",
            Item::Custom => "ctc_",
        }
    }

    /// The events of its text, and what it is called there.
    fn events(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Item::Message => ("response.output_text.delta", "response.output_text.done", "text"),
            Item::Thought => ("response.reasoning_text.delta", "response.reasoning_text.done", "text"),
            Item::Function => {
                ("response.function_call_arguments.delta", "response.function_call_arguments.done", "arguments")
            }
            Item::Custom => ("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done", "input"),
        }
    }

    /// Whether its text is a part of a list.
    fn has_parts(self) -> bool {
        matches!(self, Item::Message | Item::Thought)
    }
}

/// The item that is being written.
struct Open {
    kind: Item,
    id: String,
    call_id: String,
    name: String,
    namespace: Option<String>,
    text: String,
    logprobs: Vec<Value>,
}

impl Open {
    fn part(&self) -> Value {
        match self.kind {
            Item::Message => json!({
                "type": "output_text",
                "text": self.text,
                "annotations": [],
                "logprobs": self.logprobs,
            }),
            _ => json!({ "type": "reasoning_text", "text": self.text }),
        }
    }

    fn value(&self, status: &str) -> Value {
        // Its parts are announced one by one.
        let content = if status == "in_progress" { json!([]) } else { json!([self.part()]) };
        let Open { id, call_id, name, text, .. } = self;
        let mut value = match self.kind {
            Item::Message => json!({
                "id": id, "type": "message", "status": status, "role": "assistant", "content": content,
            }),
            Item::Thought => json!({
                "id": id, "type": "reasoning", "status": status, "summary": [], "content": content,
            }),
            Item::Function => json!({
                "id": id, "type": "function_call", "status": status, "call_id": call_id, "name": name,
                "arguments": text,
            }),
            Item::Custom => json!({
                "id": id, "type": "custom_tool_call", "status": status, "call_id": call_id, "name": name,
                "input": text,
            }),
        };
        if let Some(namespace) = &self.namespace {
            value["namespace"] = namespace.as_str().into();
        }
        value
    }
}

/// A response on its way.
pub struct Writing {
    pub app: Arc<App>,
    pub generator: InUse<Generator>,
    /// All of it but what comes with the answer.
    pub head: Value,
    pub tools: Tools,
    /// What the model was told, and its bytes; where the response is to be kept.
    pub keep: Option<(Vec<Arc<Value>>, usize)>,
    output: Vec<Value>,
    open: Option<Open>,
    logprobs: Vec<Value>,
    count: Count,
    events: u64,
}

impl Writing {
    pub fn new(
        app: Arc<App>,
        generator: InUse<Generator>,
        head: Value,
        tools: Tools,
        keep: Option<(Vec<Arc<Value>>, usize)>,
    ) -> Self {
        let (output, logprobs) = (Vec::new(), Vec::new());
        Self { app, generator, head, tools, keep, output, open: None, logprobs, count: Count::default(), events: 0 }
    }

    fn event(&mut self, name: &'static str, fields: Value) -> Frame {
        let mut event = json!({ "type": name, "sequence_number": self.events });
        self.events += 1;
        if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
            event.extend(fields);
        }
        Frame::Named(name, event)
    }

    /// Where the open item is, in events about it.
    fn place(&self) -> Value {
        let Some(open) = &self.open else { return json!({}) };
        let mut place = json!({ "item_id": open.id, "output_index": self.output.len() });
        if open.kind.has_parts() {
            place["content_index"] = 0.into();
        }
        place
    }

    fn begin_item(&mut self, kind: Item, name: String) -> Vec<Frame> {
        let mut frames = self.end_item("completed");
        let call_id = if kind.has_parts() { String::new() } else { id("call_") };
        let namespace = self.tools.namespaces.get(&name).cloned();
        let open =
            Open { kind, id: id(kind.prefix()), call_id, name, namespace, text: String::new(), logprobs: Vec::new() };
        let (item, part) = (open.value("in_progress"), open.part());
        self.open = Some(open);
        let index = self.output.len();
        frames.push(self.event("response.output_item.added", json!({ "output_index": index, "item": item })));
        if kind.has_parts() {
            let mut fields = self.place();
            fields["part"] = part;
            frames.push(self.event("response.content_part.added", fields));
        }
        frames
    }

    /// More of an item of this kind: a new one, where it is not the open one.
    fn more(&mut self, kind: Item, text: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            frames = self.begin_item(kind, String::new());
        }
        frames.extend(self.delta(text));
        frames
    }

    fn delta(&mut self, text: &str) -> Option<Frame> {
        let logprobs = std::mem::take(&mut self.logprobs);
        let mut fields = self.place();
        let open = self.open.as_mut()?;
        open.text += text;
        fields["delta"] = text.into();
        if open.kind == Item::Message {
            fields["logprobs"] = logprobs.clone().into();
            open.logprobs.extend(logprobs);
        }
        let (name, ..) = open.kind.events();
        Some(self.event(name, fields))
    }

    fn end_item(&mut self, status: &str) -> Vec<Frame> {
        let place = self.place();
        let Some(open) = self.open.take() else { return Vec::new() };
        let mut frames = Vec::new();
        let (_, name, field) = open.kind.events();
        let mut fields = place.clone();
        fields[field] = open.text.as_str().into();
        match open.kind {
            Item::Message => fields["logprobs"] = open.logprobs.clone().into(),
            Item::Function => fields["name"] = open.name.as_str().into(),
            Item::Thought | Item::Custom => {}
        }
        frames.push(self.event(name, fields));
        if open.kind.has_parts() {
            let mut fields = place;
            fields["part"] = open.part();
            frames.push(self.event("response.content_part.done", fields));
        }
        let (index, item) = (self.output.len(), open.value(status));
        self.output.push(item.clone());
        frames.push(self.event("response.output_item.done", json!({ "output_index": index, "item": item })));
        frames
    }

    fn response(&self, status: &str) -> Value {
        let mut response = self.head.clone();
        response["status"] = status.into();
        response["output"] = self.output.clone().into();
        response
    }

    /// The response, after its last part; kept, if it is to be.
    pub fn finish(&mut self, prompt: usize) -> Value {
        let cut_off = matches!(&self.count.last, Some(ending) if ending.reason == Reason::Length);
        let mut response = self.response(if cut_off { "incomplete" } else { "completed" });
        if cut_off {
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        let Count { generated, thought, cached, .. } = self.count;
        response["usage"] = json!({
            "input_tokens": prompt,
            "input_tokens_details": { "cached_tokens": cached },
            "output_tokens": generated,
            "output_tokens_details": { "reasoning_tokens": thought },
            "total_tokens": prompt + generated,
        });
        if let Some((input, before)) = self.keep.take() {
            let output = self.output.iter().cloned().map(Arc::new).collect();
            let bytes = before + bytes(&response);
            let id = response["id"].as_str().unwrap_or_default().to_owned();
            let kept = Kept { id, response: response.clone(), input, output, bytes };
            self.app.responses.keep(&self.app.options.limits, kept);
        }
        response
    }
}

impl Writer for Writing {
    fn begin(&mut self, _: usize) -> Vec<Frame> {
        let response = self.response("in_progress");
        vec![
            self.event("response.created", json!({ "response": response })),
            self.event("response.in_progress", json!({ "response": response })),
        ]
    }

    fn part(&mut self, _: usize, part: Part) -> Vec<Frame> {
        match part {
            Part::Text(text) => self.more(Item::Message, &text),
            Part::Thought(text) => self.more(Item::Thought, &text),
            Part::Call { name, .. } => {
                let kind = if self.tools.takes_text(&name) { Item::Custom } else { Item::Function };
                self.begin_item(kind, name)
            }
            Part::Arguments { text, .. } => self.delta(&text).into_iter().collect(),
            Part::Token { id, logprobs } => {
                let write = |of| Likelihood::Logarithms.write(&self.generator, id, &of);
                self.logprobs.extend(logprobs.map(write));
                Vec::new()
            }
            Part::End(ending) => {
                let mut frames = Vec::new();
                // An answer without a word is an empty one.
                if self.open.is_none() && self.output.is_empty() {
                    frames = self.begin_item(Item::Message, String::new());
                }
                // What was chosen last may have no text.
                let rest = std::mem::take(&mut self.logprobs);
                if let Some(open) = self.open.as_mut().filter(|open| open.kind == Item::Message) {
                    open.logprobs.extend(rest);
                }
                frames.extend(self.end_item(if ending.reason == Reason::Length { "incomplete" } else { "completed" }));
                self.count.add(ending);
                frames
            }
        }
    }

    fn end(&mut self, prompt: usize) -> Vec<Frame> {
        let response = self.finish(prompt);
        let name = if response["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
        vec![self.event(name, json!({ "response": response }))]
    }

    fn fault(&mut self, problem: &Problem) -> Vec<Frame> {
        let mut frames = self.end_item("incomplete");
        let mut response = self.response("failed");
        let code = match problem.kind {
            Kind::RateLimited | Kind::Overloaded => "rate_limit_exceeded",
            _ => "server_error",
        };
        response["error"] = json!({ "code": code, "message": problem.message });
        frames.push(self.event("response.failed", json!({ "response": response })));
        frames
    }
}
