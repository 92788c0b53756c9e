//! Answers that come piece by piece: server-sent events, or JSON lines.

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use bytes::Bytes;
use futures_core::Stream;
use serde_json::Value;
use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// How long a stream may be silent before a comment says that it is alive.
const QUIET: Duration = Duration::from_secs(10);

/// How frames are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `data: …`, with `event: …` before where it has a name.
    Events,
    /// A line each.
    Lines,
}

/// One thing to send.
#[derive(Debug)]
pub enum Frame {
    Data(Value),
    Named(&'static str, Value),
    /// As it is.
    Text(&'static str),
}

impl Framing {
    fn write(self, frame: &Frame, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = match (self, frame) {
            (Framing::Lines, Frame::Data(value) | Frame::Named(_, value)) => writeln!(out, "{value}"),
            (Framing::Lines, Frame::Text(text)) => writeln!(out, "{text}"),
            (Framing::Events, Frame::Data(value)) => write!(out, "data: {value}\n\n"),
            (Framing::Events, Frame::Named(name, value)) => write!(out, "event: {name}\ndata: {value}\n\n"),
            (Framing::Events, Frame::Text(text)) => write!(out, "data: {text}\n\n"),
        };
    }
}

/// A response whose body is what `frames` gives.
pub fn response<S>(framing: Framing, frames: S) -> Response
where
    S: Stream<Item = Vec<Frame>> + Send + 'static,
{
    let body = Frames { framing, frames: Some(Box::pin(frames)), quiet: Box::pin(sleep(QUIET)) };
    let mut response = Response::new(Body::from_stream(body));
    let kind = match framing {
        Framing::Events => "text/event-stream; charset=utf-8",
        Framing::Lines => "application/x-ndjson",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache"));
    // Proxies that gather answers would hold every piece back.
    headers.insert("x-accel-buffering", header::HeaderValue::from_static("no"));
    response
}

struct Frames<S> {
    framing: Framing,
    /// `None` once they have ended.
    frames: Option<Pin<Box<S>>>,
    quiet: Pin<Box<Sleep>>,
}

impl<S: Stream<Item = Vec<Frame>>> Stream for Frames<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        /// A piece of the body.
        const ENOUGH: usize = 1 << 16;
        let mut text = String::new();
        let framing = self.framing;
        // Whatever is there goes out together.
        while let Some(frames) = &mut self.frames
            && text.len() < ENOUGH
        {
            match frames.as_mut().poll_next(context) {
                Poll::Ready(Some(frames)) => frames.iter().for_each(|frame| framing.write(frame, &mut text)),
                Poll::Ready(None) => self.frames = None,
                Poll::Pending => break,
            }
        }
        if text.is_empty() {
            if self.frames.is_none() {
                return Poll::Ready(None);
            }
            if framing == Framing::Lines || self.quiet.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            text.push_str(": alive\n\n");
        }
        self.quiet.as_mut().reset(Instant::now() + QUIET);
        Poll::Ready(Some(Ok(text.into())))
    }
}
