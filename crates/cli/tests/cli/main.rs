//! The command as people run it: every test starts the real binary.

mod answers;
mod bad_input;
mod chat;
mod devices;
mod embeddings;
mod endings;
mod limits;
mod manuals;
mod measurements;
mod models;
#[cfg(feature = "server")]
mod serving;
mod stories;
mod support;
mod terminal;
