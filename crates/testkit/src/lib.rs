//! Fixtures, goldens and comparisons shared by the tests of all crates.
//!
//! Test support only: what is wrong with a fixture is a panic that names it.

#![forbid(unsafe_code)]

pub mod compare;
pub mod fixtures;
pub mod golden;
pub mod rig;
mod temp;
pub mod tones;

pub use compare::{cosine, relative_error};
pub use golden::Golden;
pub use temp::TempDir;

use akunu_limits::Limits;

/// A quarter of what is accepted by default: what is real fits into it.
pub fn quarter_of_limits() -> Limits {
    let mut limits = Limits::default();
    for limit in limits.list() {
        limits.set(&limit.name, limit.value / 4).expect("a limit has the name that it lists");
    }
    limits
}
