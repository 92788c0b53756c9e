//! The invariants of the house that the compiler does not keep, checked on the source tree.
//!
//! A check is a row of `CHECKS`; what a file is allowed against a check is a row of `allow.rs`, with its reason.

mod allow;
mod layout;
mod rust;
mod source;
pub(crate) mod tree;
mod words;

use std::fmt;
use std::path::Path;

use tree::Tree;

/// Something that is not as it should be.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: String,
    /// From 1; 0 where the whole file is meant.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Where checks put what they find.
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn add(&mut self, path: &str, line: usize, message: impl Into<String>) {
        self.0.push(Finding { path: path.to_owned(), line, message: message.into() });
    }
}

type Check = fn(&Tree, &mut Findings);

/// Every check, with what it keeps.
static CHECKS: &[(&str, Check)] = &[
    ("number formats are matched on in dtype only", rust::number_formats),
    ("architectures are named in arch only", rust::architecture_names),
    ("every unsafe block says why it is sound", rust::unsafe_reasons),
    ("crates that need no unsafe code forbid it", layout::unsafe_forbidden),
    ("nothing is left for later", rust::unfinished),
    ("one file of engine and of cli knows a backend", rust::backends),
    ("retired words stay away", words::retired),
    ("every file says what it is for", rust::first_line),
    ("files stay short enough to read", rust::length),
    ("crates depend in one direction", layout::dependencies),
    ("every crate has the workspace's lints", layout::lints),
    ("no path of a machine, no name of a registry's host", layout::places),
    ("links in documents lead somewhere", layout::links),
    ("the C headers are of what the library exports", crate::c_header::check),
    ("the repository stays small", layout::size),
];

/// Runs every check on the tree at `root`.
pub fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let mut findings = Findings(Vec::new());
    for (_, check) in CHECKS {
        check(&tree, &mut findings);
    }
    allow::unused(&tree, &mut findings);
    findings.0.sort();
    findings.0.dedup();
    Ok(findings.0)
}

/// What is checked, for people.
pub fn promises() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|(promise, _)| *promise)
}
