//! A reply as it comes: waited for by threads, or awaited by event loops.

use crate::bell::Bell;
use crate::errors::exception;
use crate::held::Held;
use crate::signals::POLL;
use crate::writer::Writing;
use akunu::{Finish, LogProbs, Reply, ReplyPart, ReplyReader, Summary};
use futures_core::Stream as _;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// A piece of a reply: what one token completed, or a part of that.
#[pyclass(frozen, get_all, skip_from_py_object, module = "akunu")]
#[derive(Clone)]
pub struct Piece {
    /// Whole characters; often none.
    text: String,
    /// `text`, `thought`, `call` (the text is the tool's name) or `arguments` (of the call).
    kind: &'static str,
    /// The token; None for what was held back until the end.
    token: Option<u32>,
    /// Which call it belongs to.
    index: Option<usize>,
    /// The natural logarithm of the token's probability, where it was asked for.
    logprob: Option<f32>,
    /// The likeliest tokens with theirs.
    top_logprobs: Option<Vec<(u32, f32)>>,
}

#[pymethods]
impl Piece {
    fn __repr__(&self) -> String {
        format!("Piece({:?}, kind={:?}, token={:?})", self.text, self.kind, self.token)
    }

    fn __str__(&self) -> &str {
        &self.text
    }
}

/// A tool that the model calls.
#[pyclass(frozen, get_all, skip_from_py_object, module = "akunu")]
#[derive(Clone)]
pub struct ToolCall {
    /// The tool's name.
    name: String,
    /// JSON.
    arguments: String,
}

#[pymethods]
impl ToolCall {
    fn __repr__(&self) -> String {
        format!("ToolCall({:?}, {:?})", self.name, self.arguments)
    }
}

/// How many tokens there were, and how long they took in seconds.
#[pyclass(frozen, get_all, skip_from_py_object, module = "akunu")]
#[derive(Clone)]
pub struct Timings {
    /// Tokens of the prompt.
    prompt_tokens: usize,
    /// Of those, found in the prefix cache.
    cached_tokens: usize,
    /// Tokens of the reply.
    generated_tokens: usize,
    /// From the request to when it was admitted.
    waited: f64,
    /// From the request to the first token.
    first_token: f64,
    /// From the request to the last token.
    total: f64,
}

#[pymethods]
impl Timings {
    /// Tokens a second, after the first.
    #[getter]
    fn tokens_per_second(&self) -> f64 {
        let seconds = self.total - self.first_token;
        if seconds > 0.0 { self.generated_tokens.saturating_sub(1) as f64 / seconds } else { 0.0 }
    }

    fn __repr__(&self) -> String {
        format!(
            "Timings(prompt_tokens={}, cached_tokens={}, generated_tokens={}, first_token={:.4}, total={:.4})",
            self.prompt_tokens, self.cached_tokens, self.generated_tokens, self.first_token, self.total
        )
    }
}

/// A reply in progress. Forgetting it cancels the request.
#[pyclass(frozen, module = "akunu._akunu")]
pub struct Stream {
    /// The model lives as long as somebody reads from it.
    held: Arc<Held<Writing>>,
    prompt: Vec<u32>,
    stops: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reply: Option<Reply>,
    /// What takes the answer to messages apart.
    reader: Option<ReplyReader>,
    ready: VecDeque<Piece>,
    tokens: Vec<u32>,
    text: String,
    thoughts: String,
    calls: Vec<ToolCall>,
    summary: Option<Summary>,
}

impl State {
    /// What has come, or that nothing more comes.
    fn poll(&mut self, waker: &Waker) -> Poll<Option<Result<Piece, akunu::Error>>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(piece)));
            }
            let Some(reply) = &mut self.reply else { return Poll::Ready(None) };
            match Pin::new(&mut *reply).poll_next(&mut Context::from_waker(waker)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(piece))) => {
                    self.tokens.push(piece.token);
                    self.take(piece.text, Some(piece.token), piece.logprobs);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.reply = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    self.summary = reply.summary().cloned();
                    self.reply = None;
                    let rest = self.summary.as_ref().map(|s| s.rest.clone()).unwrap_or_default();
                    if !rest.is_empty() {
                        self.take(rest, None, None);
                    }
                    if let Some(reader) = &mut self.reader {
                        let parts = reader.end();
                        self.add(parts, None, None);
                    }
                }
            }
        }
    }

    fn take(&mut self, text: String, token: Option<u32>, logprobs: Option<LogProbs>) {
        let parts = match (&mut self.reader, token) {
            // A special token may have no text, and mean something.
            (Some(reader), Some(token)) => reader.push(token, &text),
            (Some(reader), None) => reader.push_text(&text),
            (None, _) => vec![ReplyPart::Text(text)],
        };
        // Every token gives a piece, so that who watches sees it come.
        let parts = if parts.is_empty() { vec![ReplyPart::Text(String::new())] } else { parts };
        self.add(parts, token, logprobs);
    }

    fn add(&mut self, parts: Vec<ReplyPart>, token: Option<u32>, logprobs: Option<LogProbs>) {
        let (logprob, top_logprobs) = logprobs.map(|l| (l.chosen, l.top)).unzip();
        for part in parts {
            let (kind, text, index) = match part {
                ReplyPart::Text(text) => {
                    self.text += &text;
                    ("text", text, None)
                }
                ReplyPart::Thought(text) => {
                    self.thoughts += &text;
                    ("thought", text, None)
                }
                ReplyPart::Call { index, name } => {
                    self.calls.push(ToolCall { name: name.clone(), arguments: String::new() });
                    ("call", name, Some(index))
                }
                ReplyPart::Arguments { index, text } => {
                    if let Some(call) = self.calls.last_mut() {
                        call.arguments += &text;
                    }
                    ("arguments", text, Some(index))
                }
            };
            self.ready.push_back(Piece { text, kind, token, index, logprob, top_logprobs: top_logprobs.clone() });
        }
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Stream {
    pub fn new(
        held: Arc<Held<Writing>>,
        (prompt, stops): (Vec<u32>, Vec<String>),
        reply: Reply,
        reader: Option<ReplyReader>,
    ) -> Self {
        Self { held, prompt, stops, state: Mutex::new(State { reply: Some(reply), reader, ..State::default() }) }
    }

    /// Held only while something is taken: who waits has let go of it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Stream {
    /// The next piece, waited for; None at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Piece>> {
        self.held.check_process()?;
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match self.lock().poll(&waker) {
                Poll::Ready(piece) => return piece.transpose().map_err(exception),
                Poll::Pending => {}
            }
            py.detach(|| thread::park_timeout(POLL));
            if let Err(interrupted) = py.check_signals() {
                self.cancel();
                return Err(interrupted);
            }
        }
    }

    /// The next piece where there is one; where there is none yet, the bell rings for `number` when there is.
    fn poll(&self, bell: &Bell, number: u64) -> PyResult<Option<Piece>> {
        self.held.check_process()?;
        match self.lock().poll(&bell.waker(number)) {
            Poll::Ready(piece) => piece.transpose().map_err(exception),
            Poll::Pending => Ok(None),
        }
    }

    /// Ends it; what has come stays.
    fn cancel(&self) {
        self.lock().reply = None;
    }

    /// Whether nothing more comes.
    #[getter]
    fn ended(&self) -> bool {
        let state = self.lock();
        state.reply.is_none() && state.ready.is_empty()
    }

    /// The text so far.
    #[getter]
    fn text(&self) -> String {
        self.lock().text.clone()
    }

    #[getter]
    fn thoughts(&self) -> String {
        self.lock().thoughts.clone()
    }

    #[getter]
    fn tool_calls(&self) -> Vec<ToolCall> {
        self.lock().calls.clone()
    }

    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.lock().tokens.clone()
    }

    #[getter]
    fn prompt_tokens(&self) -> Vec<u32> {
        self.prompt.clone()
    }

    /// Why it ended; `cancelled` where it did not end by itself, None before the end.
    #[getter]
    fn finish_reason(&self) -> Option<&'static str> {
        let state = self.lock();
        if state.reply.is_some() {
            return None;
        }
        Some(match state.summary.as_ref().map(|summary| summary.finish) {
            None => "cancelled",
            Some(Finish::Length) => "length",
            Some(Finish::Context) => "context",
            Some(Finish::StopString(_)) => "stop",
            Some(Finish::Stop) if !state.calls.is_empty() => "tool_calls",
            Some(Finish::Stop) => "stop",
        })
    }

    /// The stop string that ended it.
    #[getter]
    fn stopped_by(&self) -> Option<String> {
        match self.lock().summary.as_ref()?.finish {
            Finish::StopString(which) => self.stops.get(which).cloned(),
            _ => None,
        }
    }

    #[getter]
    fn timings(&self) -> Option<Timings> {
        self.lock().summary.as_ref().map(|summary| Timings {
            prompt_tokens: summary.prompt,
            cached_tokens: summary.cached,
            generated_tokens: summary.generated,
            waited: summary.waited.as_secs_f64(),
            first_token: summary.first_token.as_secs_f64(),
            total: summary.total.as_secs_f64(),
        })
    }
}
