//! Project chores as a library, so that `cargo test` runs the tidy checks too.

#![forbid(unsafe_code)]

pub mod bench;
pub mod c_header;
pub mod c_library;
pub mod calibrate_metal;
pub mod check_metal;
pub mod clients;
pub mod models;
pub mod python;
pub mod quality;
pub mod real;
pub mod schemas;
pub mod tidy;

use std::path::PathBuf;

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}
