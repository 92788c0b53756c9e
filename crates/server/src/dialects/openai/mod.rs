//! OpenAI's API.

#[cfg(feature = "audio")]
mod audio;
mod chat;
mod completions;
mod embeddings;
mod models;
mod responses;
pub mod sampling;
mod shapes;
mod tools;

pub use chat::{conversation, logprobs};
pub use responses::Store;
pub use shapes::Message;
pub use tools::tools;

use super::anthropic;
use crate::App;
use crate::answer::{self, Ask, Ending, Gathered, Reason};
use crate::dialects::operation::{Operation, delete, get, post};
use crate::http::stream::Frame;
use crate::problem::{Kind, Problem};
use axum::Json;
use sampling::Sampling;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub fn operations() -> Vec<Operation> {
    const EVENTS: &str = "text/event-stream";
    let counted = || json!({ "object": "=response.input_tokens", "input_tokens": "integer" });
    let chats = |chat: Operation| chat.takes::<chat::Chat>().takes::<Sampling>().ignores(chat::HARMLESS);
    let chat = post("/v1/chat/completions", "Answers messages.", chat::create);
    let of_chat = post("/v1/chat/completions/input_tokens", "How many tokens messages are.", chat::input_tokens);
    let completion = post("/v1/completions", "Goes on from a text.", completions::create);
    let completion = completion.takes::<completions::Completion>().takes::<Sampling>().ignores(completions::HARMLESS);
    let responds =
        |response: Operation| response.takes::<responses::Create>().takes::<Sampling>().ignores(responses::HARMLESS);
    let response = post("/v1/responses", "Answers items, and keeps the answer to go on from.", responses::create);
    let of_response = post("/v1/responses/input_tokens", "How many tokens items are.", responses::input_tokens);
    let kept = get("/v1/responses/{id}", "A response that was kept.", responses::get).query::<responses::Kept>();
    let items = get("/v1/responses/{id}/input_items", "What a response was told.", responses::input_items);
    let ranks =
        |rank: Operation| rank.takes::<embeddings::Rerank>().gives(shapes::rerank()).gives(shapes::bare_rerank());
    let embeddings = post("/v1/embeddings", "Texts as vectors.", embeddings::create);
    let operations = vec![
        chats(chat).gives(shapes::chat()).gives_text(EVENTS),
        chats(of_chat).gives(counted()),
        completion.gives(shapes::completion()).gives_text(EVENTS),
        responds(response).gives(shapes::response()).gives_text(EVENTS),
        responds(of_response).gives(counted()),
        kept.gives(shapes::response()),
        delete("/v1/responses/{id}", "Forgets a response.", responses::delete).gives(shapes::deleted()),
        items.query::<responses::Page>().gives(shapes::items()),
        embeddings.takes::<embeddings::Embeddings>().ignores(&["user"]).gives(shapes::embeddings()),
        ranks(post("/v1/rerank", "Scores texts.", embeddings::rerank)),
        ranks(post("/v1/reranking", "The same.", embeddings::rerank)),
        get("/v1/models", "All models.", models::list).query::<anthropic::Page>().gives(shapes::models()),
        get("/v1/models/{*id}", "One model.", models::one).gives(shapes::model()),
    ];
    #[cfg(feature = "audio")]
    let operations = {
        let written = |operation: Operation| {
            let operation = operation.takes_form::<audio::Transcription>().gives(shapes::transcript());
            operation.gives_text("text/plain").gives_text(EVENTS)
        };
        let of = post("/v1/audio/transcriptions", "What is said in a recording.", audio::transcriptions);
        let into = post("/v1/audio/translations", "The same, in English.", audio::translations);
        let mut operations = operations;
        operations.extend([written(of), written(into)]);
        operations
    };
    operations
}

/// `{"error": …}`.
pub fn error(problem: &Problem) -> Value {
    let kind = match problem.kind {
        Kind::Invalid | Kind::Method | Kind::TooLarge => "invalid_request_error",
        Kind::Unauthorized => "authentication_error",
        Kind::Forbidden => "permission_error",
        Kind::NotFound => "not_found_error",
        Kind::RateLimited => "rate_limit_error",
        Kind::Overloaded => "overloaded_error",
        Kind::TimedOut => "timeout_error",
        Kind::Internal => "server_error",
    };
    json!({ "error": { "message": problem.message, "type": kind, "param": problem.field, "code": problem.code } })
}

/// How many tokens the prompt of a request has.
async fn input_tokens(app: &App, ask: Ask) -> Result<Json<Value>, Problem> {
    let tokens = answer::count(app, ask).await?;
    Ok(Json(json!({ "object": "response.input_tokens", "input_tokens": tokens })))
}

fn finish_reason(reason: &Reason) -> &'static str {
    match reason {
        Reason::Done | Reason::StopString(_) => "stop",
        Reason::Length => "length",
        Reason::Calls => "tool_calls",
    }
}

fn usage(prompt: usize, cached: usize, generated: usize, thought: usize) -> Value {
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": { "cached_tokens": cached },
        "completion_tokens_details": { "reasoning_tokens": thought },
    })
}

fn usage_of(gathered: &Gathered) -> Value {
    usage(gathered.prompt, gathered.cached(), gathered.generated(), gathered.thought())
}

/// What a stream has besides its answer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
    /// Every chunk says what it has cost so far, as in vLLM: who stops an answer sees no end of it.
    #[serde(default)]
    continuous_usage_stats: bool,
    #[serde(default)]
    #[expect(dead_code, reason = "what is not there cannot be left out")]
    include_obfuscation: bool,
}

impl StreamOptions {
    /// What counts tokens for every chunk, where that was asked for.
    fn so_far(&self, prompt: usize) -> Option<SoFar> {
        (self.include_usage && self.continuous_usage_stats).then_some(SoFar { prompt, generated: 0 })
    }
}

/// What an answer has cost until now.
struct SoFar {
    prompt: usize,
    generated: usize,
}

impl SoFar {
    fn usage(&self) -> Value {
        let SoFar { prompt, generated } = *self;
        json!({ "prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated })
    }
}

/// How a stream ends: with what it cost, in a chunk without choices, where that was asked for.
fn ending(usage_in: Option<Value>, prompt: usize, count: &Count) -> Vec<Frame> {
    let chunk = usage_in.map(|mut chunk| {
        chunk["usage"] = usage(prompt, count.cached, count.generated, count.thought);
        chunk["timings"] = count.last.as_ref().map(answer::timings).into();
        Frame::Data(chunk)
    });
    chunk.into_iter().chain([Frame::Text("[DONE]")]).collect()
}

/// What streams count until their end.
#[derive(Default)]
struct Count {
    generated: usize,
    thought: usize,
    cached: usize,
    last: Option<Ending>,
}

impl Count {
    fn add(&mut self, ending: Ending) {
        self.generated += ending.generated;
        self.thought += ending.thought;
        if self.last.is_none() {
            self.cached = ending.summary.cached;
        }
        self.last = Some(ending);
    }
}

/// What answers are made by.
pub const FINGERPRINT: &str = concat!("b-akunu-", env!("CARGO_PKG_VERSION"));
