//! What llama.cpp's server has beside OpenAI's API, as far as editors and scripts ask for it: `/completion`, `/props`, `/slots`.

use super::openai::sampling::{Sampling, max_tokens};
use crate::App;
use crate::answer::{self, Answer, Ask, Ending, Part, Prompt, Reason, Think, Tools, Writer};
use crate::dialects::operation::{Operation, get, post};
use crate::http::body::Fields;
use crate::http::stream::{Frame, Framing};
use crate::models::{Generator, InUse};
use crate::number::number;
use crate::problem::Problem;
use akunu::{Grammar, LogProbs};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub fn operations() -> Vec<Operation> {
    let completes = |operation: Operation| {
        let operation = operation.takes::<Completion>().takes::<Sampling>().ignores(HARMLESS);
        operation.gives(json!({ "content": "string", "tokens": ["integer"] })).gives_text("text/event-stream")
    };
    let props = get("/props", "What the server and its first model are.", props);
    vec![
        completes(post("/completion", "Goes on from a text, as llama.cpp's server does.", completion)),
        completes(post("/completions", "The same.", completion)),
        props.gives(json!({ "default_generation_settings": "object", "total_slots": "integer" })),
        get("/slots", "Places for answers.", slots).gives(json!([{ "id": "integer", "is_processing": "boolean" }])),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Completion {
    model: Option<String>,
    prompt: CompletionPrompt,
    stream: Option<bool>,
    n_predict: Option<i64>,
    n_probs: Option<usize>,
    grammar: Option<String>,
    json_schema: Option<Value>,
    return_tokens: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum CompletionPrompt {
    Text(String),
    Tokens(Vec<u32>),
    Mixed(Vec<PromptPart>),
    Named { prompt_string: String },
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum PromptPart {
    Token(u32),
    Text(String),
}

/// Fields that change nothing in the answer here.
const HARMLESS: &[&str] = &["cache_prompt", "id_slot", "timings_per_token", "return_progress", "t_max_predict_ms"];

async fn completion(State(app): State<Arc<App>>, mut fields: Fields) -> Result<Response, Problem> {
    let request: Completion = fields.take()?;
    let sampling: Sampling = fields.take()?;
    fields.ignore(HARMLESS);
    fields.end()?;
    let prompt = match request.prompt {
        CompletionPrompt::Text(text) | CompletionPrompt::Named { prompt_string: text } => Prompt::Text(text),
        CompletionPrompt::Tokens(tokens) => Prompt::Tokens(tokens),
        CompletionPrompt::Mixed(parts) => Prompt::Tokens(mixed(&app, request.model.as_deref(), parts).await?),
    };
    let mut options = sampling.options()?;
    options.max_tokens = max_tokens(&app, "n_predict", request.n_predict)?;
    options.logprobs = request.n_probs.filter(|n| *n > 0).map(|n| n.min(20));
    let form = match (request.grammar.filter(|g| !g.is_empty()), request.json_schema) {
        (Some(text), _) => Some(Grammar::Gbnf(text)),
        (None, Some(schema)) => Some(Grammar::JsonSchema(schema.to_string())),
        (None, None) => None,
    };
    let settings = json!({
        "n_predict": request.n_predict.unwrap_or(-1),
        "seed": options.sampling.seed,
        "temperature": number(options.sampling.temperature),
        "top_k": options.sampling.top_k,
        "top_p": number(options.sampling.top_p),
        "min_p": number(options.sampling.min_p),
    });
    let model = request.model;
    let ask = Ask { model, prompt, options, choices: 1, form, think: Think::Usual, tools: Tools::none() };
    let answer = Answer::start(&app, ask).await?;
    let writer = Pieces {
        model: answer.model().to_owned(),
        generator: answer.generator().clone(),
        settings,
        pending: Vec::new(),
    };
    if request.stream.unwrap_or(false) {
        return Ok(answer::send(Framing::Events, answer, writer));
    }
    let gathered = answer.gather().await?;
    let Some(choice) = gathered.choices.into_iter().next() else { return Ok(Json(json!({})).into_response()) };
    let probabilities = choice.tokens.iter().map(|(token, of)| probability(&writer.generator, *token, of));
    let probabilities: Vec<Value> = probabilities.collect();
    let mut body = choice.ending.as_ref().map_or_else(|| json!({}), |ending| writer.ended(ending));
    body["content"] = choice.text.into();
    body["tokens"] = json!([]);
    if request.return_tokens.unwrap_or(false) {
        body["tokens"] = json!(choice.tokens.iter().map(|(token, _)| token).collect::<Vec<_>>());
    }
    if !probabilities.is_empty() {
        body["completion_probabilities"] = probabilities.into();
    }
    Ok(Json(body).into_response())
}

/// Texts and tokens in a row.
async fn mixed(app: &App, model: Option<&str>, parts: Vec<PromptPart>) -> Result<Vec<u32>, Problem> {
    let generator = app.models.generator(model).await?;
    tokio::task::spawn_blocking(move || {
        let mut tokens = Vec::new();
        for part in parts {
            match part {
                PromptPart::Token(token) => tokens.push(token),
                PromptPart::Text(text) => {
                    let how = akunu::Encode { add_special: tokens.is_empty(), parse_special: true };
                    tokens.extend(generator.tokenizer()?.encode(&text, how)?);
                }
            }
        }
        Ok(tokens)
    })
    .await?
}

fn probability(generator: &Generator, token: u32, of: &LogProbs) -> Value {
    let one = |token: u32, p: f32| json!({ "id": token, "token": generator.token_text(token), "bytes": generator.token_bytes(token), "logprob": number(p) });
    let mut value = one(token, of.chosen);
    value["top_logprobs"] = of.top.iter().map(|(token, p)| one(*token, *p)).collect();
    value
}

struct Pieces {
    model: String,
    generator: InUse<Generator>,
    settings: Value,
    pending: Vec<Value>,
}

impl Pieces {
    fn ended(&self, ending: &Ending) -> Value {
        let (kind, word) = match &ending.reason {
            Reason::StopString(word) => ("word", word.as_str()),
            Reason::Length => ("limit", ""),
            Reason::Done | Reason::Calls => ("eos", ""),
        };
        json!({
            "index": 0,
            "content": "",
            "tokens": [],
            "stop": true,
            "model": self.model,
            "tokens_predicted": ending.generated,
            "tokens_evaluated": ending.summary.prompt,
            "tokens_cached": ending.summary.cached,
            "generation_settings": self.settings,
            "truncated": false,
            "stop_type": kind,
            "stopping_word": word,
            "timings": answer::timings(ending),
        })
    }
}

impl Writer for Pieces {
    fn begin(&mut self, _: usize) -> Vec<Frame> {
        Vec::new()
    }

    fn part(&mut self, _: usize, part: Part) -> Vec<Frame> {
        match part {
            Part::Text(text) | Part::Thought(text) => {
                let mut piece = json!({ "index": 0, "content": text, "tokens": [], "stop": false });
                if !self.pending.is_empty() {
                    piece["completion_probabilities"] = std::mem::take(&mut self.pending).into();
                }
                vec![Frame::Data(piece)]
            }
            Part::Token { id, logprobs } => {
                self.pending.push(probability(&self.generator, id, &logprobs));
                Vec::new()
            }
            Part::End(ending) => vec![Frame::Data(self.ended(&ending))],
            Part::Call { .. } | Part::Arguments { .. } => Vec::new(),
        }
    }

    fn end(&mut self, _: usize) -> Vec<Frame> {
        Vec::new()
    }

    fn fault(&mut self, problem: &Problem) -> Vec<Frame> {
        vec![Frame::Data(super::openai::error(problem))]
    }
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
