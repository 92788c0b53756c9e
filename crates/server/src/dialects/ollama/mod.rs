//! Ollama's API.

mod chat;
mod embed;
mod how;
mod keep;
mod lines;
mod models;
pub mod time;

use crate::dialects::operation::{Operation, get, post};
use crate::problem::Problem;
use axum::Json;
use how::Shared;
use serde_json::{Value, json};
use std::time::Duration;

pub fn operations() -> Vec<Operation> {
    let line = |more: Value| {
        let mut line = json!({ "model": "string", "created_at": "string", "done": "boolean" });
        if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
            line.extend(more);
        }
        line
    };
    let message =
        json!({ "role": "=assistant", "content": "string", "thinking?": "string", "tool_calls?": ["object"] });
    let chat = post("/api/chat", "Answers messages, as Ollama does.", chat::chat).takes::<chat::Chat>();
    let generate = post("/api/generate", "Answers a text.", chat::generate).takes::<chat::Generate>();
    let embed = post("/api/embed", "Texts as vectors.", embed::embed).takes::<embed::Embed>();
    let embeddings = post("/api/embeddings", "A text as a vector.", embed::embeddings).takes::<embed::Embeddings>();
    let show = post("/api/show", "What a model is.", models::show).takes::<models::Show>().ignores(&["verbose"]);
    let model =
        json!({ "name": "string", "model": "string", "size": "integer", "digest": "string", "details": "object" });
    let list = || json!({ "models": [model] });
    const LINES: &str = "application/x-ndjson";
    vec![
        chat.takes::<Shared>().gives(line(json!({ "message": message }))).gives_text(LINES),
        generate
            .takes::<Shared>()
            .ignores(&["suffix", "template", "context"])
            .gives(line(json!({ "response": "string", "thinking?": "string" })))
            .gives_text(LINES),
        embed.ignores(embed::HARMLESS).gives(json!({ "model": "string", "embeddings": [["number"]] })),
        embeddings.ignores(embed::HARMLESS).gives(json!({ "embedding": ["number"] })),
        get("/api/tags", "All models.", models::tags).gives(list()),
        show.gives(json!({ "details": "object", "model_info": "object", "capabilities": ["string"] })),
        get("/api/ps", "Models that are loaded.", models::ps).gives(list()),
        get("/api/version", "The version of the server.", version).gives(json!({ "version": "string" })),
    ]
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
