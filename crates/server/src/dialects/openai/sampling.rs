//! How tokens are chosen: the fields that chat and completions share, OpenAI's own and those of other engines' servers.

use crate::App;
use crate::problem::Problem;
use akunu::{GenerateOptions, SamplingOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One text, or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub fn into_vec(self) -> Vec<String> {
        match self {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }
    }
}

/// The fields, as both requests have them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Sampling {
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<i64>,
    pub min_p: Option<f32>,
    pub typical_p: Option<f32>,
    pub repeat_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub seed: Option<i64>,
    pub logit_bias: Option<Map<String, Value>>,
    pub stop: Option<OneOrMany>,
    pub ignore_eos: Option<bool>,
}

/// What `temperature` is where nobody says.
const USUAL_TEMPERATURE: f32 = 0.8;

fn within(name: &str, value: f32, least: f32, most: f32) -> Result<f32, Problem> {
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(Problem::field(name, format!("{name} must be between {least} and {most}"))),
    }
}

impl Sampling {
    /// As the engine takes them.
    pub fn options(self) -> Result<GenerateOptions, Problem> {
        let defaults = SamplingOptions::default();
        let mut sampling = SamplingOptions {
            temperature: within("temperature", self.temperature.unwrap_or(USUAL_TEMPERATURE), 0.0, 100.0)?,
            top_p: within("top_p", self.top_p.unwrap_or(defaults.top_p), 0.0, 1.0)?,
            min_p: within("min_p", self.min_p.unwrap_or(defaults.min_p), 0.0, 1.0)?,
            typical_p: within("typical_p", self.typical_p.unwrap_or(defaults.typical_p), 0.0, 1.0)?,
            repeat_penalty: within("repeat_penalty", self.repeat_penalty.unwrap_or(1.0), 0.01, 100.0)?,
            frequency_penalty: within("frequency_penalty", self.frequency_penalty.unwrap_or(0.0), -100.0, 100.0)?,
            presence_penalty: within("presence_penalty", self.presence_penalty.unwrap_or(0.0), -100.0, 100.0)?,
            seed: self.seed.map_or_else(crate::random, |seed| seed as u64),
            ..defaults
        };
        // Other servers write 0 or -1 for all.
        sampling.top_k = self.top_k.map_or(sampling.top_k, |k| usize::try_from(k).unwrap_or(0));
        for (token, bias) in self.logit_bias.unwrap_or_default() {
            let id = token.parse().map_err(|_| {
                Problem::field("logit_bias", "logit_bias: its keys must be token ids, as /tokenize gives them")
            })?;
            let bias = bias.as_f64().filter(|b| (-100.0..=100.0).contains(b));
            let Some(bias) = bias else {
                return Err(Problem::field("logit_bias", "logit_bias: its values must be between -100 and 100"));
            };
            // -100 bans a token.
            sampling.logit_bias.push((id, if bias <= -100.0 { f32::NEG_INFINITY } else { bias as f32 }));
        }
        let stop = stops("stop", self.stop.map(OneOrMany::into_vec).unwrap_or_default())?;
        Ok(GenerateOptions { sampling, stop, ignore_eos: self.ignore_eos.unwrap_or(false), ..GenerateOptions::new() })
    }
}

const MOST_STOPS: usize = 32;
const MOST_STOP_BYTES: usize = 1024;

/// Texts that end an answer, if they are not too many.
pub fn stops(field: &str, stops: Vec<String>) -> Result<Vec<String>, Problem> {
    match stops.len() <= MOST_STOPS && stops.iter().all(|s| s.len() <= MOST_STOP_BYTES) {
        true => Ok(stops),
        false => Err(Problem::field(field, format!("{field}: at most {MOST_STOPS} texts of {MOST_STOP_BYTES} bytes"))),
    }
}

/// How many tokens, of what was asked and what may be.
pub fn max_tokens(app: &App, field: &str, asked: Option<i64>) -> Result<usize, Problem> {
    let most = app.options.limits.tokens;
    match asked {
        // Other servers write -1 for as many as there is room for.
        None | Some(-1) => Ok(most),
        Some(n) if n >= 1 => Ok((n as usize).min(most)),
        Some(_) => Err(Problem::field(field, format!("{field} must be at least 1"))),
    }
}

/// How many answers.
pub fn choices(app: &App, asked: Option<i64>) -> Result<usize, Problem> {
    let most = app.options.limits.choices;
    match asked.unwrap_or(1) {
        n if n >= 1 && n as usize <= most => Ok(n as usize),
        _ => Err(Problem::field("n", format!("n must be between 1 and {most}"))),
    }
}
