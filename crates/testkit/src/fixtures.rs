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

/// Every fixture of a folder (`"hf"`): those of the repository, then those that only lie beside it.
pub fn all(folder: &str) -> Vec<PathBuf> {
    let list = |dir: PathBuf| -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
        paths.sort();
        paths
    };
    let mut found = list(root().join("fixtures").join(folder));
    let beside = shared(folder).map(list).unwrap_or_default();
    found.extend(
        beside
            .into_iter()
            .filter(|p| !root().join("fixtures").join(folder).join(p.file_name().unwrap_or_default()).exists()),
    );
    found
}
