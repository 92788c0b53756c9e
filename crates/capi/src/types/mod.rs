//! What `types.h` declares: statuses, handles, options and reports.

use crate::memory::Growing;
use std::mem::size_of;

mod options;
mod reports;
mod status;

pub use options::*;
pub use reports::*;
pub use status::*;

/// Given as a length: the text ends with a NUL.
pub const AKUNU_NUL_TERMINATED: usize = usize::MAX;

/// A loaded model that writes text. Zero is no handle, of this and all kinds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_model {
    /// Not an address.
    pub id: u64,
}

/// A text's place in a model's KV cache.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_session {
    /// Not an address.
    pub id: u64,
}

/// A smaller model that drafts for a larger one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_draft {
    /// Not an address.
    pub id: u64,
}

/// A compiled grammar.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_grammar {
    /// Not an address.
    pub id: u64,
}

/// A model that answers many requests at once.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_service {
    /// Not an address.
    pub id: u64,
}

/// What was submitted to a service.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_request {
    /// Not an address.
    pub id: u64,
}

/// A loaded model that reads texts: embeddings or scores.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_embedder {
    /// Not an address.
    pub id: u64,
}

/// A loaded model of speech.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_transcriber {
    /// Not an address.
    pub id: u64,
}

macro_rules! growing {
    ($($name:ident: $first:literal, $defaults:expr;)+) => {
        $(
            // SAFETY: it is repr(C) with `size` first, made of numbers and pointers that are in order of their alignment, and
            // zero is a value of all of them. A test adds up the sizes of its fields.
            unsafe impl Growing for $name {
                const FIRST: usize = {
                    assert!($first <= size_of::<Self>());
                    $first
                };
                fn defaults() -> Self {
                    // SAFETY: as above.
                    let zero: Self = unsafe { std::mem::zeroed() };
                    let zero = Self { size: size_of::<Self>() as u32, ..zero };
                    $defaults(zero)
                }
            }
        )+
    };
}

growing! {
    akunu_load_options: 72, |zero| zero;
    akunu_generate_options: 176, generate_options;
    akunu_service_options: 16, |zero| Self { sequences: 16, cache: 16_384, max_gap_ms: 200, ..zero };
    akunu_transcribe_options: 32, |zero| Self { beams: 5, ..zero };
    akunu_model_info: 104, |zero| zero;
    akunu_memory: 48, |zero| zero;
    akunu_device_info: 184, |zero| zero;
    akunu_result: 40, |zero| zero;
    akunu_service_info: 64, |zero| zero;
    akunu_embedder_info: 16, |zero| zero;
}

fn generate_options(zero: akunu_generate_options) -> akunu_generate_options {
    let sampling = akunu::SamplingOptions::default();
    akunu_generate_options {
        temperature: sampling.temperature,
        top_k: sampling.top_k as u32,
        top_p: sampling.top_p,
        min_p: sampling.min_p,
        typical_p: sampling.typical_p,
        xtc_threshold: sampling.xtc_threshold,
        dynamic_exponent: sampling.dynamic_exponent,
        mirostat_eta: akunu::Mirostat::default().eta,
        repeat_penalty: sampling.repeat_penalty,
        repeat_last: sampling.repeat_last as u32,
        dry_base: sampling.dry.base,
        dry_allowed_length: sampling.dry.allowed_length as u32,
        logprobs: -1,
        ..zero
    }
}
