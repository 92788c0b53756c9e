//! Anthropic's API. Its headers `anthropic-version` and `anthropic-beta` are taken and change nothing.

mod events;
mod history;
mod message;
mod messages;

use crate::App;
use crate::dialects::operation::{Operation, post};
use crate::problem::{Kind, Problem};
use messages::{Conversation, Generation};
use serde_json::{Value, json};
use std::time::{Duration, UNIX_EPOCH};

pub fn operations() -> Vec<Operation> {
    let takes = |operation: Operation| {
        let operation = operation.takes::<Conversation>().takes::<Generation>().ignores(messages::HARMLESS);
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

/// What `/v1/models` is to them.
pub fn models(app: &App) -> Value {
    let names: Vec<&String> = app.models.catalog.entries().iter().map(|entry| &entry.name).collect();
    let data: Vec<Value> = names.iter().map(|name| model(app, name)).collect();
    json!({ "data": data, "has_more": false, "first_id": names.first(), "last_id": names.last() })
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
