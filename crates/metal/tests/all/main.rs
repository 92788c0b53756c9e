//! The Metal backend under the emulator: every kernel against the reference executor, and whole models.

mod host;
mod kernels;
mod language;
mod rig;
mod tables;
