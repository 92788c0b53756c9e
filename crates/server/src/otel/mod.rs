//! Traces of requests for an OpenTelemetry collector: a span for each, and below it the queue, the prefill and the decode of
//! each answer.
//!
//! A request's spans are known as a whole when it is over, from the times that the scheduler takes anyway: nothing is done
//! for a token. They go out together when nobody holds the request's [`Trace`] any more.

mod context;
mod export;

use akunu::Summary;
use axum::extract::{MatchedPath, Request};
use context::Parent;
use export::{Endpoint, Exporter};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

tokio::task_local! {
    /// The request that a task answers.
    static CURRENT: Trace;
}

/// Makes the traces of requests.
pub struct Tracer(Option<Arc<Exporter>>);

impl Tracer {
    /// Sends to the collector at `endpoint`; to nobody where there is none. Needs a runtime.
    pub fn new(endpoint: Option<&str>) -> Result<Tracer, String> {
        let exporter = |endpoint: &str| Ok::<_, String>(Arc::new(Exporter::start(Endpoint::parse(endpoint)?)));
        Ok(Tracer(endpoint.map(exporter).transpose()?))
    }

    /// Begins the trace of a request.
    pub fn begin(&self, request: &Request) -> Trace {
        let Some(exporter) = &self.0 else { return Trace(None) };
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let parent = header("traceparent").and_then(Parent::parse);
        // Who asks has decided that this one is not recorded.
        if parent.as_ref().is_some_and(|parent| !parent.sampled) {
            return Trace(None);
        }
        let method = request.method().as_str();
        // Paths have names of models and responses in them: there is no end of those.
        let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let mut attributes = vec![text("http.request.method", method), text("url.path", request.uri().path())];
        attributes.extend(route.map(|route| text("http.route", route)));
        let span = Span {
            name: route.map_or(method.to_owned(), |route| format!("{method} {route}")),
            kind: Kind::Server,
            begun: SystemTime::now(),
            ended: SystemTime::now(),
            attributes,
            failed: false,
        };
        let trace = parent.as_ref().map_or_else(|| hex(2), |parent| parent.trace.clone());
        let recorded = Mutex::new(Recorded { span, below: Vec::new() });
        Trace(Some(Arc::new(Open { exporter: exporter.clone(), trace, parent: parent.map(|p| p.span), recorded })))
    }

    /// Sends what there is, and nothing more.
    pub async fn end(&self) {
        if let Some(exporter) = &self.0 {
            exporter.end().await;
        }
    }
}

/// The trace of a request: it is sent when all of these are gone.
#[derive(Clone)]
pub struct Trace(Option<Arc<Open>>);

struct Open {
    exporter: Arc<Exporter>,
    trace: String,
    parent: Option<String>,
    recorded: Mutex<Recorded>,
}

struct Recorded {
    span: Span,
    below: Vec<Span>,
}

struct Span {
    name: String,
    kind: Kind,
    begun: SystemTime,
    ended: SystemTime,
    attributes: Vec<Value>,
    failed: bool,
}

/// As the protocol numbers them.
#[derive(Clone, Copy)]
enum Kind {
    Internal = 1,
    Server = 2,
}

impl Trace {
    /// That of the request which this task answers.
    pub fn current() -> Trace {
        CURRENT.try_with(Trace::clone).unwrap_or(Trace(None))
    }

    /// Answers the request.
    pub async fn around<F: Future>(self, answer: F) -> F::Output {
        CURRENT.scope(self, answer).await
    }

    /// The head of the answer.
    pub fn status(&self, status: u16) {
        self.record(|recorded| {
            recorded.span.attributes.push(number("http.response.status_code", status.into()));
            recorded.span.failed |= status >= 500;
        });
    }

    /// An answer could not go on.
    pub fn fault(&self) {
        self.record(|recorded| recorded.span.failed = true);
    }

    /// An answer of this model ended now.
    pub fn answered(&self, model: &str, summary: &Summary) {
        let Summary { prompt, cached, generated, waited, first_token, total, .. } = *summary;
        self.record(|recorded| {
            let begun = SystemTime::now() - total;
            let span = |name: &str, from: Duration, to: Duration, attributes: &[(&str, usize)]| Span {
                name: name.into(),
                kind: Kind::Internal,
                begun: begun + from,
                ended: begun + to.max(from),
                attributes: attributes.iter().map(|(name, n)| number(name, *n as u64)).collect(),
                failed: false,
            };
            recorded.below.push(span("queue", Duration::ZERO, waited, &[]));
            let read = [("gen_ai.usage.input_tokens", prompt), ("akunu.cached_tokens", cached)];
            recorded.below.push(span("prefill", waited, first_token, &read));
            recorded.below.push(span("decode", first_token, total, &[("gen_ai.usage.output_tokens", generated)]));
            let of_model = text("gen_ai.request.model", model);
            if !recorded.span.attributes.contains(&of_model) {
                recorded.span.attributes.push(of_model);
            }
        });
    }

    fn record(&self, change: impl FnOnce(&mut Recorded)) {
        if let Some(open) = &self.0 {
            change(&mut open.recorded.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Recorded { span, below } = self.recorded.get_mut().unwrap_or_else(PoisonError::into_inner);
        span.ended = SystemTime::now();
        let own = hex(1);
        let mut spans = vec![span.written(&self.trace, &own, self.parent.as_deref())];
        spans.extend(below.iter().map(|span| span.written(&self.trace, &hex(1), Some(&own))));
        self.exporter.send(spans);
    }
}

impl Span {
    /// As the protocol has it in JSON.
    fn written(&self, trace: &str, id: &str, parent: Option<&str>) -> Value {
        let nanoseconds = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            since.as_nanos().to_string()
        };
        json!({
            "traceId": trace,
            "spanId": id,
            "parentSpanId": parent.unwrap_or_default(),
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": nanoseconds(self.begun),
            "endTimeUnixNano": nanoseconds(self.ended),
            "attributes": self.attributes,
            "status": { "code": if self.failed { 2 } else { 0 } },
        })
    }
}

fn text(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

/// 64-bit numbers are texts in the protocol's JSON.
fn number(name: &str, value: u64) -> Value {
    json!({ "key": name, "value": { "intValue": value.to_string() } })
}

/// An identifier of so many words.
fn hex(words: usize) -> String {
    (0..words).map(|_| format!("{:016x}", crate::random().max(1))).collect()
}
