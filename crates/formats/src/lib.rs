//! Untrusted model files to a validated [`ModelFile`]: metadata, and tensors as views of a mapping.
//!
//! One validation pass happens in [`ModelFile::open`]; afterwards use cannot fail. Every count, length, offset
//! and product of dimensions is checked against the bytes that remain before anything is allocated, so that a
//! hostile file costs a sentence and not the machine. What is allocated is bounded by a small factor of the
//! header's own bytes: big arrays (vocabularies) stay views of the mapping.
//!
//! Security: a model file is input, not code. Nothing in it is executed, no path in it leaves its directory (symbolic
//! links that the user placed there are followed: download caches are made of them), and opening
//! never blocks on a FIFO or a device. What a file that is changed while mapped can do is written in `map.rs`.
//!
//! This crate knows nothing of what the tensors mean.
#![deny(unsafe_code)]

mod cursor;
mod directory;
mod error;
mod ggml;
pub mod gguf;
mod json;
mod map;
mod mlx;
mod model_file;
mod output;
pub mod safetensors;

pub use error::{Error, Fault, Name};
pub use map::open_regular;
pub use model_file::{Container, Metadata, ModelFile, Span, Tensor};
pub use output::{Output, abandon_outputs};
