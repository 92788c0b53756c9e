//! Ollama's API.

mod chat;
mod embed;
mod how;
mod lines;
mod models;
mod time;

use crate::App;
use crate::problem::Problem;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/chat", post(chat::chat))
        .route("/api/generate", post(chat::generate))
        .route("/api/embed", post(embed::embed))
        .route("/api/embeddings", post(embed::embeddings))
        .route("/api/tags", get(models::tags))
        .route("/api/show", post(models::show))
        .route("/api/ps", get(models::ps))
        .route("/api/version", get(version))
}

/// `{"error": …}`.
pub fn error(problem: &Problem) -> Value {
    json!({ "error": problem.message })
}

/// This server's own.
async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
