//! The flags about loading and sampling, as the engine takes them.

use std::hash::{BuildHasher, RandomState};

use akunu::{Activations, DType, LoadOptions, SamplingOptions};
use clap::ArgMatches;

/// Load options from the flags that a command has; those it has not keep their defaults.
pub fn load_options(matches: &ArgMatches) -> LoadOptions {
    let defaults = LoadOptions::default();
    let number = |name| matches.try_get_one::<usize>(name).ok().flatten().copied();
    LoadOptions {
        threads: number("threads"),
        kv: kv(matches),
        activations: activations(matches),
        context: number("context"),
        chunk: number("chunk").unwrap_or(defaults.chunk),
        ..defaults
    }
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

/// Sampling options; a seed of this run's own where none is given.
pub fn sampling_options(matches: &ArgMatches) -> SamplingOptions {
    let defaults = SamplingOptions::default();
    let number = |name, default| matches.get_one::<f32>(name).copied().unwrap_or(default);
    SamplingOptions {
        temperature: number("temperature", defaults.temperature),
        top_k: matches.get_one("top-k").copied().unwrap_or(defaults.top_k),
        top_p: number("top-p", defaults.top_p),
        min_p: number("min-p", defaults.min_p),
        repeat_penalty: number("repeat-penalty", defaults.repeat_penalty),
        seed: matches.get_one("seed").copied().unwrap_or_else(random_seed),
        ..defaults
    }
}

/// The keys of a fresh hasher are the standard library's source of chance.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0u8)
}
