//! `/api/tags`, `/api/show` and `/api/ps`.

use super::time;
use crate::App;
use crate::http::body::{Fields, short};
use crate::models::{Entry, Source};
use crate::number::number;
use crate::problem::{Kind, Problem};
use akunu::{About, ChatTemplate, Purpose, ReplyFormat, Tokenizer};
use akunu_formats::{Metadata, ModelFile, gguf};
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest time that a model stays, in lists.
const LONGEST: Duration = Duration::from_secs(1000 * 365 * 86_400);

pub async fn tags(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    tokio::task::spawn_blocking(move || {
        // What cannot be read cannot be used either.
        let models = app.models.catalog.entries().iter().filter_map(|entry| {
            let about = entry.about().ok()?;
            let mut model = model(&app, entry, about);
            model["modified_at"] = time::written(modified(&app, entry)).into();
            Some(model)
        });
        Ok(Json(json!({ "models": models.collect::<Vec<_>>() })))
    })
    .await?
}

pub async fn ps(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    tokio::task::spawn_blocking(move || {
        let models = app.models.loaded().into_iter().map(|loaded| {
            let entry = app.models.catalog.entry(loaded.entry);
            let about = entry.about()?;
            let mut model = model(&app, entry, about);
            model["size"] = loaded.needs.total().into();
            model["expires_at"] = match loaded.stays {
                Some(stays) => time::written(SystemTime::now() + stays.min(LONGEST)).into(),
                None => "9999-12-31T23:59:59Z".into(),
            };
            model["size_vram"] = 0.into();
            model["context_length"] = loaded.generator.map_or(about.context, |generator| generator.context).into();
            Ok(model)
        });
        let models = models.collect::<Result<Vec<Value>, Problem>>()?;
        Ok(Json(json!({ "models": models })))
    })
    .await?
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Show {
    model: Option<String>,
    /// An older name.
    name: Option<String>,
}

pub async fn show(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Json<Value>, Problem> {
    let request: Show = fields.take()?;
    // Lists of tokens and tensors are not given.
    fields.ignore(&["verbose"]);
    fields.end()?;
    let name = request.model.or(request.name);
    let name = name.ok_or_else(|| Problem::field("model", "model is missing"))?;
    let Some(at) = app.models.catalog.called(&name) else {
        return Err(Problem::new(Kind::NotFound, format!("model '{}' not found", short(&name))));
    };
    tokio::task::spawn_blocking(move || {
        let entry = app.models.catalog.entry(at);
        let about = entry.about()?;
        let file = entry.open()?;
        let template = match &entry.template {
            Some(source) => ChatTemplate::new(source).ok(),
            None => ChatTemplate::from_model_file(&file).ok(),
        };
        let mut capabilities = vec![match about.purpose {
            Purpose::Generate => "completion",
            Purpose::Embed => "embedding",
            Purpose::Rank => "rerank",
            Purpose::Transcribe => "transcription",
        }];
        if let (Some(template), Ok(tokenizer)) = (&template, Tokenizer::from_model_file(&file)) {
            let format = ReplyFormat::of(template, &tokenizer);
            capabilities.extend(format.shows_tools().then_some("tools"));
            capabilities.extend(format.thinking().map(|_| "thinking"));
        }
        let info = info(&file, about);
        let text = |name: &str| info.get(name).and_then(Value::as_str).unwrap_or_default();
        Ok(Json(json!({
            "license": text("general.license"),
            // Models have no settings of their own here.
            "modelfile": format!("FROM {}\n", entry.name),
            "parameters": "",
            "template": template.as_ref().map_or("", ChatTemplate::source),
            "details": details(entry, about),
            "model_info": info,
            "capabilities": capabilities,
            "modified_at": time::written(modified(&app, entry)),
        })))
    })
    .await?
}

/// What a file says of its model. Lists, as those of tokens, are not given, and said to be there.
fn info(file: &ModelFile, about: &About) -> Map<String, Value> {
    let mut info = Map::new();
    if let Metadata::Gguf(metadata) = file.metadata() {
        info.extend(metadata.iter().map(|(name, value)| {
            let value = match value {
                gguf::Value::U64(n) => (*n).into(),
                gguf::Value::I64(n) => (*n).into(),
                // Nearly all are of 32 bits.
                gguf::Value::F64(n) => number(*n as f32),
                gguf::Value::Bool(is) => (*is).into(),
                gguf::Value::String(text) => text.as_str().into(),
                gguf::Value::Array(_) => Value::Null,
            };
            (name.to_owned(), value)
        }));
    }
    let architecture = about.architecture;
    info.insert("general.architecture".into(), architecture.into());
    info.insert("general.parameter_count".into(), about.parameters.into());
    let numbers = [
        ("block_count", about.layers),
        ("context_length", about.context),
        ("embedding_length", about.width),
        ("vocab_size", about.vocab),
    ];
    info.extend(numbers.map(|(name, n)| (format!("{architecture}.{name}"), n.into())));
    info
}

/// What lists say of a model.
fn model(app: &App, entry: &Entry, about: &About) -> Value {
    let name = if entry.name.contains(':') { entry.name.clone() } else { format!("{}:latest", entry.name) };
    let digest = digest(app, entry, about);
    json!({ "name": name, "model": name, "size": about.bytes, "digest": digest, "details": details(entry, about) })
}

fn details(entry: &Entry, about: &About) -> Value {
    let format = match &entry.source {
        Source::Path(path) if path.is_dir() => "safetensors",
        Source::Path(path) if path.extension().is_some_and(|e| e == "bin") => "ggml",
        Source::Path(_) | Source::Embedded => "gguf",
    };
    json!({
        "parent_model": "",
        "format": format,
        "family": about.architecture,
        "families": [about.architecture],
        "parameter_size": parameters(about.parameters),
        "quantization_level": about.format.to_string(),
    })
}

/// `1.5B`.
fn parameters(count: u64) -> String {
    match count as f64 {
        n if n >= 1e9 => format!("{:.1}B", n / 1e9),
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n => format!("{:.2}K", n / 1e3),
    }
}

fn modified(app: &App, entry: &Entry) -> SystemTime {
    let of_file = match &entry.source {
        Source::Path(path) => std::fs::metadata(path).and_then(|m| m.modified()).ok(),
        Source::Embedded => None,
    };
    of_file.unwrap_or(UNIX_EPOCH + Duration::from_secs(app.started))
}

/// Another one where the file is another one; not of its content, which may be large.
fn digest(app: &App, entry: &Entry, about: &About) -> String {
    let modified = match &entry.source {
        Source::Path(_) => Some(modified(app, entry)),
        Source::Embedded => None,
    };
    let told = format!("{:?} {modified:?} {} {}", entry.source, about.bytes, about.parameters);
    Sha256::digest(told.as_bytes()).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
