//! `names.rs` of a binary without the feature `hub`: a model is a path.

use std::path::PathBuf;

use anyhow::Result;

pub fn find(_: &str) -> Result<Option<PathBuf>> {
    Ok(None)
}

pub fn next_step(_: &str) -> String {
    "give a path: this akunu was built without names of models (feature `hub`)".to_owned()
}

pub fn history() -> Option<PathBuf> {
    None
}
