//! Anthropic's API. Of its headers, `anthropic-version` tells it from OpenAI's at `/v1/models`, and `anthropic-beta` changes
//! nothing.

mod events;
mod history;
mod message;
mod messages;

use crate::App;
use crate::dialects::openai::sampling::Sampling;
use crate::dialects::operation::{Operation, post};
use crate::http::body::short;
use crate::problem::{Kind, Problem};
use axum::http::HeaderMap;
use messages::{Content, Generation};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, UNIX_EPOCH};

pub fn operations() -> Vec<Operation> {
    let takes = |operation: Operation| {
        let operation = operation.takes::<Content>().takes::<Generation>();
        let operation = operation.takes::<Sampling>().ignores(messages::HARMLESS);
        operation.ignores(&["context_management"])
    };
    let message = json!({
        "id": "string",
        "type": "=message",
        "role": "=assistant",
        "model": "string",
        "content": [{ "type": "string" }],
        "stop_reason": "string",
        "stop_sequence": "string?",
        "usage": {
            "input_tokens": "integer",
            "cache_creation_input_tokens": "integer",
            "cache_read_input_tokens": "integer",
            "output_tokens": "integer",
        },
    });
    let create = post("/v1/messages", "Answers messages, as Anthropic's API does.", messages::create);
    let count = post("/v1/messages/count_tokens", "How many tokens messages are.", messages::count_tokens);
    vec![
        takes(create).gives(message).gives_text("text/event-stream"),
        takes(count).gives(json!({ "input_tokens": "integer" })),
    ]
}

/// A model, as clients of this API see it.
pub fn model(app: &App, name: &str) -> Value {
    let created = super::ollama::time::written(UNIX_EPOCH + Duration::from_secs(app.started));
    json!({ "type": "model", "id": name, "display_name": name, "created_at": created })
}

/// Which models to list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Page {
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    after_id: Option<String>,
    before_id: Option<String>,
}

const USUAL_PAGE: usize = 20;
const LARGEST_PAGE: usize = 1000;

/// What `/v1/models` is to them.
pub fn models(app: &App, page: &Page) -> Result<Value, Problem> {
    let limit = page.limit.unwrap_or(USUAL_PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(Problem::field("limit", format!("limit must be between 1 and {LARGEST_PAGE}")));
    }
    let names: Vec<&String> = app.models.catalog.entries().iter().map(|entry| &entry.name).collect();
    let place = |field: &str, id: &String| {
        let at = names.iter().position(|name| *name == id);
        at.ok_or_else(|| Problem::field(field, format!("{field}: there is no model {:?}", short(id))))
    };
    let (names, has_more) = match (&page.after_id, &page.before_id) {
        (Some(_), Some(_)) => return Err(Problem::field("before_id", "before_id and after_id exclude each other")),
        (None, Some(id)) => {
            let before = &names[..place("before_id", id)?];
            let skipped = before.len().saturating_sub(limit);
            (&before[skipped..], skipped > 0)
        }
        (after, None) => {
            let from = after.as_ref().map_or(Ok(0), |id| place("after_id", id).map(|at| at + 1))?;
            let rest = &names[from..];
            (&rest[..limit.min(rest.len())], rest.len() > limit)
        }
    };
    let data: Vec<Value> = names.iter().map(|name| model(app, name)).collect();
    Ok(json!({ "data": data, "has_more": has_more, "first_id": names.first(), "last_id": names.last() }))
}

/// Whether a request at an address of several APIs is one of this one: its clients say so.
pub fn is_asked(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
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
