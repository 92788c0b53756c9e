//! What llama.cpp's server has beside OpenAI's API, as far as editors and scripts ask for it: `/completion`, `/props`, `/slots`.

mod completion;

use super::openai::sampling::Sampling;
use crate::App;
use crate::dialects::operation::{Operation, get, post};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use completion::{Completion, HARMLESS};
use serde_json::{Value, json};
use std::sync::Arc;

pub fn operations() -> Vec<Operation> {
    let completes = |operation: Operation| {
        let operation = operation.takes::<Completion>().takes::<Sampling>().ignores(HARMLESS);
        // With those fields that were asked for; a list where there are several prompts.
        let answer = json!({ "content?": "string", "tokens?": ["integer"], "stop?": "boolean" });
        operation.gives(answer.clone()).gives(json!([answer])).gives_text("text/event-stream")
    };
    let props = get("/props", "What the server and its first model are.", props);
    vec![
        completes(post("/completion", "Goes on from a text, as llama.cpp's server does.", completion::create)),
        completes(post("/completions", "The same.", completion::create)),
        props.gives(json!({ "default_generation_settings": "object", "total_slots": "integer" })),
        get("/slots", "Places for answers.", slots).gives(json!([{ "id": "integer", "is_processing": "boolean" }])),
    ]
}

async fn props(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    let generator = app.models.generator(None).await?;
    Ok(Json(json!({
        "default_generation_settings": { "n_ctx": generator.context },
        "total_slots": app.options.scheduler.sequences,
        "model_alias": generator.name,
        "chat_template": generator.template().map(|t| t.source()),
        "build_info": super::openai::FINGERPRINT,
    })))
}

async fn slots(State(app): State<Arc<App>>) -> Json<Value> {
    let running = |loaded: crate::models::Loaded| loaded.generator.map_or(0, |g| g.service.metrics().running);
    let running: usize = app.models.loaded().into_iter().map(running).sum();
    let slots = (0..app.options.scheduler.sequences).map(|i| json!({ "id": i, "is_processing": i < running }));
    Json(slots.collect())
}
