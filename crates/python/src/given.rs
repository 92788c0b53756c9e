//! Options as Python gives them, by name; what is not given keeps the engine's default.

use crate::errors::LoadError;
use akunu::{
    Activations, DType, Device, Dry, GenerateOptions, Grammar, Limits, LoadOptions, Mirostat, Pooling, SamplingOptions,
    Speculation,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Options that nobody has taken yet.
pub struct Given<'py>(Bound<'py, PyDict>);

impl<'py> Given<'py> {
    pub fn new(options: &Bound<'py, PyDict>) -> PyResult<Self> {
        Ok(Self(options.copy()?))
    }

    /// `None` where it was not given, or is `None`.
    pub fn option<T>(&self, name: &str) -> PyResult<Option<T>>
    where
        T: FromPyObjectOwned<'py>,
    {
        let Some(value) = self.0.get_item(name)? else { return Ok(None) };
        self.0.del_item(name)?;
        if value.is_none() {
            return Ok(None);
        }
        value.extract::<T>().map(Some).map_err(|error| {
            let error: PyErr = error.into();
            let value = error.value(self.0.py());
            PyTypeError::new_err(format!("{name}: {value}"))
        })
    }

    pub fn take<T>(&self, name: &str, default: T) -> PyResult<T>
    where
        T: FromPyObjectOwned<'py>,
    {
        Ok(self.option(name)?.unwrap_or(default))
    }

    /// One of some words.
    fn word<T: Copy>(&self, name: &str, default: T, words: &[(&str, T)]) -> PyResult<T> {
        let Some(word) = self.option::<String>(name)? else { return Ok(default) };
        let found = words.iter().find(|(w, _)| *w == word);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
            PyValueError::new_err(format!("{name}: {word:?} is none of {}", words.join(", ")))
        })
    }

    /// What is left has a name that nobody knows.
    pub fn finish(self) -> PyResult<()> {
        match self.0.keys().iter().next() {
            Some(name) => Err(PyTypeError::new_err(format!("there is no option called {name}"))),
            None => Ok(()),
        }
    }
}

/// How to load a model.
pub fn load_options(given: &Given<'_>) -> PyResult<LoadOptions> {
    let defaults = LoadOptions::default();
    let device = match given.option::<String>("device")? {
        Some(name) => name.parse::<Device>().map_err(|e| LoadError::new_err(e.to_string()))?,
        None => defaults.device,
    };
    let mut limits = Limits::default();
    for (name, value) in given.take("limits", HashMap::<String, u64>::new())? {
        limits.set(&name, value).map_err(|e| PyValueError::new_err(e.to_string()))?;
    }
    let words = [("f32", DType::F32), ("f16", DType::F16), ("q8_0", DType::Q8_0)];
    Ok(LoadOptions {
        device,
        threads: given.option("threads")?,
        level: given.option("level")?,
        kv: given.word("kv", defaults.kv, &words)?,
        activations: given.word(
            "activations",
            defaults.activations,
            &[("int8", Activations::Int8), ("f32", Activations::F32)],
        )?,
        context: given.option("context")?,
        memory: given.option("memory")?,
        mapped: given.take("mapped", defaults.mapped)?,
        limits,
        ..defaults
    })
}

/// How the rows of a text become one vector.
pub fn pooling(given: &Given<'_>) -> PyResult<Option<Pooling>> {
    let words = [("mean", Pooling::Mean), ("cls", Pooling::First), ("last", Pooling::Last)];
    given.word("pooling", None, &words.map(|(word, pooling)| (word, Some(pooling))))
}

/// What to generate, and how.
pub fn generate_options(given: &Given<'_>) -> PyResult<GenerateOptions> {
    let speculation = [("off", Speculation::Off), ("ngram", Speculation::Ngram)];
    Ok(GenerateOptions {
        max_tokens: given.take("max_tokens", 0)?,
        sampling: sampling_options(given)?,
        ignore_eos: given.take("ignore_eos", false)?,
        stop: given.take("stop", Vec::new())?,
        stop_tokens: given.take("stop_tokens", Vec::new())?,
        logprobs: given.option("logprobs")?,
        context_shift: given.option("context_shift")?,
        grammar: grammar(given)?,
        speculation: given.word("speculation", Speculation::Off, &speculation)?,
        ..GenerateOptions::default()
    })
}

/// `(kind, text)`, as `akunu.Grammar` has them.
fn grammar(given: &Given<'_>) -> PyResult<Option<Grammar>> {
    let Some((kind, text)) = given.option::<(String, String)>("grammar")? else { return Ok(None) };
    Ok(Some(match kind.as_str() {
        "json" => Grammar::Json,
        // A schema that says nothing of other properties means none. What is no JSON is said where it is compiled.
        "json_schema" => Grammar::JsonSchema(
            serde_json::from_str(&text).map_or(text, |schema| akunu_text::closed_schema(schema).to_string()),
        ),
        "regex" => Grammar::Regex(text),
        "lark" => Grammar::Lark(text),
        "gbnf" => Grammar::Gbnf(text),
        _ => return Err(PyValueError::new_err(format!("grammar: there is no kind {kind:?}"))),
    }))
}

fn sampling_options(given: &Given<'_>) -> PyResult<SamplingOptions> {
    let defaults = SamplingOptions::default();
    let number = |name: &str, default: f32| match given.take(name, default)? {
        number if number.is_finite() => Ok(number),
        _ => Err(PyValueError::new_err(format!("{name}: is not a finite number"))),
    };
    let mirostat = Mirostat { tau: number("mirostat", 0.0)?, ..Mirostat::default() };
    Ok(SamplingOptions {
        temperature: number("temperature", defaults.temperature)?,
        top_k: given.take("top_k", defaults.top_k)?,
        top_p: number("top_p", defaults.top_p)?,
        min_p: number("min_p", defaults.min_p)?,
        typical_p: number("typical_p", defaults.typical_p)?,
        mirostat: Some(mirostat).filter(|m| m.tau > 0.0),
        repeat_penalty: number("repeat_penalty", defaults.repeat_penalty)?,
        frequency_penalty: number("frequency_penalty", defaults.frequency_penalty)?,
        presence_penalty: number("presence_penalty", defaults.presence_penalty)?,
        repeat_last: given.take("repeat_last", defaults.repeat_last)?,
        dry: Dry { multiplier: number("dry", 0.0)?, ..defaults.dry },
        logit_bias: given.take("logit_bias", HashMap::new())?.into_iter().collect(),
        seed: match given.option("seed")? {
            Some(seed) => seed,
            // The keys of a fresh hasher are the standard library's source of chance.
            None => RandomState::new().hash_one(0u8),
        },
        ..defaults
    })
}
