//! Anthropic's API. Its headers `anthropic-version` and `anthropic-beta` are taken and change nothing.

mod events;
mod history;
mod message;
mod messages;

use crate::App;
use crate::problem::{Kind, Problem};
use axum::Router;
use axum::routing::post;
use serde_json::{Value, json};
use std::sync::Arc;

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/messages", post(messages::create))
        .route("/v1/messages/count_tokens", post(messages::count_tokens))
}

/// `{"type": "error", "error": …}`.
pub fn error(problem: &Problem) -> Value {
    let kind = match problem.kind {
        Kind::Invalid | Kind::Method => "invalid_request_error",
        Kind::TooLarge => "request_too_large",
        Kind::Unauthorized => "authentication_error",
        Kind::Forbidden => "permission_error",
        Kind::NotFound => "not_found_error",
        Kind::RateLimited => "rate_limit_error",
        Kind::Overloaded => "overloaded_error",
        Kind::TimedOut => "timeout_error",
        Kind::Internal => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": problem.message } })
}

/// A new identifier.
fn id(prefix: &str) -> String {
    format!("{prefix}{:016x}{:08x}", crate::random(), crate::random() as u32)
}
