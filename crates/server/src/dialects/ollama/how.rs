//! How to answer: the fields that chats and prompts share.

use super::keep::KeepAlive;
use crate::App;
use crate::answer::Think;
use crate::dialects::openai;
use crate::dialects::openai::sampling::{OneOrMany, Sampling, max_tokens};
use crate::http::body::Fields;
use crate::models::Keep;
use crate::problem::Problem;
use akunu::{GenerateOptions, Grammar};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Shared {
    stream: Option<bool>,
    /// `"json"`, or a schema.
    format: Option<Value>,
    options: Option<Map<String, Value>>,
    /// Whether to think, or how much: low, medium, high.
    think: Option<Value>,
    /// Whether to tell how likely tokens were.
    logprobs: Option<bool>,
    #[schemars(range(max = 20))]
    top_logprobs: Option<usize>,
    /// How long the model stays after its last request: seconds, or a duration such as `5m`; below 0, and where nobody says,
    /// until others need its memory.
    keep_alive: Option<KeepAlive>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
struct Settings {
    num_predict: Option<i64>,
    temperature: Option<f32>,
    top_k: Option<i64>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    typical_p: Option<f32>,
    seed: Option<i64>,
    stop: Option<OneOrMany>,
    repeat_penalty: Option<f32>,
    repeat_last_n: Option<i64>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    mirostat: Option<u8>,
    mirostat_tau: Option<f32>,
    mirostat_eta: Option<f32>,
}

/// How a model is loaded, which requests do not decide here. A context smaller than asked is never silent: a prompt that does
/// not fit is refused, and an answer that it ends says so.
const OF_LOADING: &[&str] = &[
    "num_ctx",
    "num_keep",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "num_thread",
    "numa",
    "use_mmap",
    "use_mlock",
    "low_vram",
    "f16_kv",
    "vocab_only",
];

pub struct How {
    pub streams: bool,
    pub options: GenerateOptions,
    pub form: Option<Grammar>,
    pub think: Think,
    /// Other variables of the template.
    pub variables: Map<String, Value>,
    /// How long the model stays; `None`: as it was.
    pub keep: Option<Keep>,
}

impl How {
    /// Takes the fields of a request; nothing else may be left.
    pub fn take(app: &App, mut fields: Fields) -> Result<How, Problem> {
        let shared: Shared = fields.take()?;
        fields.end()?;
        let options = shared.options.unwrap_or_default();
        let within = |problem: Problem| Problem { field: problem.field.map(|f| format!("options.{f}")), ..problem };
        let mut options = settings(app, options.into()).map_err(within)?;
        options.logprobs = openai::logprobs(shared.logprobs, shared.top_logprobs)?;
        let (think, effort) = think(shared.think)?;
        let mut variables = Map::new();
        if let Some(effort) = effort {
            variables.insert("reasoning_effort".into(), effort);
        }
        Ok(How {
            streams: shared.stream.unwrap_or(true),
            options,
            form: form(shared.format)?,
            think,
            variables,
            keep: shared.keep_alive.map(KeepAlive::read).transpose()?,
        })
    }
}

fn settings(app: &App, mut fields: Fields) -> Result<GenerateOptions, Problem> {
    let settings: Settings = fields.take()?;
    fields.ignore(OF_LOADING);
    // Not there, and only its usual value means what is there.
    for (name, usual) in [("tfs_z", json!(1.0)), ("penalize_newline", json!(true))] {
        if fields.field::<Value>(name)?.is_some_and(|value| value != usual && value.as_f64() != usual.as_f64()) {
            return Err(Problem::field(name, format!("{name} is not supported")));
        }
    }
    fields.end()?;
    let sampling = Sampling {
        temperature: settings.temperature,
        top_k: settings.top_k,
        top_p: settings.top_p,
        min_p: settings.min_p,
        typical_p: settings.typical_p,
        seed: settings.seed,
        stop: settings.stop,
        repeat_penalty: settings.repeat_penalty,
        presence_penalty: settings.presence_penalty,
        frequency_penalty: settings.frequency_penalty,
        repeat_last_n: settings.repeat_last_n,
        mirostat: settings.mirostat,
        mirostat_tau: settings.mirostat_tau,
        mirostat_eta: settings.mirostat_eta,
        ..Sampling::default()
    };
    // Below -1, too, it is as many as there is room for.
    let tokens = max_tokens(app, "num_predict", settings.num_predict.map(|n| n.max(-1)))?;
    Ok(sampling.options()?.0.max_tokens(tokens))
}

fn form(format: Option<Value>) -> Result<Option<Grammar>, Problem> {
    match format {
        None => Ok(None),
        Some(Value::String(name)) if name.is_empty() => Ok(None),
        Some(Value::String(name)) if name == "json" => Ok(Some(Grammar::Json)),
        Some(Value::Object(schema)) => Ok(Some(Grammar::JsonSchema(Value::Object(schema).to_string()))),
        Some(_) => Err(Problem::field("format", "format must be \"json\" or a JSON schema")),
    }
}

/// Whether to think, and how much, as templates know it.
fn think(think: Option<Value>) -> Result<(Think, Option<Value>), Problem> {
    match think {
        None => Ok((Think::Usual, None)),
        Some(Value::Bool(false)) => Ok((Think::Not, None)),
        Some(Value::Bool(true)) => Ok((Think::Upto(None), None)),
        Some(level) if ["low", "medium", "high"].iter().any(|l| level == *l) => Ok((Think::Upto(None), Some(level))),
        Some(_) => Err(Problem::field("think", "think must be true, false, \"low\", \"medium\" or \"high\"")),
    }
}
