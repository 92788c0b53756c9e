//! The files of the repository: those that git knows or would add, and their text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::source::Source;

/// A file, by its path from the root with `/` between parts.
pub(crate) struct File {
    pub path: String,
    pub bytes: u64,
    /// Whether it is in the repository, and not only beside its files.
    pub tracked: bool,
    /// `None` where it is not UTF-8, or large as only data is.
    pub text: Option<String>,
}

pub(crate) struct Tree {
    pub root: PathBuf,
    pub files: Vec<File>,
    pub rust: Vec<Source>,
}

/// Text files are smaller.
const MAX_TEXT: u64 = 2 << 20;

impl Tree {
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for (path, tracked) in paths(root)? {
            let Ok(metadata) = fs::symlink_metadata(root.join(&path)) else { continue };
            if !metadata.is_file() {
                continue;
            }
            let text = (metadata.len() <= MAX_TEXT).then(|| fs::read_to_string(root.join(&path)).ok()).flatten();
            files.push(File { path, bytes: metadata.len(), tracked, text });
        }
        let rust = files.iter().filter(|f| f.path.ends_with(".rs"));
        let rust = rust.filter_map(|f| Some(Source::new(&f.path, f.text.as_deref()?))).collect();
        Ok(Self { root: root.to_path_buf(), files, rust })
    }

    /// The text of the file at `path`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|f| f.path == path).and_then(|f| f.text.as_deref())
    }
}

/// Tracked and new files, or everything but build outputs where there is no git.
fn paths(root: &Path) -> anyhow::Result<Vec<(String, bool)>> {
    let list = |arguments: &[&str]| -> Option<Vec<String>> {
        let output = Command::new("git").arg("-C").arg(root).arg("ls-files").arg("-z").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(text.split('\0').filter(|p| !p.is_empty()).map(str::to_owned).collect())
    };
    let tracked = list(&["--cached"]);
    if let (Some(tracked), Some(new)) = (tracked, list(&["--others", "--exclude-standard"])) {
        let tracked = tracked.into_iter().map(|p| (p, true));
        return Ok(tracked.chain(new.into_iter().map(|p| (p, false))).collect());
    }
    let mut found = Vec::new();
    walk(root, root, &mut found).with_context(|| format!("cannot list {}", root.display()))?;
    Ok(found.into_iter().map(|p| (p, true)).collect())
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == ".git" || name.starts_with("target") {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, found)?;
        } else if let Ok(path) = path.strip_prefix(root) {
            found.push(path.components().map(|c| c.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/"));
        }
    }
    Ok(())
}
