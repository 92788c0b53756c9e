//! Where fixtures are: in the repository, or beside it for those that are not ours to commit.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A fixture of the repository: `path("gguf/llama-256-Q2_K.gguf")`.
pub fn path(name: &str) -> PathBuf {
    let path = root().join("fixtures").join(name);
    assert!(path.exists(), "fixture {} is not in the repository", path.display());
    path
}

/// A fixture in `shared/fixtures` beside the repository, where that is there; says so where it is not.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = root().join("../shared/fixtures").join(name);
    if path.exists() {
        return Some(path);
    }
    skipped(&format!("no shared fixture {name} beside the repository"));
    None
}

/// Says why a test checks nothing.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
