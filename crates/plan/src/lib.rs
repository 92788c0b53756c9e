//! The Program: what a model computes for a step, as data.
//!
//! `build` turns an `arch::Model` into ops, `fuse` merges them, `memory` places their buffers,
//! `verify` checks them against the op table, and `bind` writes the flat array of records a
//! backend replays. `reference` runs the same ops slowly, and `diff` compares the two.

#![forbid(unsafe_code)]

pub mod backend;
pub mod bind;
pub mod build;
pub mod cost;
pub mod diff;
pub mod draw;
pub mod fuse;
pub mod memory;
pub mod null;
pub mod op;
pub mod program;
pub mod proof;
pub mod record;
pub mod reference;
pub mod rules;
pub mod serial;
pub mod steps;
pub mod verify;

pub use backend::{
    Backend, BoundProgram, Info, KvCopy, KvPool, LoadError, LoadPlan, Loaded, Preferences, SubmitError, Want,
    WeightFile,
};
pub use bind::{Bound, Choice, NoKernel, bind};
pub use build::{BuildError, BuildOptions, Output, build};
pub use draw::{DrawVars, Draws};
pub use program::Program;
pub use proof::{Proof, Unsound};
pub use record::{Addr, Record, Region};
pub use rules::{RuleVars, Rules};
pub use steps::{KV_BLOCK, NO_BLOCK, NO_TOKEN, RowVars, StepError, StepLayout, StepVars};
