//! The Metal backend under the emulator: every kernel against the reference executor.

mod direct;
mod kernels;
mod language;
mod rig;
mod tables;
