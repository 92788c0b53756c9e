//! Checks of Rust sources, line by line.

use akunu_arch::FAMILIES;

use super::Findings;
use super::allow::{self, LONG, Of};
use super::source::{Source, is_word};
use super::tree::Tree;

const FORMAT: &str = "DType::";

/// Data about formats may be anywhere; decisions by format are kernels of `dtype`, or rows of a table.
pub(crate) fn number_formats(tree: &Tree, findings: &mut Findings) {
    for source in tree.rust.iter().filter(|s| !s.path.starts_with("crates/dtype/")) {
        for (number, line) in source.outside_tests(&source.code) {
            for (at, _) in line.match_indices(FORMAT) {
                let rest = &line[at + FORMAT.len()..];
                let name_len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let (name, after) = rest.split_at(name_len);
                // Functions are lower case.
                let constant = name.starts_with(|c: char| c.is_ascii_uppercase());
                let (before, after) = (line[..at].trim_end(), after.trim_start());
                let decides = before.ends_with("==")
                    || before.ends_with("!=")
                    || after.starts_with("==")
                    || after.starts_with("!=")
                    || after.contains("=>")
                    || before.contains("matches!(");
                let what = format!("{FORMAT}{name}");
                if constant && decides && !allow::allowed(Of::NumberFormat, &source.path, &what) {
                    findings.add(&source.path, number, format!("decides by {what}: only dtype and tables may"));
                }
            }
        }
    }
}

/// Descriptors carry what sets families apart; whoever asks for a name instead has found a missing field.
pub(crate) fn architecture_names(tree: &Tree, findings: &mut Findings) {
    let outside = |s: &&Source| !s.path.starts_with("crates/arch/") && !s.path.starts_with("fixtures/");
    for source in tree.rust.iter().filter(outside) {
        for (number, line) in source.outside_tests(&source.code_and_strings) {
            for name in FAMILIES.iter().map(|f| f.name) {
                if mentions(line, name) && !allow::allowed(Of::Architecture, &source.path, name) {
                    findings.add(&source.path, number, format!("names the architecture {name}: only arch may"));
                }
            }
        }
    }
}

/// The one file of engine and cli that names backends.
const BACKENDS: &str = "crates/engine/src/backend.rs";

/// A backend is behind `plan`'s traits: what names its crate cannot run on another.
pub(crate) fn backends(tree: &Tree, findings: &mut Findings) {
    let folders = ["crates/engine/src/", "crates/cli/src/"];
    let inside = |s: &&Source| folders.iter().any(|f| s.path.starts_with(f)) && s.path != BACKENDS;
    for source in tree.rust.iter().filter(inside) {
        for (number, line) in source.outside_tests(&source.code) {
            if ["akunu_cpu", "akunu_metal"].iter().any(|backend| mentions(line, backend)) {
                findings.add(&source.path, number, format!("names a backend: only {BACKENDS} may"));
            }
        }
    }
}

/// `name` as a word of its own: not the `llama` of `llama.cpp` or `stories-llama`.
fn mentions(line: &str, name: &str) -> bool {
    let part = |c: char| is_word(c) || c == '-' || c == '.';
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        !before.ends_with(part) && !after.starts_with(part)
    })
}

/// Lines above an `unsafe` in which its reason may begin.
const REASON_ABOVE: usize = 8;

/// Clippy looks for the reasons too, but sees neither what is compiled for other machines alone nor the insides of macros.
pub(crate) fn unsafe_reasons(tree: &Tree, findings: &mut Findings) {
    for source in &tree.rust {
        for (i, line) in source.code.iter().enumerate() {
            let opens = line.match_indices("unsafe").any(|(at, word)| {
                let (before, after) = (&line[..at], line[at + word.len()..].trim_start());
                !before.ends_with(is_word) && (after.starts_with('{') || after.starts_with("impl"))
            });
            let near = &source.text[i.saturating_sub(REASON_ABOVE)..=i];
            if opens && !near.iter().any(|l| l.contains("SAFETY:")) {
                findings.add(&source.path, i + 1, "an unsafe block without a SAFETY comment");
            }
        }
    }
}

/// What clippy does not look for. Spelled in two halves, so that this file does not find itself.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("#[ig", "nore")];

pub(crate) fn unfinished(tree: &Tree, findings: &mut Findings) {
    for source in &tree.rust {
        for (i, line) in source.text.iter().enumerate() {
            if let Some(word) = UNFINISHED.iter().find(|word| line.contains(**word)) {
                findings.add(&source.path, i + 1, format!("{word}: what is not finished is absent"));
            }
        }
    }
}

pub(crate) fn first_line(tree: &Tree, findings: &mut Findings) {
    for source in &tree.rust {
        if !source.text.first().is_some_and(|line| line.starts_with("//!")) {
            findings.add(&source.path, 1, "does not begin with a //! line that says what it is for");
        }
    }
}

const LOGIC_LINES: usize = 500;
/// Kernels are long where they are unrolled; tests are tables.
const KERNEL_LINES: usize = 800;

pub(crate) fn length(tree: &Tree, findings: &mut Findings) {
    for source in &tree.rust {
        let kernels = ["/kernels/", "crates/gemm/", "crates/simd/"].iter().any(|folder| source.path.contains(folder));
        let kernel = kernels || source.tests_from == 0;
        let table = LONG.iter().find(|row| row.0 == source.path).map(|row| row.1);
        let most = table.unwrap_or(if kernel { KERNEL_LINES } else { LOGIC_LINES });
        if source.text.len() > most {
            findings.add(&source.path, 0, format!("has {} lines; {most} are the most", source.text.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(check: fn(&Tree, &mut Findings), path: &str, text: &str) -> Vec<usize> {
        let rust = vec![Source::new(path, text)];
        let mut findings = Findings(Vec::new());
        check(&Tree { root: Default::default(), files: Vec::new(), rust }, &mut findings);
        findings.0.iter().map(|f| f.line).collect()
    }

    #[test]
    fn deciding_by_a_number_format_is_found_and_naming_one_is_not() {
        let text = "let a = [DType::Q4_0, DType::Q8_0];\nif x == DType::Q4_0 {}\nmatch x {\nDType::F16 => 1,\n}\n\
                    matches!(x, DType::F32 | DType::F16);\nDType::from_name(x) == y\n// x == DType::Q4_0\n\
                    #[cfg(test)]\nassert!(x == DType::F32);\n";
        assert_eq!(found(number_formats, "crates/cpu/src/a.rs", text), [2, 4, 6, 6]);
        assert!(found(number_formats, "crates/dtype/src/a.rs", text).is_empty());
    }

    #[test]
    fn architectures_are_found_in_code_and_strings_as_whole_words() {
        let text =
            "if name == \"qwen3\" {}\n// gemma3\nlet x = \"llama.cpp\";\nlet llama = 1;\nlet y = \"stories-llama\";\n";
        assert_eq!(found(architecture_names, "crates/plan/src/a.rs", text), [1, 4]);
        assert!(found(architecture_names, "crates/arch/src/a.rs", text).is_empty());
        assert!(found(architecture_names, "crates/plan/tests/a.rs", text).is_empty());
    }

    #[test]
    fn a_backend_is_named_in_one_file() {
        let text = "use akunu_cpu::Cpu;\n// akunu_cpu\nakunu_cpu::Level::detect();\nmy_akunu_cpu();\n";
        assert_eq!(found(backends, "crates/engine/src/a.rs", text), [1, 3]);
        assert!(found(backends, BACKENDS, text).is_empty() && found(backends, "xtask/src/a.rs", text).is_empty());
    }

    #[test]
    fn unsafe_needs_a_reason_near_it() {
        let far = "\n".repeat(REASON_ABOVE + 1);
        let text = format!("// SAFETY: checked.\nunsafe {{ f() }}\n{far}unsafe {{ g() }}\nunsafe fn h();\n");
        assert_eq!(found(unsafe_reasons, "crates/cpu/src/a.rs", &text), [3 + REASON_ABOVE + 1]);
    }

    #[test]
    fn a_file_without_a_purpose_and_one_too_long_are_found() {
        assert_eq!(found(first_line, "a.rs", "use x;\n"), [1]);
        assert_eq!(found(length, "a.rs", &"x\n".repeat(501)), [0]);
        assert!(found(length, "crates/cpu/src/kernels/a.rs", &"x\n".repeat(501)).is_empty());
    }
}
