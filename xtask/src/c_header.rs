//! `cargo xtask header`: the C headers, written by cbindgen from `crates/capi`. Each ends with a mark of what it was made from, so
//! that tidy sees one that is old or was edited without having cbindgen.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tidy::Findings;
use crate::tidy::tree::Tree;

/// Headers, and cbindgen's configuration for each.
const HEADERS: [(&str, &str); 2] =
    [("include/akunu/types.h", "crates/capi/types.toml"), ("include/akunu/akunu.h", "crates/capi/functions.toml")];

/// Writes the headers.
pub fn write(root: &Path) -> Result<bool> {
    let tree = Tree::read(root)?;
    let sources = sources(&tree);
    for (header, config) in HEADERS {
        let path = root.join(header);
        let cbindgen = Command::new("cbindgen")
            .args(["--quiet", "--config"])
            .arg(root.join(config))
            .arg("--output")
            .arg(&path)
            .arg(root.join("crates/capi"))
            .output()
            .context("cbindgen could not be run; install it with `cargo install cbindgen`")?;
        ensure!(cbindgen.status.success(), "cbindgen: {}", String::from_utf8_lossy(&cbindgen.stderr));
        let text = fs::read_to_string(&path)?;
        let config = tree.text(config).unwrap_or_default();
        fs::write(&path, format!("{text}{}", mark(&sources, config, &text)))?;
    }
    Ok(true)
}

/// The files whose items headers declare.
fn sources(tree: &Tree) -> String {
    let of_crate = |path: &str| path.starts_with("crates/capi/src/") && path.ends_with(".rs");
    let mut files: Vec<_> = tree.files.iter().filter(|file| of_crate(&file.path)).collect();
    files.sort_by_key(|file| &file.path);
    files.iter().filter_map(|file| file.text.as_deref()).collect()
}

/// Errs where a header is not the one that `write` would write.
pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    let sources = sources(tree);
    for (header, config) in HEADERS {
        let text = tree.text(header).unwrap_or_default();
        let body = text.trim_end().rfind('\n').map_or("", |end| &text[..=end]);
        if text[body.len()..] != mark(&sources, tree.text(config).unwrap_or_default(), body) {
            findings.add(header, 0, "is not of these declarations: run `cargo xtask header`");
        }
    }
}

/// The last line of a header that is what cbindgen made of these declarations with this configuration.
fn mark(sources: &str, config: &str, header: &str) -> String {
    format!("/* of {:016x}, itself {:016x} */\n", hash(&(declarations(sources) + config)), hash(header))
}

/// What a header depends on: exported constants, types and signatures with their comments, without the bodies of functions.
fn declarations(sources: &str) -> String {
    let exported = |line: &str| {
        let item =
            ["pub const AKUNU_", "pub type akunu_", "pub struct akunu_"].iter().any(|start| line.starts_with(start));
        item || line.starts_with("pub ") && line.contains("extern \"C\" fn akunu_")
    };
    let (mut found, mut before, mut inside) = (String::new(), String::new(), false);
    for line in sources.lines().map(|line| line.to_owned() + "\n") {
        if !inside && !exported(&line) {
            // Comments and attributes are those of the item that follows.
            if line.starts_with("///") || line.starts_with("#[") {
                before += &line
            } else {
                before.clear()
            }
            continue;
        }
        found += &std::mem::take(&mut before);
        found += &line;
        let body = line.trim_end().ends_with('{') && !line.starts_with("pub struct");
        inside = !(body || line.trim_end().ends_with(';') || line.starts_with('}'));
    }
    found
}

/// FNV-1a: the same everywhere and always.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
//! About the file.
/// One.
pub const AKUNU_ONE: u32 = 1;
/// Private.
const TWO: u32 = 2;
/// A struct.
#[repr(C)]
pub struct akunu_thing {
    /// A field.
    pub id: u64,
}
/// A call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_call(
    thing: akunu_thing,
) -> akunu_status {
    call(|| thing.id)
}
"#;

    #[test]
    fn a_header_depends_on_what_is_exported() {
        let of = |source: &str| mark(source, "", "");
        for (from, to) in
            [("One.", "Two."), ("= 1", "= 3"), ("A field", "Field"), ("id: u64", "id: u32"), ("A call", "Call")]
        {
            assert_ne!(of(SOURCE), of(&SOURCE.replace(from, to)), "{from}");
        }
        assert_ne!(of(SOURCE), of(&SOURCE.replace("thing: akunu_thing", "other: akunu_thing")));
        for (from, to) in
            [("= 2", "= 3"), ("Private", "Hidden"), ("call(|| thing.id)", "call(|| 0)"), ("the file", "it")]
        {
            assert_eq!(of(SOURCE), of(&SOURCE.replace(from, to)), "{from}");
        }
        assert_ne!(of(SOURCE), mark(SOURCE, "line_length = 1", ""));
        assert_ne!(of(SOURCE), mark(SOURCE, "", "edited"));
    }
}
