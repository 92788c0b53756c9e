//! The flags about loading and sampling, as the engine takes them.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use akunu::{
    Activations, DType, Device, Draft, Dry, GenerateOptions, Grammar, Limits, LoadOptions, Mirostat, SamplingOptions,
    Speculation, Stage,
};
use anyhow::Result;
use clap::ArgMatches;

use crate::input;
use crate::source::Source;

/// Load options from the flags that a command has; those it has not keep their defaults.
pub fn load_options(matches: &ArgMatches) -> LoadOptions {
    let defaults = LoadOptions::default();
    let number = |name| matches.try_get_one::<usize>(name).ok().flatten().copied();
    LoadOptions {
        device: device(matches),
        threads: number("threads"),
        kv: kv(matches),
        activations: activations(matches),
        context: number("context"),
        memory: matches.try_get_one("memory").ok().flatten().copied(),
        chunk: number("chunk"),
        mapped: matches.try_get_one("mmap").ok().flatten().copied().unwrap_or(false),
        limits: limits(matches),
        ..defaults
    }
}

/// `--limit`.
pub fn limits(matches: &ArgMatches) -> Limits {
    let mut limits = Limits::default();
    let given = matches.try_get_many::<(String, u64)>("limit").ok().flatten();
    for (name, value) in given.into_iter().flatten() {
        // Cannot fail: the flag takes no other names.
        let _ = limits.set(name, *value);
    }
    limits
}

/// `--device`.
pub fn device(matches: &ArgMatches) -> Device {
    matches.try_get_one("device").ok().flatten().copied().unwrap_or_default()
}

/// The model of `--draft`, loaded as the other is.
pub fn draft(matches: &ArgMatches) -> Result<Option<Draft>> {
    let Some(name) = matches.get_one::<OsString>("draft") else { return Ok(None) };
    Ok(Some(Draft::new(Source::named(name)?.load(load_options(matches))?)))
}

/// `--kv`; its values are number formats.
pub fn kv(matches: &ArgMatches) -> DType {
    let name = matches.get_one::<String>("kv");
    name.and_then(|name| DType::from_name(name)).unwrap_or(LoadOptions::default().kv)
}

/// `--activations`.
pub fn activations(matches: &ArgMatches) -> Activations {
    match matches.get_one::<String>("activations").map(String::as_str) {
        Some("f32") => Activations::F32,
        _ => Activations::Int8,
    }
}

/// What to generate and how, from the flags that a command has; `max_tokens` is its own.
pub fn generate_options(matches: &ArgMatches) -> Result<GenerateOptions> {
    let all = |name| matches.get_many::<String>(name).into_iter().flatten().cloned().collect();
    Ok(GenerateOptions {
        max_tokens: matches.get_one("max-tokens").copied().unwrap_or_default(),
        sampling: sampling_options(matches),
        ignore_eos: matches.get_flag("ignore-eos"),
        stop: all("stop"),
        stop_tokens: matches.get_many("stop-token").into_iter().flatten().copied().collect(),
        logprobs: matches.try_get_one("logprobs").ok().flatten().copied(),
        speculation: match matches.get_one::<String>("speculate").map(String::as_str) {
            Some("ngram") => Speculation::Ngram,
            _ => Speculation::Off,
        },
        context_shift: matches.get_flag("context-shift").then_some(0),
        grammar: grammar(matches)?,
        ..GenerateOptions::default()
    })
}

/// The form that a text must have.
fn grammar(matches: &ArgMatches) -> Result<Option<Grammar>> {
    let text = |name| matches.get_one::<String>(name);
    let file = |name| matches.get_one::<PathBuf>(name).map(|path| input::file(path, limits(matches)));
    if matches.get_flag("json-object") {
        return Ok(Some(Grammar::Json));
    }
    if let Some(schema) = text("json-schema") {
        let schema = match schema.strip_prefix('@') {
            Some(path) => input::file(Path::new(path), limits(matches))?,
            None => schema.clone(),
        };
        return Ok(Some(Grammar::JsonSchema(schema)));
    }
    if let Some(pattern) = text("regex") {
        return Ok(Some(Grammar::Regex(pattern.clone())));
    }
    match (file("lark"), file("gbnf")) {
        (Some(text), _) => Ok(Some(Grammar::Lark(text?))),
        (_, Some(text)) => Ok(Some(Grammar::Gbnf(text?))),
        _ => Ok(None),
    }
}

/// Sampling options; a seed of this run's own where none is given.
fn sampling_options(matches: &ArgMatches) -> SamplingOptions {
    let defaults = SamplingOptions::default();
    let number = |name, default| matches.get_one::<f32>(name).copied().unwrap_or(default);
    let count = |name, default| matches.get_one::<usize>(name).copied().unwrap_or(default);
    let breakers = matches.get_many::<String>("dry-breaker").map(|texts| texts.cloned().collect());
    let mirostat = Mirostat { tau: number("mirostat", 0.0), eta: number("mirostat-eta", 0.1) };
    SamplingOptions {
        temperature: number("temperature", defaults.temperature),
        dynamic_temperature: number("dynamic-temperature", defaults.dynamic_temperature),
        dynamic_exponent: number("dynamic-exponent", defaults.dynamic_exponent),
        top_k: count("top-k", defaults.top_k),
        top_p: number("top-p", defaults.top_p),
        min_p: number("min-p", defaults.min_p),
        typical_p: number("typical-p", defaults.typical_p),
        top_n_sigma: number("top-n-sigma", defaults.top_n_sigma),
        xtc_probability: number("xtc-probability", defaults.xtc_probability),
        xtc_threshold: number("xtc-threshold", defaults.xtc_threshold),
        mirostat: Some(mirostat).filter(|m| m.tau > 0.0),
        repeat_penalty: number("repeat-penalty", defaults.repeat_penalty),
        frequency_penalty: number("frequency-penalty", defaults.frequency_penalty),
        presence_penalty: number("presence-penalty", defaults.presence_penalty),
        repeat_last: count("repeat-last", defaults.repeat_last),
        dry: Dry {
            multiplier: number("dry", defaults.dry.multiplier),
            base: number("dry-base", defaults.dry.base),
            allowed_length: count("dry-allowed", defaults.dry.allowed_length),
            breakers: breakers.unwrap_or(defaults.dry.breakers),
            ..defaults.dry
        },
        logit_bias: matches.get_many("logit-bias").into_iter().flatten().copied().collect(),
        chain: matches.get_one::<Vec<Stage>>("samplers").cloned().unwrap_or(defaults.chain),
        seed: matches.get_one("seed").copied().unwrap_or_else(random_seed),
    }
}

/// The keys of a fresh hasher are the standard library's source of chance.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0u8)
}
