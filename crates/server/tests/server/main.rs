//! The server over a socket, as its clients see it.

mod access;
mod agents;
mod anthropic;
#[cfg(feature = "audio")]
mod audio;
mod ggml;
mod metrics;
mod models;
mod ollama;
mod openai;
mod openapi;
#[cfg(feature = "otel")]
mod otel;
mod page;
mod responses;
mod snapshots;
mod socket;
