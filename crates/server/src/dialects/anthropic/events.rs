//! An answer as events: a message begins, its blocks come one after the other, it ends.

use super::error;
use super::message::{Head, stop, usage};
use crate::answer::{Ending, Part, Writer};
use crate::http::stream::Frame;
use crate::id;
use crate::problem::Problem;
use serde_json::{Value, json};

pub struct Events {
    head: Head,
    /// Tokens of the prompt.
    prompt: usize,
    /// The block that is open.
    open: Option<Block>,
    /// Blocks that have begun.
    begun: usize,
    ending: Option<Ending>,
}

/// What a block holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Thought,
    Call(usize),
}

impl Events {
    pub fn new(head: Head, prompt: usize) -> Self {
        Self { head, prompt, open: None, begun: 0, ending: None }
    }

    /// Opens a block where another one, or none, is open.
    fn open(&mut self, block: Block, content: impl FnOnce() -> Value, frames: &mut Vec<Frame>) {
        if self.open == Some(block) {
            return;
        }
        self.close(frames);
        let start = json!({ "type": "content_block_start", "index": self.begun, "content_block": content() });
        frames.push(Frame::Named("content_block_start", start));
        self.open = Some(block);
        self.begun += 1;
    }

    fn delta(&self, delta: Value) -> Frame {
        // The open block is the last that has begun.
        let index = self.begun.saturating_sub(1);
        Frame::Named("content_block_delta", json!({ "type": "content_block_delta", "index": index, "delta": delta }))
    }

    fn close(&mut self, frames: &mut Vec<Frame>) {
        let Some(block) = self.open.take() else { return };
        if block == Block::Thought {
            // Nobody signs thoughts here, and readers of blocks expect the field.
            frames.push(self.delta(json!({ "type": "signature_delta", "signature": "" })));
        }
        let index = self.begun.saturating_sub(1);
        frames.push(Frame::Named("content_block_stop", json!({ "type": "content_block_stop", "index": index })));
    }
}

impl Writer for Events {
    fn begin(&mut self, _: usize) -> Vec<Frame> {
        // How much of the prompt was in the cache is known at the end, and said there.
        let message = self.head.begun(json!([]), usage(self.prompt, 0, 0));
        vec![
            Frame::Named("message_start", json!({ "type": "message_start", "message": message })),
            Frame::Named("ping", json!({ "type": "ping" })),
        ]
    }

    fn part(&mut self, _: usize, part: Part) -> Vec<Frame> {
        let mut frames = Vec::new();
        match part {
            Part::Text(text) => {
                self.open(Block::Text, || json!({ "type": "text", "text": "" }), &mut frames);
                frames.push(self.delta(json!({ "type": "text_delta", "text": text })));
            }
            Part::Thought(text) => {
                let empty = || json!({ "type": "thinking", "thinking": "", "signature": "" });
                self.open(Block::Thought, empty, &mut frames);
                if !self.head.omits_thoughts {
                    frames.push(self.delta(json!({ "type": "thinking_delta", "thinking": text })));
                }
            }
            Part::Call { index, name } => {
                let call = || json!({ "type": "tool_use", "id": id("toolu_"), "name": name, "input": {} });
                self.open(Block::Call(index), call, &mut frames);
            }
            Part::Arguments { text, .. } => {
                frames.push(self.delta(json!({ "type": "input_json_delta", "partial_json": text })));
            }
            Part::Token { .. } => {}
            Part::End(ending) => {
                self.close(&mut frames);
                self.ending = Some(ending);
            }
        }
        frames
    }

    fn end(&mut self, prompt: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        if let Some(ending) = &self.ending {
            let (reason, sequence) = stop(ending);
            let delta = json!({ "stop_reason": reason, "stop_sequence": sequence });
            let usage = usage(prompt, ending.summary.cached, ending.generated);
            let delta = json!({ "type": "message_delta", "delta": delta, "usage": usage });
            frames.push(Frame::Named("message_delta", delta));
        }
        frames.push(Frame::Named("message_stop", json!({ "type": "message_stop" })));
        frames
    }

    fn fault(&mut self, problem: &Problem) -> Vec<Frame> {
        vec![Frame::Named("error", error(problem))]
    }
}
