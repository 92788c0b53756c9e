//! `/v1/models`.

use crate::App;
use crate::dialects::anthropic;
use crate::http::address::{Asked, At};
use crate::models::Entry;
use crate::problem::{Kind, Problem};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::{Value, json};
use std::sync::Arc;

pub async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Asked(page): Asked<anthropic::Page>,
) -> Result<Json<Value>, Problem> {
    if anthropic::is_asked(&headers) {
        return Ok(Json(anthropic::models(&app, &page)?));
    }
    let of = app.clone();
    let models: Vec<Value> = tokio::task::spawn_blocking(move || {
        of.models.catalog.entries().iter().enumerate().map(|(i, entry)| model(&of, i, entry)).collect()
    })
    .await?;
    Ok(Json(json!({ "object": "list", "data": models })))
}

pub async fn one(State(app): State<Arc<App>>, headers: HeaderMap, At(name): At) -> Result<Json<Value>, Problem> {
    let found = app.models.catalog.called(&name);
    let Some(at) = found else {
        let sentence = format!("there is no model {:?}", crate::http::body::short(&name));
        return Err(Problem::new(Kind::NotFound, sentence).code("model_not_found"));
    };
    if anthropic::is_asked(&headers) {
        return Ok(Json(anthropic::model(&app, &app.models.catalog.entry(at).name)));
    }
    tokio::task::spawn_blocking(move || Json(model(&app, at, app.models.catalog.entry(at))))
        .await
        .map_err(Problem::from)
}

fn model(app: &App, at: usize, entry: &Entry) -> Value {
    let loaded = app.models.loaded().into_iter().any(|l| l.entry == at);
    let mut value = json!({ "id": entry.name, "object": "model", "created": app.started, "owned_by": "akunu" });
    value["akunu"] = match entry.about() {
        Ok(about) => json!({
            "loaded": loaded,
            "kind": match about.purpose {
                akunu::Purpose::Generate if entry.talks() => "chat",
                akunu::Purpose::Generate => "completion",
                akunu::Purpose::Embed => "embedding",
                akunu::Purpose::Rank => "rerank",
                akunu::Purpose::Transcribe => "speech",
            },
            "architecture": about.architecture,
            "parameters": about.parameters,
            "bytes": about.bytes,
            "context": about.context,
            "aliases": entry.aliases,
        }),
        Err(problem) => json!({ "loaded": false, "error": problem.message }),
    };
    value
}
