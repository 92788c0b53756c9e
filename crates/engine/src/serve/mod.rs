//! Many at once: continuous batching over one engine, and a thread that runs it for callers.

mod chunk;
pub(crate) mod metrics;
pub(crate) mod scheduler;
pub(crate) mod service;
mod sessions;
pub(crate) mod snapshot;

pub use chunk::LEAST_CHUNK;
