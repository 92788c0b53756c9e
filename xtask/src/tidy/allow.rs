//! What is allowed against a check: a file, what it may do, and why.

use super::Findings;
use super::tree::Tree;

/// Which check a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    NumberFormat,
    Architecture,
    Place,
}

pub(crate) struct Allow {
    pub of: Of,
    /// A file, or all under a folder where it ends in `/`.
    pub path: &'static str,
    /// What may be written there; empty: anything.
    pub what: &'static str,
    pub reason: &'static str,
}

const fn row(of: Of, path: &'static str, what: &'static str, reason: &'static str) -> Allow {
    Allow { of, path, what, reason }
}

#[rustfmt::skip]
static ALLOWED: &[Allow] = &[
    row(Of::NumberFormat, "crates/cpu/src/kernels/attention/mod.rs", "", "how keys and values are read, by the format of the KV cache: a row a format"),
    row(Of::NumberFormat, "crates/cpu/src/kernels/kv_cache/mod.rs", "", "how keys and values are written, by the format of the KV cache: a row a format"),
    row(Of::NumberFormat, "crates/formats/src/mlx.rs", "DType::U32", "packed words are told from weights by the container's own type, not by a number format"),
    row(Of::NumberFormat, "crates/gemm/src/gemm.rs", "DType::F16", "once per tile: which of two 2-byte types the side planes of an affine weight have"),
    row(Of::Architecture, "crates/convert/src/tokenizer.rs", "", "GGUF names tokenizers after models: these are a tokenizer's names"),
    row(Of::Architecture, "crates/formats/src/ggml.rs", "", "the container holds one architecture and does not name it"),
    row(Of::Architecture, "crates/hub/src/catalog.rs", "", "packages are named after models"),
    row(Of::Architecture, "xtask/src/main.rs", "", "chores are named after the peers they measure against"),
    row(Of::Architecture, "crates/text/src/", "", "GGUF names tokenizers after models: these are a tokenizer's names"),
];

/// Files that are tables, longer than logic may be, with the lines they may have.
#[rustfmt::skip]
pub(crate) static LONG: &[(&str, usize)] = &[];

pub(crate) fn allowed(of: Of, path: &str, what: &str) -> bool {
    ALLOWED.iter().any(|row| row.of == of && covers(row.path, path) && (row.what.is_empty() || row.what == what))
}

fn covers(row: &str, path: &str) -> bool {
    if row.ends_with('/') { path.starts_with(row) } else { row == path }
}

/// A row for a file that is gone allows it to whoever takes its name.
pub(crate) fn unused(tree: &Tree, findings: &mut Findings) {
    let rows = ALLOWED.iter().map(|row| (row.path, row.reason)).chain(LONG.iter().map(|row| (row.0, "a table")));
    for (path, reason) in rows {
        if !tree.files.iter().any(|file| covers(path, &file.path)) {
            findings.add("xtask/src/tidy/allow.rs", 0, format!("allows {path} ({reason}), which is not there"));
        }
    }
}
