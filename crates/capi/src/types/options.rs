//! What callers ask for: options, and the constants in them.

use super::*;
use std::ffi::{c_char, c_void};

/// Sees the bytes of weights that are read, of how many. It runs on any thread, never twice at once; anything but 0
/// ends the loading.
pub type akunu_progress_callback = Option<unsafe extern "C" fn(done: u64, total: u64, user_data: *mut c_void) -> i32>;

/// Keys and values are 16-bit floats.
pub const AKUNU_KV_F16: u32 = 0;
/// Keys and values are 8-bit integers with scales: half the memory.
pub const AKUNU_KV_Q8_0: u32 = 1;
/// Keys and values are 32-bit floats.
pub const AKUNU_KV_F32: u32 = 2;

/// Quantized weights are multiplied with floats: slower, for comparing engines.
pub const AKUNU_LOAD_EXACT: u32 = 1;
/// Weights stay in the mapped file: starts at once, shares memory, generates slower.
pub const AKUNU_LOAD_MAPPED: u32 = 2;

/// How to load a model; 0 and NULL leave a field to the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_load_options {
    /// Of this struct.
    pub size: u32,
    /// Threads of the processor.
    pub threads: u32,
    /// Positions that a session can have.
    pub context: u32,
    /// Sessions, or requests of a service, that the KV cache has room for at full length.
    pub sequences: u32,
    /// Positions that it has room for beyond those.
    pub extra_positions: u32,
    /// Rows of a prefill step.
    pub chunk: u32,
    /// `AKUNU_KV_*`.
    pub kv_type: u32,
    /// `AKUNU_LOAD_*`, added.
    pub flags: u32,
    /// Bytes that the model may need; 0: what is free.
    pub memory: u64,
    /// A name of `akunu_device_info`.
    pub device: *const c_char,
    /// A kernel level of the device.
    pub level: *const c_char,
    /// Sees what is read.
    pub progress: akunu_progress_callback,
    /// Given to `progress`.
    pub user_data: *mut c_void,
}

/// Puts the tokens around a text that the model wants there.
pub const AKUNU_ADD_SPECIAL: u32 = 1;
/// Reads special tokens written in the text as such: for prompts of a chat template, not for text of a user.
pub const AKUNU_PARSE_SPECIAL: u32 = 2;

/// A text ends with the token.
pub const AKUNU_TOKEN_END: u32 = 1;
/// The token marks structure and is not text.
pub const AKUNU_TOKEN_SPECIAL: u32 = 2;

/// A message of a chat. Its layout never changes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_message {
    /// `system`, `user`, `assistant`.
    pub role: *const c_char,
    /// Its text.
    pub content: *const c_char,
}

/// Any JSON object; there is no source.
pub const AKUNU_GRAMMAR_JSON: u32 = 1;
/// JSON that a JSON schema describes.
pub const AKUNU_GRAMMAR_JSON_SCHEMA: u32 = 2;
/// Text that a regular expression matches as a whole.
pub const AKUNU_GRAMMAR_REGEX: u32 = 3;
/// A grammar in the Lark dialect of llguidance.
pub const AKUNU_GRAMMAR_LARK: u32 = 4;
/// A grammar as llama.cpp writes them.
pub const AKUNU_GRAMMAR_GBNF: u32 = 5;

/// A number that is added to a token's logit. Its layout never changes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_logit_bias {
    /// Which token.
    pub token: u32,
    /// What is added.
    pub bias: f32,
}

/// Go on after the model's end token.
pub const AKUNU_IGNORE_END: u32 = 1;
/// Draft tokens from the text itself and verify several in a step: the same text, in fewer steps.
pub const AKUNU_SPECULATE: u32 = 2;
/// When the context is full, forget the older half of what comes after `keep` tokens, instead of ending.
pub const AKUNU_SHIFT_CONTEXT: u32 = 4;

/// What to generate, and how. `akunu_generate_options_default` fills it; temperature 0 takes the likeliest token.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_generate_options {
    /// Of this struct.
    pub size: u32,
    /// `AKUNU_IGNORE_END` and those after it, added.
    pub flags: u32,
    /// The same seed draws the same tokens.
    pub seed: u64,
    /// 0: until the model ends, or the context is full.
    pub max_tokens: u32,
    /// For `AKUNU_SHIFT_CONTEXT`.
    pub keep: u32,
    /// 0: the likeliest token; above: a draw at this temperature.
    pub temperature: f32,
    /// Keep this many of the likeliest; 0: all.
    pub top_k: u32,
    /// Keep the likeliest whose probabilities reach this sum; 1: all.
    pub top_p: f32,
    /// Keep those at least this share as likely as the likeliest; 0: all.
    pub min_p: f32,
    /// Keep the most typical whose probabilities reach this sum; 1: all.
    pub typical_p: f32,
    /// Keep those within this many standard deviations of the largest logit; 0: all.
    pub top_n_sigma: f32,
    /// How often only the least likely of the likely tokens stays; 0: never.
    pub xtc_probability: f32,
    /// From which probability on a token is likely.
    pub xtc_threshold: f32,
    /// The temperature moves this far with the entropy; 0: it stays.
    pub dynamic_temperature: f32,
    /// How the entropy moves it.
    pub dynamic_exponent: f32,
    /// Bits of surprise a token that mirostat holds; 0: off.
    pub mirostat_tau: f32,
    /// How fast it corrects itself.
    pub mirostat_eta: f32,
    /// Divides positive logits of recent tokens, multiplies negative ones; 1: none.
    pub repeat_penalty: f32,
    /// Subtracted for every time a token came recently.
    pub frequency_penalty: f32,
    /// Subtracted once where a token came recently.
    pub presence_penalty: f32,
    /// How many recent tokens these three look at.
    pub repeat_last: u32,
    /// Penalty for repeating a passage; 0: off.
    pub dry_multiplier: f32,
    /// It grows by this factor with every token more.
    pub dry_base: f32,
    /// The longest repetition without it is one token shorter.
    pub dry_allowed_length: u32,
    /// How many tokens it looks back; 0: all.
    pub dry_last: u32,
    /// Log-probabilities of this many likeliest tokens, and of the chosen one; -1: none.
    pub logprobs: i32,
    /// 0.
    pub reserved: u32,
    /// The text ends before the first of these, which end with a NUL.
    pub stop: *const *const c_char,
    /// How many.
    pub stop_count: usize,
    /// The text ends before any of these tokens.
    pub stop_tokens: *const u32,
    /// How many.
    pub stop_token_count: usize,
    /// Added to the logits of single tokens.
    pub logit_bias: *const akunu_logit_bias,
    /// How many.
    pub logit_bias_count: usize,
    /// The form that the text must have; zero: any.
    pub grammar: akunu_grammar,
    /// Who drafts for it; zero: nobody. The text is the same, in fewer steps. Not for requests of a service.
    pub draft: akunu_draft,
}

/// How many requests run at once, and what is remembered.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_service_options {
    /// Of this struct.
    pub size: u32,
    /// Requests that run at once; others wait.
    pub sequences: u32,
    /// Positions of finished texts to remember; 0: none.
    pub cache: u32,
    /// While prompts are read nobody waits longer than so many milliseconds for the next token.
    pub max_gap_ms: u32,
}

/// As the file says, or else as such models mostly are.
pub const AKUNU_POOLING_MODEL: u32 = 0;
/// The mean of all tokens.
pub const AKUNU_POOLING_MEAN: u32 = 1;
/// The first token.
pub const AKUNU_POOLING_FIRST: u32 = 2;
/// The last token.
pub const AKUNU_POOLING_LAST: u32 = 3;

/// Drops the end of a text that is too long, instead of failing.
pub const AKUNU_EMBED_CUT: u32 = 1;
/// Leaves vectors as long as they are, instead of making their length 1.
pub const AKUNU_EMBED_RAW: u32 = 2;

/// Writes down what is said in English, whatever the language.
pub const AKUNU_TRANSLATE: u32 = 1;
/// Finds out when each word was said.
pub const AKUNU_WORDS: u32 = 2;
/// Encodes silence too, instead of leaving it out.
pub const AKUNU_KEEP_SILENCE: u32 = 4;

/// What to transcribe, and how.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct akunu_transcribe_options {
    /// Of this struct.
    pub size: u32,
    /// `AKUNU_TRANSLATE` and those after it, added.
    pub flags: u32,
    /// A code such as `en`, or an English name; NULL: found out.
    pub language: *const c_char,
    /// What was said before, or words to expect.
    pub prompt: *const c_char,
    /// Beams of the search; 1: the likeliest token each time.
    pub beams: u32,
    /// 0.
    pub reserved: u32,
}
