//! Akunu: run language models locally.
//!
//! ```
//! use akunu::{Engine, GenerateOptions, LoadOptions};
//!
//! let mut engine = Engine::embedded(LoadOptions::default())?;
//! let options = GenerateOptions { max_tokens: 16, ..Default::default() };
//! let story = engine.generate_text("Once upon a time", options)?;
//! assert!(!story.is_empty());
//! # Ok::<(), akunu::Error>(())
//! ```
//!
//! An [`Engine`] is a loaded model: its programs bound to the machine's kernels, its KV cache, its
//! tokenizer. A [`Sequence`] is a conversation's place in the KV cache. [`GenerateOptions`] say what to
//! generate and how: sampling, ends, a [`Grammar`], speculative decoding ([`Speculation`]), log-probabilities.
//!
//! Methods that speak of programs and records are for the command line and the benchmarks; they are not documented here.
//!
//! | to | use |
//! |---|---|
//! | get a text at once | [`Engine::generate_text`] |
//! | get it piece by piece, or go on with a conversation | [`Engine::generate`], [`Engine::resume`]: iterators of [`Piece`] |
//! | serve many at once, from threads or async code | [`Service`]; [`Reply`] is an iterator and a `Stream` |
//! | drive many at once yourself | [`Scheduler`] |
//! | draft with a smaller model | [`Draft`], [`Engine::resume_drafted`] |
//! | keep a conversation's KV cache in a file | [`Engine::save_session`], [`Engine::load_session`] |
//! | keep what a scheduler remembers while its model is away | [`Scheduler::snapshot`], [`Scheduler::restore`] |
//! | know what a model would need | [`Engine::footprint`] |
//! | embed texts; transcribe speech | [`Embedder`]; [`speech`] |
//!
//! Streaming, with a grammar that the text keeps to:
//!
//! ```
//! use akunu::{Encode, Engine, GenerateOptions, Grammar, LoadOptions};
//!
//! let mut engine = Engine::embedded(LoadOptions::default())?;
//! let prompt = engine.need_tokenizer()?.encode("The cat was", Encode { add_special: true, parse_special: false })?;
//! let options = GenerateOptions::new().temperature(0.8).seed(1).grammar(Grammar::Regex(" (happy|sad)\\.".into()));
//! let mut sequence = engine.sequence();
//! let mut text = String::new();
//! for piece in engine.generate(&mut sequence, &prompt, options)? {
//!     text += &piece?.text;
//! }
//! assert!([" happy.", " sad."].contains(&text.as_str()));
//! # Ok::<(), akunu::Error>(())
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod about;
mod average;
mod backend;
mod embed;
mod embedded;
mod engine;
mod error;
mod footprint;
mod generate;
mod kv;
mod load;
mod serve;
pub mod speech;
mod step;

pub use about::{About, Purpose};
pub use akunu_arch::Pooling;
pub use akunu_dtype::DType;
pub use akunu_formats::ModelFile;
pub use akunu_limits::{Limit, Limits, Over, UnknownLimit, over};
pub use akunu_text::{ChatTemplate, Detokenizer, Encode, Grammar, Grammars, Matcher, Tokenizer};
pub use akunu_text::{ReplyFormat, ReplyPart, ReplyReader, ThinkTags, Tool, ToolChoice, ToolInput};
#[doc(hidden)]
pub use backend::Estimate;
pub use backend::{Device, DeviceError};
pub use embed::{Embedder, Reading, Text, TextEncoder, TooLong, normalize};
pub use embedded::{DEFAULT_MODEL_NAME, open as embedded_model};
pub use engine::{Engine, MAX_SEQUENCES};
pub use error::Error;
pub use footprint::{Footprint, Needs};
pub use generate::sampling::penalize_repeats;
pub use generate::sampling::{Dry, LogProbs, Mirostat, Sampler, SamplingOptions, Stage, argmax, log_probabilities};
pub use generate::speculation::{Draft, Speculation};
pub use generate::{Finish, Generate, GenerateOptions, Piece, Thinking, Thoughts};
pub use kv::prefix::Miss;
pub use kv::sequence::Sequence;
pub use kv::session::{Session, SessionError};
#[doc(hidden)]
pub use load::OwnBackend;
pub use load::{Activations, DEFAULT_CONTEXT, LoadOptions, Progress};
pub use serve::LEAST_CHUNK;
pub use serve::metrics::{Latency, Metrics};
pub use serve::scheduler::{Event, Request, RequestId, Scheduler, SchedulerOptions, Summary};
pub use serve::service::{Canceller, Reply, Service};
pub use serve::snapshot::Snapshot;
pub use step::{Outputs, StepInput};
