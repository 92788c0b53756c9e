//! Models from one file to another: HF, MLX or GGUF to GGUF, in any mixture of number formats.

pub mod mixture;

pub use mixture::{MIXTURES, Mixture};
