//! OpenAI's API.

mod chat;
mod completions;
mod embeddings;
mod models;
pub mod sampling;

pub use chat::plain as plain_message;

use crate::App;
use crate::answer::{Ending, Gathered, Reason};
use crate::problem::{Kind, Problem};
use axum::Router;
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::sync::Arc;

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/completions", post(completions::create))
        .route("/v1/embeddings", post(embeddings::create))
        .route("/v1/rerank", post(embeddings::rerank))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{id}", get(models::one))
}

/// `{"error": …}`.
pub fn error(problem: &Problem) -> Value {
    let kind = match problem.kind {
        Kind::Invalid | Kind::Method | Kind::TooLarge => "invalid_request_error",
        Kind::Unauthorized => "authentication_error",
        Kind::Forbidden => "permission_error",
        Kind::NotFound => "not_found_error",
        Kind::RateLimited => "rate_limit_error",
        Kind::Overloaded => "overloaded_error",
        Kind::TimedOut => "timeout_error",
        Kind::Internal => "server_error",
    };
    json!({ "error": { "message": problem.message, "type": kind, "param": problem.field, "code": problem.code } })
}

fn finish_reason(reason: &Reason) -> &'static str {
    match reason {
        Reason::Done | Reason::StopString(_) => "stop",
        Reason::Length => "length",
        Reason::Calls => "tool_calls",
    }
}

fn usage(prompt: usize, cached: usize, generated: usize, thought: usize) -> Value {
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": { "cached_tokens": cached },
        "completion_tokens_details": { "reasoning_tokens": thought },
    })
}

fn usage_of(gathered: &Gathered) -> Value {
    usage(gathered.prompt, gathered.cached(), gathered.generated(), 0)
}

/// What streams count until their end.
#[derive(Default)]
struct Count {
    generated: usize,
    cached: usize,
    last: Option<Ending>,
}

impl Count {
    fn add(&mut self, ending: Ending) {
        self.generated += ending.generated;
        if self.last.is_none() {
            self.cached = ending.summary.cached;
        }
        self.last = Some(ending);
    }
}

/// A new identifier.
fn id(prefix: &str) -> String {
    format!("{prefix}{:016x}{:08x}", crate::random(), crate::random() as u32)
}
