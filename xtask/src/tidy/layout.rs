//! Checks of what surrounds the code: crates, documents, and what is in the repository at all.

use std::path::Path;

use super::Findings;
use super::allow::{self, Of};
use super::tree::Tree;

/// What each crate of ours may be built from, besides itself; tests may use more.
static MAY_DEPEND: &[(&str, &[&str])] = &[
    ("crates/dtype", &[]),
    ("crates/limits", &[]),
    ("crates/formats", &["akunu-dtype", "akunu-limits"]),
    ("crates/arch", &["akunu-dtype", "akunu-formats"]),
    ("crates/plan", &["akunu-arch", "akunu-dtype", "akunu-formats"]),
    ("crates/simd", &["akunu-dtype"]),
    ("crates/gemm", &["akunu-dtype", "akunu-simd"]),
    ("crates/cpu", &["akunu-dtype", "akunu-gemm", "akunu-plan", "akunu-simd"]),
    ("crates/metal", &["akunu-dtype", "akunu-plan"]),
    ("crates/metal/emulator", &["akunu-metal", "akunu-plan"]),
    ("crates/text", &["akunu-formats", "akunu-limits"]),
    ("crates/audio", &["akunu-limits"]),
    ("crates/convert", &["akunu-arch", "akunu-dtype", "akunu-formats", "akunu-limits", "akunu-text"]),
    ("crates/hub", &[]),
    ("crates/testkit", &["akunu-arch", "akunu-dtype", "akunu-formats", "akunu-limits", "akunu-plan"]),
    (
        "crates/engine",
        &[
            "akunu-arch",
            "akunu-audio",
            "akunu-cpu",
            "akunu-dtype",
            "akunu-formats",
            "akunu-limits",
            "akunu-metal",
            "akunu-plan",
            "akunu-text",
        ],
    ),
    // No backend: those are the engine's.
    (
        "crates/cli",
        &[
            "akunu",
            "akunu-arch",
            "akunu-audio",
            "akunu-convert",
            "akunu-dtype",
            "akunu-formats",
            "akunu-hub",
            "akunu-plan",
            "akunu-server",
            "akunu-text",
        ],
    ),
    ("crates/capi", &["akunu"]),
    ("crates/python", &["akunu", "akunu-cli", "akunu-hub", "akunu-text"]),
    ("fuzz", &["akunu", "akunu-arch", "akunu-audio", "akunu-formats", "akunu-testkit", "akunu-text"]),
    ("crates/server", &["akunu", "akunu-audio", "akunu-formats", "akunu-text"]),
    ("xtask", &["akunu", "akunu-arch", "akunu-audio", "akunu-convert", "akunu-hub", "akunu-text"]),
];

pub(crate) fn dependencies(tree: &Tree, findings: &mut Findings) {
    for file in tree.files.iter().filter(|f| f.path.ends_with("/Cargo.toml")) {
        let folder = file.path.trim_end_matches("/Cargo.toml");
        let Some((_, allowed)) = MAY_DEPEND.iter().find(|row| row.0 == folder) else {
            findings.add(&file.path, 0, "a crate without a row in xtask/src/tidy/layout.rs");
            continue;
        };
        let mut section = "";
        for (i, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
            if line.starts_with('[') {
                section = line.trim();
                continue;
            }
            let counts = section == "[dependencies]"
                || section == "[build-dependencies]"
                || section.starts_with("[target.") && section.ends_with(".dependencies]");
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default().trim();
            let ours = name == "akunu" || name.starts_with("akunu-");
            if counts && ours && !allowed.contains(&name) {
                findings.add(&file.path, i + 1, format!("{folder} must not know {name}"));
            }
        }
    }
}

pub(crate) fn lints(tree: &Tree, findings: &mut Findings) {
    for file in tree.files.iter().filter(|f| f.path.ends_with("/Cargo.toml")) {
        if !file.text.as_deref().unwrap_or_default().contains("[lints]\nworkspace = true\n") {
            findings.add(&file.path, 0, "a crate without the workspace's lints");
        }
    }
}

/// Crates without any unsafe code, by the file that says so.
static FORBID_UNSAFE: &[&str] = &[
    "crates/dtype/src/lib.rs",
    "crates/arch/src/lib.rs",
    "crates/audio/src/lib.rs",
    "crates/convert/src/lib.rs",
    "crates/hub/src/lib.rs",
    "crates/limits/src/lib.rs",
    "crates/plan/src/lib.rs",
    "crates/server/src/lib.rs",
    "crates/testkit/src/lib.rs",
    "crates/text/src/lib.rs",
    "crates/engine/src/lib.rs",
    "crates/cli/src/lib.rs",
    "crates/cli/src/main.rs",
    "crates/python/src/lib.rs",
    "fuzz/src/lib.rs",
    "xtask/src/lib.rs",
    "xtask/src/main.rs",
];

pub(crate) fn unsafe_forbidden(tree: &Tree, findings: &mut Findings) {
    for path in FORBID_UNSAFE {
        let text = tree.text(path).unwrap_or_default();
        if !text.lines().any(|line| line == "#![forbid(unsafe_code)]") {
            findings.add(path, 0, "does not forbid unsafe code");
        }
    }
}

/// Spelled in two halves, so that this file does not find itself.
static PLACES: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/o", "pt/"),
    concat!("pypi", ".org"),
    concat!("python", "hosted"),
    concat!("npm", "js"),
    concat!("crates", ".io"),
];

pub(crate) fn places(tree: &Tree, findings: &mut Findings) {
    // Cargo itself names its registry in the lock file.
    for file in tree.files.iter().filter(|f| f.path != "Cargo.lock") {
        for (i, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
            let found = PLACES.iter().find(|place| contains_place(line, place));
            if let Some(place) = found.filter(|place| !allow::allowed(Of::Place, &file.path, place)) {
                findings.add(&file.path, i + 1, format!("names a place of one machine or registry: {place}"));
            }
        }
    }
}

/// A folder counts where a path begins with it.
fn contains_place(line: &str, place: &str) -> bool {
    let inside_path = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '~');
    line.match_indices(place).any(|(at, _)| !place.starts_with('/') || !line[..at].ends_with(inside_path))
}

pub(crate) fn links(tree: &Tree, findings: &mut Findings) {
    for file in tree.files.iter().filter(|f| f.path.ends_with(".md")) {
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        let mut fenced = false;
        for (i, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            for (at, open) in line.match_indices("](").filter(|_| !fenced) {
                let rest = &line[at + open.len()..];
                let target = rest.split([')', ' ', '#']).next().unwrap_or_default();
                let outside = target.contains("://") || target.starts_with("mailto:") || target.is_empty();
                if !outside && !tree.root.join(folder).join(target).exists() {
                    findings.add(&file.path, i + 1, format!("a link to {target}, which is not there"));
                }
            }
        }
    }
}

const MAX_BYTES: u64 = 40_000_000;

pub(crate) fn size(tree: &Tree, findings: &mut Findings) {
    let bytes: u64 = tree.files.iter().filter(|f| f.tracked).map(|f| f.bytes).sum();
    if bytes > MAX_BYTES {
        findings.add(".", 0, format!("the repository's files have {bytes} bytes; {MAX_BYTES} are the most"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::File;

    fn found(check: fn(&Tree, &mut Findings), path: &str, text: &str) -> Vec<String> {
        let text = Some(text.to_owned());
        let files = vec![File { path: path.into(), bytes: 0, tracked: true, text }];
        let mut findings = Findings(Vec::new());
        check(&Tree { root: "no such folder".into(), files, rust: Vec::new() }, &mut findings);
        findings.0.into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn a_crate_that_looks_up_is_found_and_its_tests_may() {
        let text = "[dependencies]\nakunu-plan.workspace = true\n[dev-dependencies]\nakunu-cpu.workspace = true\n";
        assert_eq!(found(dependencies, "crates/arch/Cargo.toml", text), ["crates/arch must not know akunu-plan"]);
        assert_eq!(found(dependencies, "crates/new/Cargo.toml", text).len(), 1);
        let target = "[target.'cfg(unix)'.dependencies]\nakunu-text = { path = \"../text\" }\n";
        assert_eq!(found(dependencies, "crates/plan/Cargo.toml", target).len(), 1);
    }

    #[test]
    fn a_crate_with_lints_of_its_own_is_found() {
        assert_eq!(found(lints, "crates/a/Cargo.toml", "[lints]\nworkspace = true\n").len(), 0);
        assert_eq!(found(lints, "crates/a/Cargo.toml", "[lints.rust]\nunused = \"allow\"\n").len(), 1);
    }

    #[test]
    fn places_are_found_where_a_path_begins() {
        let machine = format!("see {}x and ./a{}y", PLACES[0], PLACES[0]);
        assert_eq!(found(places, "a.md", &machine).len(), 1);
        assert!(found(places, "a.md", &format!("a{}y", PLACES[0])).is_empty());
        assert_eq!(found(places, "a.md", &format!("https://{}", PLACES[5])).len(), 1);
        assert!(found(places, "Cargo.lock", PLACES[8]).is_empty());
    }

    #[test]
    fn a_dead_link_is_found_outside_of_code() {
        let text = "[a](gone.md#x) [b](https://example.com)\n```\n[c](gone.md)\n```\n";
        assert_eq!(found(links, "docs/a.md", text), ["a link to gone.md, which is not there"]);
    }
}
