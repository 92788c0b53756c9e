//! Statuses, handles and structs: what `types.h` declares.

use crate::memory::Growing;
use std::mem::size_of;

mod options;
mod reports;

pub use options::*;
pub use reports::*;

/// What a call came to: 0 or more where it did what it was asked for, less where it failed.
pub type akunu_status = i32;

/// It is done.
pub const AKUNU_OK: akunu_status = 0;
/// A callback asked to stop. What was there before stays.
pub const AKUNU_STOPPED: akunu_status = 1;
/// A request has not ended yet.
pub const AKUNU_PENDING: akunu_status = 2;
/// An argument is null, out of range, not UTF-8, or a struct whose size is not set.
pub const AKUNU_ERROR_ARGUMENT: akunu_status = -1;
/// A handle is zero, was freed, or is of another kind.
pub const AKUNU_ERROR_HANDLE: akunu_status = -2;
/// Something is in use, and the call cannot wait for it.
pub const AKUNU_ERROR_BUSY: akunu_status = -3;
/// The buffer is too small. The count says what is needed; nothing was written.
pub const AKUNU_ERROR_BUFFER: akunu_status = -4;
/// A file is not there, damaged, or not supported.
pub const AKUNU_ERROR_FILE: akunu_status = -5;
/// The model cannot do that.
pub const AKUNU_ERROR_MODEL: akunu_status = -6;
/// The device is not there.
pub const AKUNU_ERROR_DEVICE: akunu_status = -7;
/// There is not enough memory, or the KV cache is full.
pub const AKUNU_ERROR_MEMORY: akunu_status = -8;
/// The text does not fit the context.
pub const AKUNU_ERROR_CONTEXT: akunu_status = -9;
/// The grammar cannot be kept.
pub const AKUNU_ERROR_GRAMMAR: akunu_status = -10;
/// There is no chat template, or it refuses the messages.
pub const AKUNU_ERROR_TEMPLATE: akunu_status = -11;
/// This is the child of a fork, and the handles are its parent's.
pub const AKUNU_ERROR_FORKED: akunu_status = -12;
/// A fault in the library was contained.
pub const AKUNU_ERROR_FAULT: akunu_status = -13;
/// Anything else; `akunu_last_error` says what.
pub const AKUNU_ERROR_FAILED: akunu_status = -14;

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
                const FIRST: usize = $first;
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
    akunu_generate_options: 192, generate_options;
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
