//! What is ours and llama.cpp's: tokens, templates, health, metrics, the page.

use crate::App;
use crate::answer::Think;
use crate::dialects::operation::{Operation, get, post};
use crate::http::body::Fields;
use crate::problem::{Kind, Problem};
use akunu_text::Encode;
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub fn operations() -> Vec<Operation> {
    let status = || json!({ "status": "string" });
    let tokenize = post("/tokenize", "A text as tokens.", tokenize).takes::<Tokenize>();
    let detokenize = post("/detokenize", "Tokens as a text.", detokenize).takes::<Detokenize>();
    let template = post("/apply-template", "The prompt that messages become.", apply_template);
    vec![
        get("/", "The page.", page).gives_text("text/html"),
        get("/health", "Whether the server is there.", health).gives(status()),
        get("/ready", "Whether requests should be sent here.", ready).gives(status()),
        get("/metrics", "What goes on, for Prometheus.", metrics).gives_text("text/plain"),
        get("/openapi.json", "What there is to ask.", document).gives(json!("object")),
        // Numbers, or objects with their texts.
        tokenize.gives(json!({ "tokens": ["any"] })),
        detokenize.gives(json!({ "content": "string" })),
        template.takes::<ApplyTemplate>().gives(json!({ "prompt": "string" })),
    ]
}

/// All operations of all dialects.
async fn document() -> Json<Value> {
    Json(super::document())
}

/// The page, built from `web/`; what it may do is in its own first lines.
async fn page() -> Response {
    const PAGE: &str = include_str!("../../../../web/dist/index.html");
    let headers = [
        (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Html(PAGE)).into_response()
}

async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Whether requests should be sent here.
async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    match app.ending.load(Ordering::Relaxed) {
        false => Ok(Json(json!({ "status": "ready" }))),
        true => Err(Problem::new(Kind::Overloaded, "the server is about to end").code("ending")),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, crate::metrics::text(&app)).into_response()
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Tokenize {
    model: Option<String>,
    content: String,
    add_special: Option<bool>,
    parse_special: Option<bool>,
    with_pieces: Option<bool>,
}

async fn tokenize(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Json<Value>, Problem> {
    let request: Tokenize = fields.take()?;
    fields.end()?;
    let generator = app.models.generator(request.model.as_deref()).await?;
    tokio::task::spawn_blocking(move || {
        let how = Encode {
            add_special: request.add_special.unwrap_or(false),
            parse_special: request.parse_special.unwrap_or(true),
        };
        let tokens = generator.tokenizer()?.encode(&request.content, how)?;
        if !request.with_pieces.unwrap_or(false) {
            return Ok(Json(json!({ "tokens": tokens })));
        }
        let pieces = tokens.iter().map(|&id| {
            let bytes = generator.token_bytes(id);
            let piece = match str::from_utf8(bytes) {
                Ok(text) => json!(text),
                Err(_) => json!(bytes),
            };
            json!({ "id": id, "piece": piece })
        });
        Ok(Json(json!({ "tokens": pieces.collect::<Vec<_>>() })))
    })
    .await?
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Detokenize {
    model: Option<String>,
    tokens: Vec<u32>,
}

async fn detokenize(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Json<Value>, Problem> {
    let request: Detokenize = fields.take()?;
    fields.end()?;
    let generator = app.models.generator(request.model.as_deref()).await?;
    Ok(Json(json!({ "content": generator.tokenizer()?.decode(&request.tokens, false) })))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ApplyTemplate {
    model: Option<String>,
    #[schemars(with = "Vec<super::openai::Message>")]
    messages: Vec<Map<String, Value>>,
    tools: Option<Vec<Value>>,
    add_generation_prompt: Option<bool>,
    continue_final_message: Option<bool>,
    chat_template_kwargs: Option<Map<String, Value>>,
}

async fn apply_template(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Json<Value>, Problem> {
    let request: ApplyTemplate = fields.take()?;
    fields.end()?;
    let generator = app.models.generator(request.model.as_deref()).await?;
    let variables = request.chat_template_kwargs.unwrap_or_default();
    let ends = (request.add_generation_prompt, request.continue_final_message);
    let conversation = super::openai::conversation(request.messages, variables, ends)?;
    let tools = super::openai::tools(&app, request.tools.as_deref().unwrap_or_default(), None, true)?;
    let render = move || generator.prompt(conversation, Think::Usual, &tools);
    let prompt = tokio::task::spawn_blocking(render).await??;
    Ok(Json(json!({ "prompt": prompt })))
}
