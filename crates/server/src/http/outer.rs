//! What surrounds every request: a name for it in the log and in the answer, a trace, room for its body, and an answer even
//! where our code panics.

use super::unread;
use crate::App;
use crate::problem::{Kind, Problem};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;
use tracing::Instrument;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A middleware around all others.
pub async fn outer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).filter(|id| id.len() <= 128).cloned();
    let id = given.unwrap_or_else(|| {
        HeaderValue::from_maybe_shared(format!("{:016x}", crate::random())).unwrap_or(HeaderValue::from_static(""))
    });
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default());
    let (method, path, began) = (request.method().clone(), request.uri().path().to_owned(), Instant::now());
    let trace = app.tracer.begin(&request);
    let (request, unread) = unread::lend(request);
    let (request, held) = app.bodies.count(request);
    let mut response = without_panics(trace.clone().around(next.run(request))).instrument(span.clone()).await;
    if let Some(refusal) = held.refusal() {
        response = refusal.into_response();
    }
    unread.drain().await;
    // One of them is what Anthropic's clients look for.
    response.headers_mut().insert(HeaderName::from_static("request-id"), id.clone());
    response.headers_mut().insert(REQUEST_ID, id);
    let (status, seconds) = (response.status().as_u16(), began.elapsed().as_secs_f64());
    trace.status(status);
    span.in_scope(|| tracing::info!(%method, path, status, seconds, "answered"));
    response
}

/// A panic while a request is answered is that request's error, and nothing else.
async fn without_panics(answer: impl Future<Output = Response>) -> Response {
    let mut answer = pin!(answer);
    std::future::poll_fn(move |context| {
        catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context))).unwrap_or_else(|_| {
            let sentence = "the request could not be answered: this is a fault of the server";
            Poll::Ready(Problem::new(Kind::Internal, sentence).into_response())
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    #[test]
    fn a_panic_is_an_answer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(without_panics(async { panic!("as a test") }));
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
