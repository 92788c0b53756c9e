//! The C API: what `include/akunu/akunu.h` declares. `docs/c-api.md` is its manual.
//!
//! What is promised to callers, and where that is kept:
//!
//! - No handle is an address (`handle.rs`): one that is null, freed or of another kind is an error.
//! - No panic leaves a call, and no call hangs in the child of a fork (`call.rs`).
//! - Nothing that the library allocates is the caller's to free: results are copied into the caller's memory, and what callbacks
//!   are shown is theirs until they return (`memory.rs`).
//!
//! `unsafe` is in `memory.rs`, and where functions take pointers and callbacks: those are the caller's promise, which the header
//! states.

#![allow(non_camel_case_types)]
// The contract of all functions is the same, and the header begins with it.
#![allow(clippy::missing_safety_doc)]
#![warn(missing_docs)]

mod convert;
mod handle;
mod memory;

// In the order that the header has.
mod types;

mod call;

mod model;

mod text;

mod grammar;

mod session;

mod generate;

mod sampling;

mod service;

mod embedder;

mod transcribe;

pub use embedder::*;
pub use generate::*;
pub use grammar::*;
pub use model::*;
pub use sampling::*;
pub use service::*;
pub use session::*;
pub use text::*;
pub use transcribe::*;
pub use types::*;
