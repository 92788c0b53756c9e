//! The Metal backend under the emulator: every kernel against the reference executor, and whole models.

mod direct;
mod kernels;
mod language;
mod models;
mod rig;
mod tables;
