//! OpenAI's API.

#[cfg(feature = "audio")]
mod audio;
mod chat;
mod completions;
mod embeddings;
mod models;
mod responses;
pub mod sampling;
mod tools;

pub use chat::plain as plain_message;
pub use responses::Store;
pub use tools::tools;

use crate::App;
use crate::answer::{Ending, Gathered, Reason};
use crate::problem::{Kind, Problem};
use axum::Router;
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::sync::Arc;

pub fn routes() -> Router<Arc<App>> {
    let under = |prefix: &str| {
        let at = |path: &str| format!("{prefix}{path}");
        Router::new()
            .route(&at("/chat/completions"), post(chat::create))
            .route(&at("/embeddings"), post(embeddings::create))
            .route(&at("/rerank"), post(embeddings::rerank))
            .route(&at("/reranking"), post(embeddings::rerank))
            .route(&at("/responses"), post(responses::create))
            .route(&at("/responses/{id}"), get(responses::get).delete(responses::delete))
            .route(&at("/responses/{id}/input_items"), get(responses::input_items))
            .route(&at("/models"), get(models::list))
            .route(&at("/models/{*id}"), get(models::one))
    };
    // Many programs are given an address without `/v1`.
    let routes = under("").merge(under("/v1")).route("/v1/completions", post(completions::create));
    #[cfg(feature = "audio")]
    let routes = routes
        .route("/v1/audio/transcriptions", post(audio::transcriptions))
        .route("/v1/audio/translations", post(audio::translations));
    routes
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
    usage(gathered.prompt, gathered.cached(), gathered.generated(), gathered.thought())
}

/// What streams count until their end.
#[derive(Default)]
struct Count {
    generated: usize,
    thought: usize,
    cached: usize,
    last: Option<Ending>,
}

impl Count {
    fn add(&mut self, ending: Ending) {
        self.generated += ending.generated;
        self.thought += ending.thought;
        if self.last.is_none() {
            self.cached = ending.summary.cached;
        }
        self.last = Some(ending);
    }
}

/// What answers are made by.
pub const FINGERPRINT: &str = concat!("b-akunu-", env!("CARGO_PKG_VERSION"));

/// A new identifier.
fn id(prefix: &str) -> String {
    format!("{prefix}{:016x}{:08x}", crate::random(), crate::random() as u32)
}
