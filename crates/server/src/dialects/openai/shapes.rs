//! What messages and answers look like, for `/openapi.json`: see `Operation::gives`.

use schemars::JsonSchema;
use serde_json::{Value, json};

/// A message of a request, which has more fields than these.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub struct Message {
    role: String,
    content: Content,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
    /// Of a message that only calls tools.
    Nothing,
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Part {
    r#type: Option<Kind>,
    text: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[allow(dead_code)]
enum Kind {
    Text,
    InputText,
    OutputText,
}

fn usage() -> Value {
    json!({
        "prompt_tokens": "integer",
        "completion_tokens": "integer",
        "total_tokens": "integer",
        "prompt_tokens_details": { "cached_tokens": "integer" },
        "completion_tokens_details": { "reasoning_tokens": "integer" },
    })
}

pub fn chat() -> Value {
    let call = json!({
        "id": "string",
        "type": "=function",
        "function": { "name": "string", "arguments": "string" },
    });
    let message = json!({
        "role": "=assistant",
        "content": "string?",
        "refusal": "null",
        "reasoning_content?": "string",
        "tool_calls?": [call],
    });
    let choice = json!({ "index": "integer", "message": message, "logprobs": "object?", "finish_reason": "string?" });
    json!({
        "id": "string",
        "object": "=chat.completion",
        "created": "integer",
        "model": "string",
        "choices": [choice],
        "usage": usage(),
        "timings": "object?",
    })
}

pub fn completion() -> Value {
    let choice = json!({ "index": "integer", "text": "string", "logprobs": "object?", "finish_reason": "string?" });
    json!({
        "id": "string",
        "object": "=text_completion",
        "created": "integer",
        "model": "string",
        "choices": [choice],
        "usage": usage(),
        "timings": "object?",
    })
}

pub fn embeddings() -> Value {
    // A list of numbers, or the same as base64.
    let item = json!({ "object": "=embedding", "index": "integer", "embedding": "any" });
    json!({ "object": "=list", "data": [item], "model": "string", "usage": read() })
}

pub fn rerank() -> Value {
    let result = json!({ "index": "integer", "relevance_score": "number", "document?": { "text": "string" } });
    json!({ "object": "=list", "model": "string", "results": [result], "usage": read() })
}

/// For who gave `texts` instead of `documents`.
pub fn bare_rerank() -> Value {
    json!([{ "index": "integer", "score": "number" }])
}

fn read() -> Value {
    json!({ "prompt_tokens": "integer", "total_tokens": "integer" })
}

pub fn model() -> Value {
    json!({ "id": "string", "object": "=model", "created": "integer", "owned_by": "string", "akunu": "object" })
}

pub fn models() -> Value {
    json!({ "object": "=list", "data": [model()] })
}

#[cfg(feature = "audio")]
pub fn transcript() -> Value {
    json!({
        "text": "string",
        "usage": { "type": "=duration", "seconds": "integer" },
        "task?": "string",
        "language?": "string",
        "duration?": "number",
        "segments?": ["object"],
        "words?": [{ "word": "string", "start": "number", "end": "number" }],
    })
}

pub fn response() -> Value {
    let usage = json!({
        "input_tokens": "integer",
        "input_tokens_details": { "cached_tokens": "integer" },
        "output_tokens": "integer",
        "output_tokens_details": { "reasoning_tokens": "integer" },
        "total_tokens": "integer",
    });
    json!({
        "id": "string",
        "object": "=response",
        "created_at": "integer",
        "status": "string",
        "error": "null",
        "incomplete_details": "object?",
        "instructions": "string?",
        "max_output_tokens": "integer?",
        "metadata": "object",
        "model": "string",
        "output": [item()],
        "parallel_tool_calls": "boolean",
        "previous_response_id": "string?",
        "reasoning": "object",
        "store": "boolean",
        "temperature": "number",
        "text": "object",
        "tool_choice": "any",
        "tools": ["object"],
        "top_logprobs": "integer",
        "top_p": "number",
        "truncation": "=disabled",
        "usage": usage,
    })
}

fn item() -> Value {
    json!({ "id": "string", "type": "string" })
}

pub fn deleted() -> Value {
    json!({ "id": "string", "object": "=response", "deleted": "boolean" })
}

pub fn items() -> Value {
    json!({ "object": "=list", "data": [item()], "first_id": "string?", "last_id": "string?", "has_more": "boolean" })
}
