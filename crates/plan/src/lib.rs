//! The Program: what a model computes for a step, as data.
//!
//! `build` turns an `arch::Model` into ops, `fuse` merges them, `memory` places their buffers,
//! `verify` checks them against the op table, and `bind` writes the flat array of records a
//! backend replays. `reference` runs the same ops slowly, and `diff` compares the two.

pub mod bind;
pub mod op;
pub mod program;
pub mod q8;
pub mod record;
pub mod steps;
