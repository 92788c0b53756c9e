//! `/api/embed`, and `/api/embeddings` as it was before.

use super::keep::KeepAlive;
use super::nanos;
use crate::App;
use crate::answer::Piece;
use crate::dialects::openai::sampling::OneOrMany;
use crate::http::body::Fields;
use crate::models::{Item, Keep};
use crate::problem::Problem;
use akunu::TooLong;
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Embed {
    model: Option<String>,
    input: Option<OneOrMany>,
    /// Cut what is too long. Where nobody says it is refused: nothing is cut in silence.
    truncate: Option<bool>,
    dimensions: Option<usize>,
    keep_alive: Option<KeepAlive>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Embeddings {
    model: Option<String>,
    prompt: Option<String>,
    keep_alive: Option<KeepAlive>,
}

/// How models are loaded and write, which changes no vector.
pub const HARMLESS: &[&str] = &["options"];

struct Embedded {
    model: String,
    vectors: Vec<Vec<f32>>,
    tokens: usize,
    loading: Duration,
    total: Duration,
}

pub async fn embed(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Json<Value>, Problem> {
    let request: Embed = fields.take()?;
    fields.ignore(HARMLESS);
    fields.end()?;
    let texts = match request.input {
        None => Vec::new(),
        // An empty text asks to load the model.
        Some(OneOrMany::One(text)) if text.is_empty() => Vec::new(),
        Some(texts) => texts.into_vec(),
    };
    let too_long = if request.truncate.unwrap_or(false) { TooLong::Cut } else { TooLong::Refuse };
    let keep = request.keep_alive.map(KeepAlive::read).transpose()?;
    let embedded = vectors(&app, request.model, keep, texts, too_long, request.dimensions).await?;
    Ok(Json(json!({
        "model": embedded.model,
        "embeddings": embedded.vectors,
        "total_duration": nanos(embedded.total),
        "load_duration": nanos(embedded.loading),
        "prompt_eval_count": embedded.tokens,
    })))
}

pub async fn embeddings(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Json<Value>, Problem> {
    let request: Embeddings = fields.take()?;
    fields.ignore(HARMLESS);
    fields.end()?;
    let texts = request.prompt.into_iter().filter(|text| !text.is_empty()).collect();
    let keep = request.keep_alive.map(KeepAlive::read).transpose()?;
    let embedded = vectors(&app, request.model, keep, texts, TooLong::Refuse, None).await?;
    Ok(Json(json!({ "embedding": embedded.vectors.into_iter().next().unwrap_or_default() })))
}

async fn vectors(
    app: &App,
    model: Option<String>,
    keep: Option<Keep>,
    texts: Vec<String>,
    too_long: TooLong,
    dimensions: Option<usize>,
) -> Result<Embedded, Problem> {
    let most = app.options.limits.texts;
    if texts.len() > most {
        return Err(Problem::field("input", format!("input must have at most {most} texts")));
    }
    let began = Instant::now();
    let reader = app.models.embedder(model.as_deref()).await?;
    if let Some(keep) = keep {
        app.models.keep(&reader, keep);
    }
    let loading = began.elapsed();
    let (model, width) = (reader.name.clone(), reader.dimensions(dimensions)?);
    let mut read =
        reader.read(texts.into_iter().map(|text| Item::Row(vec![Piece::Text(text)])).collect(), too_long).await?;
    for vector in &mut read.vectors {
        vector.truncate(width);
        akunu::normalize(vector);
    }
    Ok(Embedded { model, vectors: read.vectors, tokens: read.tokens, loading, total: began.elapsed() })
}
