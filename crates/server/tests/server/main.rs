//! The server over a socket, as its clients see it.

mod access;
mod agents;
mod anthropic;
#[cfg(feature = "audio")]
mod audio;
mod ggml;
mod models;
mod ollama;
mod openai;
mod openapi;
mod page;
mod responses;
mod socket;
