//! `/v1/embeddings` and `/v1/rerank`.

use crate::App;
use crate::dialects::prompts::Prompts;
use crate::http::body::Fields;
use crate::models::Item;
use crate::number::number;
use crate::problem::Problem;
use akunu::TooLong;
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Embeddings {
    model: Option<String>,
    input: Prompts,
    encoding_format: Option<Encoding>,
    dimensions: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Float,
    Base64,
}

pub async fn create(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Json<Value>, Problem> {
    let request: Embeddings = fields.take()?;
    fields.ignore(&["user"]);
    fields.end()?;
    let items: Vec<Item> = request.input.rows("input")?.into_iter().map(Item::Row).collect();
    check_count(&app, "input", items.len())?;
    let reader = app.models.embedder(request.model.as_deref()).await?;
    let width = reader.dimensions(request.dimensions)?;
    let model = reader.name.clone();
    let read = reader.read(items, TooLong::Refuse).await?;
    let encoding = request.encoding_format.unwrap_or_default();
    let data = read.vectors.into_iter().enumerate().map(|(index, mut vector)| {
        vector.truncate(width);
        akunu::normalize(&mut vector);
        let embedding: Value = match encoding {
            Encoding::Float => vector.into_iter().map(number).collect(),
            Encoding::Base64 => base64(&vector.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).into(),
        };
        json!({ "object": "embedding", "index": index, "embedding": embedding })
    });
    let data: Vec<Value> = data.collect();
    let usage = json!({ "prompt_tokens": read.tokens, "total_tokens": read.tokens });
    Ok(Json(json!({ "object": "list", "data": data, "model": model, "usage": usage })))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Rerank {
    model: Option<String>,
    query: String,
    #[schemars(length(min = 1))]
    documents: Option<Vec<Document>>,
    /// An older name.
    texts: Option<Vec<Document>>,
    top_n: Option<usize>,
    return_documents: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Document {
    Text(String),
    Object { text: String },
}

pub async fn rerank(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Json<Value>, Problem> {
    let request: Rerank = fields.take()?;
    fields.end()?;
    // Text Embeddings Inference takes `texts`, and gives a list.
    let bare = request.documents.is_none() && request.texts.is_some();
    let documents = request.documents.or(request.texts);
    let documents = documents.ok_or_else(|| Problem::field("documents", "documents is missing"))?;
    let documents: Vec<String> = documents
        .into_iter()
        .map(|document| match document {
            Document::Text(text) | Document::Object { text } => text,
        })
        .collect();
    check_count(&app, "documents", documents.len())?;
    let reader = app.models.ranker(request.model.as_deref()).await?;
    if reader.width != 1 {
        return Err(Problem::field("model", "the model was not made to rank"));
    }
    let model = reader.name.clone();
    let pairs = documents.iter().map(|document| Item::Pair(request.query.clone(), document.clone())).collect();
    let read = reader.read(pairs, TooLong::Refuse).await?;
    let score = |i: usize| read.vectors[i].first().copied().unwrap_or(f32::NEG_INFINITY);
    let mut order: Vec<usize> = (0..documents.len()).collect();
    order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
    order.truncate(request.top_n.unwrap_or(usize::MAX));
    let results = order.into_iter().map(|index| {
        let mut result = json!({ "index": index, "relevance_score": number(score(index)) });
        if request.return_documents.unwrap_or(false) {
            result["document"] = json!({ "text": documents[index] });
        }
        result
    });
    let results: Vec<Value> = results.collect();
    if bare {
        let bare = |r: &Value| json!({ "index": r["index"], "score": r["relevance_score"] });
        return Ok(Json(results.iter().map(bare).collect()));
    }
    let usage = json!({ "prompt_tokens": read.tokens, "total_tokens": read.tokens });
    Ok(Json(json!({ "object": "list", "model": model, "results": results, "usage": usage })))
}

fn check_count(app: &App, field: &str, count: usize) -> Result<(), Problem> {
    let most = app.options.limits.texts;
    match count {
        0 => Err(Problem::field(field, format!("{field} must not be empty"))),
        n if n > most => Err(Problem::field(field, format!("{field} must have at most {most} texts"))),
        _ => Ok(()),
    }
}

/// With padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= chunk.len() { digit as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_is_that_of_the_standard() {
        // The examples of RFC 4648.
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(super::base64(bytes.as_bytes()), text);
        }
    }
}
