//! What callers are told: reports, and what callbacks are shown.

use std::ffi::{c_char, c_void};

/// The model writes text.
pub const AKUNU_PURPOSE_GENERATE: u32 = 1;
/// It reads texts, and gives vectors.
pub const AKUNU_PURPOSE_EMBED: u32 = 2;
/// It reads pairs of texts, and gives scores.
pub const AKUNU_PURPOSE_RANK: u32 = 3;
/// It writes down speech.
pub const AKUNU_PURPOSE_TRANSCRIBE: u32 = 4;

/// The value of a token that the model does not have.
pub const AKUNU_NO_TOKEN: u32 = u32::MAX;

/// What a model is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_model_info {
    /// Of this struct; set by the caller.
    pub size: u32,
    /// `AKUNU_PURPOSE_*`.
    pub purpose: u32,
    /// Numbers in all tensors.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Positions that a session can have; of a file, those that it was made for.
    pub context: u32,
    /// Positions that it was made for.
    pub trained_context: u32,
    /// Values of an embedding.
    pub width: u32,
    /// Layers.
    pub layers: u32,
    /// Tokens in the vocabulary: logits of a position.
    pub vocab: u32,
    /// The token that begins a text, or `AKUNU_NO_TOKEN`.
    pub bos_token: u32,
    /// The token that ends a text, or `AKUNU_NO_TOKEN`.
    pub eos_token: u32,
    /// 1 where there is a chat template.
    pub has_chat_template: u32,
    /// The architecture's name.
    pub architecture: [c_char; 32],
    /// The number format that most weights have.
    pub format: [c_char; 16],
}

/// What a model needs, and what there is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_memory {
    /// Of this struct; set by the caller.
    pub size: u32,
    /// The context that this is for.
    pub context: u32,
    /// The longest that fits into what is free; 0 where none does.
    pub longest_context: u32,
    /// 1 where the model fits.
    pub fits: u32,
    /// Bytes of weights.
    pub weights: u64,
    /// Bytes of the KV cache.
    pub kv: u64,
    /// Bytes of activations and all else.
    pub scratch: u64,
    /// Bytes that are free; 0 where the system does not say.
    pub available: u64,
}

/// Something that models may run on.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_device_info {
    /// Of this struct; set by the caller.
    pub size: u32,
    /// 1 where it can be used.
    pub available: u32,
    /// Threads that a step keeps busy.
    pub threads: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes that a model could use; 0 where the system does not say.
    pub free_memory: u64,
    /// What `akunu_load_options` calls it.
    pub name: [c_char; 16],
    /// What it calls itself, or why it cannot be used.
    pub description: [c_char; 128],
    /// The kernels in use, such as an instruction-set level.
    pub level: [c_char; 16],
}

/// A token and the natural logarithm of its probability. Its layout never changes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_logprob {
    /// Which token.
    pub token: u32,
    /// Before bias, penalties and temperature.
    pub logprob: f32,
}

/// A token, and the text that it completes. All of it is there until the callback returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_piece {
    /// Of this struct.
    pub size: u32,
    /// Which token.
    pub token: u32,
    /// Whole characters in UTF-8, often none, with a NUL after them.
    pub text: *const c_char,
    /// Bytes of the text.
    pub length: usize,
    /// The likeliest tokens, where they were asked for.
    pub top: *const akunu_logprob,
    /// How many.
    pub top_count: usize,
    /// The token's own log-probability, where it was asked for.
    pub logprob: f32,
    /// 0.
    pub reserved: u32,
}

/// Sees every piece as it comes. Anything but 0 ends the generation. It must return: neither `longjmp` nor an exception may leave it.
pub type akunu_piece_callback = Option<unsafe extern "C" fn(piece: *const akunu_piece, user_data: *mut c_void) -> i32>;

/// The model ended, a stop token came, or the grammar lets nothing follow.
pub const AKUNU_FINISH_END: u32 = 1;
/// A stop string came.
pub const AKUNU_FINISH_STOP_STRING: u32 = 2;
/// `max_tokens` are there.
pub const AKUNU_FINISH_LENGTH: u32 = 3;
/// The context is full.
pub const AKUNU_FINISH_CONTEXT: u32 = 4;
/// A callback asked to stop, or the request was cancelled.
pub const AKUNU_FINISH_STOPPED: u32 = 5;

/// How a generation ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_result {
    /// Of this struct; set by the caller.
    pub size: u32,
    /// `AKUNU_FINISH_*`.
    pub finish: u32,
    /// Which stop string came.
    pub stop_index: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of those, tokens that were in the KV cache.
    pub reused_tokens: u32,
    /// Tokens after it.
    pub generated_tokens: u32,
    /// Until the first token.
    pub first_token_seconds: f64,
    /// Until the last.
    pub seconds: f64,
}

/// What goes on in a service, and has since its start.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_service_info {
    /// Of this struct; set by the caller.
    pub size: u32,
    /// Requests in the KV cache.
    pub running: u32,
    /// Requests that wait for room.
    pub waiting: u32,
    /// 0.
    pub reserved: u32,
    /// Requests that were submitted.
    pub submitted: u64,
    /// Of those, ended by themselves.
    pub finished: u64,
    /// Of those, cancelled.
    pub cancelled: u64,
    /// Of those, ended by an error.
    pub failed: u64,
    /// Steps computed.
    pub steps: u64,
    /// Tokens chosen.
    pub generated_tokens: u64,
}

/// What an embedder gives.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_embedder_info {
    /// Of this struct; set by the caller.
    pub size: u32,
    /// Values for a text.
    pub width: u32,
    /// Tokens that a text can have.
    pub context: u32,
    /// `AKUNU_POOLING_*`.
    pub pooling: u32,
}

/// A word, in seconds from the start of the recording. Its layout never changes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_word {
    /// Its first sound.
    pub start: f64,
    /// Its last.
    pub end: f64,
    /// With the space before it, in UTF-8, and a NUL.
    pub text: *const c_char,
    /// How likely the model finds it, from 0 to 1.
    pub probability: f64,
}

/// A stretch of speech, in seconds from the start of the recording. All of it is there until the callback returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_segment {
    /// Of this struct.
    pub size: u32,
    /// The probability that nobody speaks.
    pub no_speech: f32,
    /// Its first sound.
    pub start: f64,
    /// Its last.
    pub end: f64,
    /// What is said, in UTF-8, with a NUL after it.
    pub text: *const c_char,
    /// Bytes of the text.
    pub length: usize,
    /// Where they were asked for.
    pub words: *const akunu_word,
    /// How many.
    pub word_count: usize,
}

/// Sees every segment as it becomes final. Anything but 0 ends the transcription. It must return: neither `longjmp` nor an
/// exception may leave it.
pub type akunu_segment_callback =
    Option<unsafe extern "C" fn(segment: *const akunu_segment, user_data: *mut c_void) -> i32>;

/// The text alone.
pub const AKUNU_TRANSCRIPT_TEXT: u32 = 0;
/// Subtitles as SubRip has them.
pub const AKUNU_TRANSCRIPT_SRT: u32 = 1;
/// Subtitles as WebVTT has them.
pub const AKUNU_TRANSCRIPT_VTT: u32 = 2;
