//! How tokens are chosen: the fields that chat and completions share, OpenAI's own and those of other engines' servers.

use crate::App;
use crate::answer::Piece;
use crate::problem::Problem;
use akunu::{Dry, GenerateOptions, Mirostat, SamplingOptions};
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
    /// How many tokens the penalties look back; -1: all.
    pub repeat_last_n: Option<i64>,
    pub frequency_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub seed: Option<i64>,
    pub logit_bias: Option<LogitBias>,
    pub stop: Option<OneOrMany>,
    pub ignore_eos: Option<bool>,
    /// 0, or 2 for mirostat 2.
    pub mirostat: Option<u8>,
    pub mirostat_tau: Option<f32>,
    pub mirostat_eta: Option<f32>,
    pub top_n_sigma: Option<f32>,
    pub xtc_probability: Option<f32>,
    pub xtc_threshold: Option<f32>,
    pub dynatemp_range: Option<f32>,
    pub dynatemp_exponent: Option<f32>,
    pub dry_multiplier: Option<f32>,
    pub dry_base: Option<f32>,
    pub dry_allowed_length: Option<usize>,
    /// How many tokens DRY looks back; -1: all.
    pub dry_penalty_last_n: Option<i64>,
    pub dry_sequence_breakers: Option<Vec<String>>,
}

/// Tokens' ids, or texts whose tokens are meant, and how much their logits change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LogitBias {
    Map(Map<String, Value>),
    /// As llama.cpp's server takes it too.
    Pairs(Vec<(Piece, Value)>),
}

/// Each with its bias.
type Biased<T> = Vec<(T, f32)>;

impl LogitBias {
    /// Tokens, and texts.
    fn sorted(self) -> Result<(Biased<u32>, Biased<String>), Problem> {
        let pairs: Vec<(Piece, Value)> = match self {
            LogitBias::Pairs(pairs) => pairs,
            LogitBias::Map(map) => {
                let piece = |key: String| key.parse().map_or(Piece::Text(key), Piece::Token);
                map.into_iter().map(|(key, bias)| (piece(key), bias)).collect()
            }
        };
        let (mut tokens, mut texts) = (Vec::new(), Vec::new());
        for (piece, bias) in pairs {
            // -100 bans a token, and so does `false`.
            let bias = if bias == false { Some(-100.0) } else { bias.as_f64() };
            let Some(bias) = bias.filter(|b| (-100.0..=100.0).contains(b)) else {
                let sentence = "logit_bias: its values must be between -100 and 100, or false";
                return Err(Problem::field("logit_bias", sentence));
            };
            let bias = if bias <= -100.0 { f32::NEG_INFINITY } else { bias as f32 };
            match piece {
                Piece::Token(token) => tokens.push((token, bias)),
                Piece::Text(text) => texts.push((text, bias)),
            }
        }
        Ok((tokens, texts))
    }
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
    /// As the engine takes them, and texts whose tokens are biased.
    pub fn options(self) -> Result<(GenerateOptions, Vec<(String, f32)>), Problem> {
        let defaults = SamplingOptions::default();
        let mut sampling = SamplingOptions {
            temperature: within("temperature", self.temperature.unwrap_or(USUAL_TEMPERATURE), 0.0, 100.0)?,
            top_p: within("top_p", self.top_p.unwrap_or(defaults.top_p), 0.0, 1.0)?,
            min_p: within("min_p", self.min_p.unwrap_or(defaults.min_p), 0.0, 1.0)?,
            typical_p: within("typical_p", self.typical_p.unwrap_or(defaults.typical_p), 0.0, 1.0)?,
            repeat_penalty: within("repeat_penalty", self.repeat_penalty.unwrap_or(1.0), 0.01, 100.0)?,
            frequency_penalty: within("frequency_penalty", self.frequency_penalty.unwrap_or(0.0), -100.0, 100.0)?,
            presence_penalty: within("presence_penalty", self.presence_penalty.unwrap_or(0.0), -100.0, 100.0)?,
            top_n_sigma: within("top_n_sigma", self.top_n_sigma.unwrap_or(0.0), -1.0, 100.0)?,
            xtc_probability: within("xtc_probability", self.xtc_probability.unwrap_or(0.0), 0.0, 1.0)?,
            xtc_threshold: within("xtc_threshold", self.xtc_threshold.unwrap_or(defaults.xtc_threshold), 0.0, 1.0)?,
            dynamic_temperature: within("dynatemp_range", self.dynatemp_range.unwrap_or(0.0), 0.0, 100.0)?,
            dynamic_exponent: within("dynatemp_exponent", self.dynatemp_exponent.unwrap_or(1.0), 0.0, 100.0)?,
            seed: self.seed.map_or_else(crate::random, |seed| seed as u64),
            ..defaults
        };
        // Other servers write 0 or -1 for all.
        sampling.top_k = self.top_k.map_or(sampling.top_k, |k| usize::try_from(k).unwrap_or(0));
        if let Some(last) = self.repeat_last_n {
            sampling.repeat_last = back(last);
        }
        sampling.mirostat = mirostat(self.mirostat, self.mirostat_tau, self.mirostat_eta)?;
        let usual = Dry::default();
        sampling.dry = Dry {
            multiplier: within("dry_multiplier", self.dry_multiplier.unwrap_or(usual.multiplier), 0.0, 100.0)?,
            base: within("dry_base", self.dry_base.unwrap_or(usual.base), 1.0, 100.0)?,
            allowed_length: self.dry_allowed_length.unwrap_or(usual.allowed_length),
            last: self.dry_penalty_last_n.map_or(usual.last, back),
            breakers: match self.dry_sequence_breakers {
                Some(breakers) => stops("dry_sequence_breakers", breakers)?,
                None => usual.breakers,
            },
        };
        let (tokens, texts) = self.logit_bias.map_or_else(|| Ok(Default::default()), LogitBias::sorted)?;
        sampling.logit_bias = tokens;
        let stop = stops("stop", self.stop.map(OneOrMany::into_vec).unwrap_or_default())?;
        let ignore_eos = self.ignore_eos.unwrap_or(false);
        Ok((GenerateOptions { sampling, stop, ignore_eos, ..GenerateOptions::new() }, texts))
    }
}

/// So many tokens back; other servers write -1 for all.
fn back(tokens: i64) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX)
}

fn mirostat(version: Option<u8>, tau: Option<f32>, eta: Option<f32>) -> Result<Option<Mirostat>, Problem> {
    let usual = Mirostat::default();
    match version.unwrap_or(0) {
        0 => Ok(None),
        2 => Ok(Some(Mirostat {
            tau: within("mirostat_tau", tau.unwrap_or(usual.tau), 0.0, 100.0)?,
            eta: within("mirostat_eta", eta.unwrap_or(usual.eta), 0.0, 1.0)?,
        })),
        _ => Err(Problem::field("mirostat", "mirostat must be 0 or 2")),
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
