//! Fixtures, goldens and comparisons shared by the tests of all crates.
//!
//! Test support only: what is wrong with a fixture is a panic that names it.

#![forbid(unsafe_code)]

pub mod compare;
pub mod fixtures;
pub mod golden;
mod temp;
pub mod tones;

pub use compare::{cosine, relative_error};
pub use golden::Golden;
pub use temp::TempDir;
