//! Options of the C API as the engine has them.

use crate::call::{Failure, callback};
use crate::handle;
use crate::memory::{Items, Text};
use crate::types::*;
use akunu::speech::{Silence, Task, TranscribeOptions};
use akunu::{Activations, DType, Dry, GenerateOptions, LoadOptions, Mirostat, Pooling, Progress};
use akunu::{SamplingOptions, SchedulerOptions, Speculation};
use std::ffi::c_char;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;

/// 0 leaves it to the library.
fn asked(value: u32) -> Option<usize> {
    (value > 0).then_some(value as usize)
}

/// Flags that this version does not know would be passed over.
pub fn check_flags(what: &str, flags: u32, known: u32) -> Result<(), Failure> {
    match flags & !known {
        0 => Ok(()),
        unknown => {
            Err(Failure::argument(format_args!("{what} has flags that this version does not know: {unknown:#x}")))
        }
    }
}

/// A text in options, which ends with a NUL.
fn text(what: &'static str, pointer: *const c_char) -> Result<Option<String>, Failure> {
    // SAFETY: the header asks for a NUL at the end of every text in options.
    let text = unsafe { Text::new(what, pointer, AKUNU_NUL_TERMINATED) };
    Ok(text.given()?.map(str::to_owned))
}

pub fn load(options: &akunu_load_options) -> Result<LoadOptions, Failure> {
    check_flags("load options", options.flags, AKUNU_LOAD_EXACT | AKUNU_LOAD_MAPPED)?;
    let device = text("the device", options.device)?.unwrap_or_else(|| "auto".to_owned());
    let kv = match options.kv_type {
        AKUNU_KV_F16 => DType::F16,
        AKUNU_KV_Q8_0 => DType::Q8_0,
        AKUNU_KV_F32 => DType::F32,
        other => return Err(Failure::argument(format_args!("{other} is no type of a KV cache"))),
    };
    let exact = options.flags & AKUNU_LOAD_EXACT > 0;
    Ok(LoadOptions {
        device: device.parse().map_err(akunu::Error::from)?,
        threads: asked(options.threads),
        level: text("the level", options.level)?,
        kv,
        activations: if exact { Activations::F32 } else { Activations::default() },
        context: asked(options.context),
        chunk: asked(options.chunk),
        sequences: options.sequences.max(1) as usize,
        extra_positions: options.extra_positions as usize,
        memory: (options.memory > 0).then_some(options.memory),
        mapped: options.flags & AKUNU_LOAD_MAPPED > 0,
        progress: progress(options),
        ..LoadOptions::default()
    })
}

fn progress(options: &akunu_load_options) -> Option<Progress> {
    /// The caller's, who is told that it is used on other threads.
    struct UserData(*mut std::ffi::c_void);
    // SAFETY: the library does nothing with it but to hand it back.
    unsafe impl Send for UserData {}

    let report = options.progress?;
    let user_data = Mutex::new(UserData(options.user_data));
    Some(Progress::new(move |done, total| {
        let user_data = user_data.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: the caller's function with the caller's data, one call at a time.
        match callback(|| unsafe { report(done, total, user_data.0) }) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }))
}

pub fn sampling(options: &akunu_generate_options) -> Result<SamplingOptions, Failure> {
    let numbers = [
        options.temperature,
        options.top_p,
        options.min_p,
        options.typical_p,
        options.top_n_sigma,
        options.xtc_probability,
        options.xtc_threshold,
        options.dynamic_temperature,
        options.dynamic_exponent,
        options.mirostat_tau,
        options.mirostat_eta,
        options.repeat_penalty,
        options.frequency_penalty,
        options.presence_penalty,
        options.dry_multiplier,
        options.dry_base,
    ];
    if !numbers.iter().all(|n| n.is_finite()) {
        return Err(Failure::argument("a number in the generate options is not finite"));
    }
    if options.repeat_penalty <= 0.0 {
        return Err(Failure::argument("the repeat penalty is not above 0; 1 is none"));
    }
    // SAFETY: the header asks for as many as the options say.
    let bias = unsafe { Items::new("the logit bias", options.logit_bias, options.logit_bias_count) };
    let mirostat = Mirostat { tau: options.mirostat_tau, eta: options.mirostat_eta };
    Ok(SamplingOptions {
        temperature: options.temperature,
        dynamic_temperature: options.dynamic_temperature,
        dynamic_exponent: options.dynamic_exponent,
        top_k: options.top_k as usize,
        top_p: options.top_p,
        min_p: options.min_p,
        typical_p: options.typical_p,
        top_n_sigma: options.top_n_sigma,
        xtc_probability: options.xtc_probability,
        xtc_threshold: options.xtc_threshold,
        mirostat: (mirostat.tau > 0.0).then_some(mirostat),
        repeat_penalty: options.repeat_penalty,
        frequency_penalty: options.frequency_penalty,
        presence_penalty: options.presence_penalty,
        repeat_last: options.repeat_last as usize,
        dry: Dry {
            multiplier: options.dry_multiplier,
            base: options.dry_base,
            allowed_length: options.dry_allowed_length as usize,
            last: asked(options.dry_last).unwrap_or(usize::MAX),
            ..Dry::default()
        },
        logit_bias: bias.slice()?.iter().map(|b| (b.token, b.bias)).collect(),
        seed: options.seed,
        ..SamplingOptions::default()
    })
}

/// All of them but the draft model, which is not an option of the engine's.
pub fn generate(options: &akunu_generate_options, model: &crate::model::Model) -> Result<GenerateOptions, Failure> {
    check_flags("generate options", options.flags, AKUNU_IGNORE_END | AKUNU_SPECULATE | AKUNU_SHIFT_CONTEXT)?;
    let flag = |flag: u32| options.flags & flag > 0;
    // SAFETY: the header asks for as many as the options say.
    let (stop, stop_tokens) = unsafe {
        let stop = Items::new("the stop strings", options.stop, options.stop_count);
        (stop, Items::new("the stop tokens", options.stop_tokens, options.stop_token_count))
    };
    let matcher = match options.grammar.id {
        0 => None,
        _ => Some(handle::get(options.grammar)?.matcher(model)?),
    };
    Ok(GenerateOptions {
        max_tokens: options.max_tokens as usize,
        sampling: sampling(options)?,
        ignore_eos: flag(AKUNU_IGNORE_END),
        stop: stop.texts()?.into_iter().map(str::to_owned).collect(),
        stop_tokens: stop_tokens.slice()?.to_vec(),
        logprobs: usize::try_from(options.logprobs).ok(),
        context_shift: flag(AKUNU_SHIFT_CONTEXT).then_some(options.keep as usize),
        matcher,
        speculation: if flag(AKUNU_SPECULATE) { Speculation::Ngram } else { Speculation::Off },
        ..GenerateOptions::default()
    })
}

pub fn scheduler(options: &akunu_service_options) -> SchedulerOptions {
    SchedulerOptions {
        sequences: options.sequences as usize,
        cache: options.cache as usize,
        max_gap: Duration::from_millis(options.max_gap_ms.into()),
        ..SchedulerOptions::default()
    }
}

pub fn pooling(pooling: u32) -> Result<Option<Pooling>, Failure> {
    match pooling {
        AKUNU_POOLING_MODEL => Ok(None),
        AKUNU_POOLING_MEAN => Ok(Some(Pooling::Mean)),
        AKUNU_POOLING_FIRST => Ok(Some(Pooling::First)),
        AKUNU_POOLING_LAST => Ok(Some(Pooling::Last)),
        other => Err(Failure::argument(format_args!("{other} is no pooling"))),
    }
}

pub fn pooling_number(pooling: Pooling) -> u32 {
    match pooling {
        Pooling::Mean => AKUNU_POOLING_MEAN,
        Pooling::First => AKUNU_POOLING_FIRST,
        Pooling::Last => AKUNU_POOLING_LAST,
    }
}

pub fn transcribe(options: &akunu_transcribe_options) -> Result<TranscribeOptions, Failure> {
    check_flags("transcribe options", options.flags, AKUNU_TRANSLATE | AKUNU_WORDS | AKUNU_KEEP_SILENCE)?;
    let flag = |flag: u32| options.flags & flag > 0;
    let mut asked = TranscribeOptions {
        language: text("the language", options.language)?,
        task: if flag(AKUNU_TRANSLATE) { Task::Translate } else { Task::Transcribe },
        prompt: text("the prompt", options.prompt)?,
        words: flag(AKUNU_WORDS),
        silence: if flag(AKUNU_KEEP_SILENCE) { Silence::Keep } else { Silence::default() },
        ..TranscribeOptions::default()
    };
    asked.decoding.beams = options.beams as usize;
    Ok(asked)
}
