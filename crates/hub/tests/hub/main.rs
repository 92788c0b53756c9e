//! Fetching models from servers of our own, over real sockets.

mod download;
mod hostile;
mod public_faults;
mod server;
mod sources;
