//! The APIs that programs speak, one folder each: they translate requests into `answer::Ask` and answers back.

mod ggml;
pub mod openai;
mod own;

use crate::App;
use crate::problem::{Kind, Problem};
use axum::Router;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// All routes of all dialects.
pub fn routes() -> Router<Arc<App>> {
    Router::new().merge(openai::routes()).merge(own::routes()).merge(ggml::routes())
}

/// A dialect's way to say what is wrong.
type Words = fn(&Problem) -> serde_json::Value;

/// Which paths are whose; the first that fits.
const PATHS: &[(&str, Words)] = &[("/", openai::error)];

fn words(path: &str) -> Words {
    PATHS.iter().find(|(prefix, _)| path.starts_with(prefix)).map_or(openai::error, |(_, words)| *words)
}

/// Writes a problem as the dialect of the path has it: one place for handlers, guards and missing paths alike.
pub async fn in_its_words(request: Request, next: Next) -> Response {
    let words = words(request.uri().path());
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
