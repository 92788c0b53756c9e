//! The Metal backend under the emulator: every kernel against the reference executor.

mod arguments;
mod direct;
mod host;
mod kernels;
mod language;
mod rig;
mod tables;
