//! One text: what to generate and how, and what follows from the logits of a step.

pub(crate) mod constraint;
pub(crate) mod decoder;
mod generation;
mod options;
pub(crate) mod sampling;
pub(crate) mod speculation;
mod stop;
mod thoughts;

pub use generation::Generate;
pub use options::{Finish, GenerateOptions, Piece};
pub use thoughts::{Thinking, Thoughts};
