//! The APIs that programs speak, one folder each: they translate requests into `answer::Ask` and answers back.

pub mod anthropic;
mod ggml;
mod ollama;
pub mod openai;
mod operation;
mod own;
mod prompts;

use crate::App;
use crate::problem::{Kind, Problem};
use axum::Router;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use operation::Operation;
use serde_json::Value;
use std::sync::Arc;

/// All routes of all dialects.
pub fn routes() -> Router<Arc<App>> {
    operation::router(operations())
}

fn operations() -> Vec<Operation> {
    let dialects = [openai::operations, anthropic::operations, ollama::operations, ggml::operations, own::operations];
    dialects.iter().flat_map(|operations| operations()).collect()
}

/// What OpenAPI says of them.
fn document() -> Value {
    let all = Problem::field("", "").code("");
    operation::document(&operations(), |path| words(path, &HeaderMap::new())(&all))
}

/// A dialect's way to say what is wrong.
type Words = fn(&Problem) -> Value;

/// Which paths are whose; the first that fits.
const PATHS: &[(&str, Words)] = &[("/v1/messages", anthropic::error), ("/api/", ollama::error), ("/", openai::error)];

fn words(path: &str, headers: &HeaderMap) -> Words {
    if path.starts_with("/v1/models") && anthropic::is_asked(headers) {
        return anthropic::error;
    }
    PATHS.iter().find(|(prefix, _)| path.starts_with(prefix)).map_or(openai::error, |(_, words)| *words)
}

/// Writes a problem as the dialect of the path has it: one place for handlers, guards and missing paths alike.
pub async fn in_its_words(request: Request, next: Next) -> Response {
    let words = words(request.uri().path(), request.headers());
    let response = next.run(request).await;
    let Some(problem) = response.extensions().get::<Problem>() else { return response };
    let (status, headers) = (response.status(), response.headers().clone());
    let body = axum::body::Body::from(words(problem).to_string());
    let mut written = (status, body).into_response();
    *written.headers_mut() = headers;
    written.headers_mut().remove("content-length");
    written.headers_mut().insert("content-type", axum::http::HeaderValue::from_static("application/json"));
    written
}

/// Nothing is at this path.
pub async fn missing(request: Request) -> Problem {
    let path = crate::http::body::short(request.uri().path());
    Problem::new(Kind::NotFound, format!("there is nothing at {path}")).code("not_found")
}

/// Something is at this path, for other methods.
pub async fn wrong_method(request: Request) -> Problem {
    let path = crate::http::body::short(request.uri().path());
    Problem::new(Kind::Method, format!("{path} cannot be asked with {}", request.method())).code("method_not_allowed")
}
