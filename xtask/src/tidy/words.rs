//! Check of the words that documents use: the field's own, as ARCHITECTURE.md's glossary has them.

use super::Findings;
use super::tree::Tree;

/// Retired words, and what to say instead. Lower case; they are found where a word begins.
#[rustfmt::skip]
static RETIRED: &[(&str, &str)] = &[
    ("first-level cache", "L1"),
    ("second-level cache", "L2"),
    ("third-level cache", "L3"),
    ("what memory gives", "memory bandwidth"),
    ("guess", "draft, speculative decoding"),
    ("what was heard", "what was encoded"),
    ("the model hears", "the model encodes"),
    ("by turns", "interleaved"),
    ("loud hour", "noisy machine"),
    ("quiet hour", "quiet cores"),
    ("built and left out", "not adopted"),
    ("who comes first", "work stealing"),
    ("form of activations", "activation layout"),
];

pub(crate) fn retired(tree: &Tree, findings: &mut Findings) {
    // Runs are what a program wrote on its day.
    let documents = tree.files.iter().filter(|f| f.path.ends_with(".md") && !f.path.starts_with("bench/runs/"));
    for file in documents {
        for (i, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
            let line = line.to_lowercase();
            for (word, instead) in RETIRED {
                let begins =
                    |&(at, _): &(usize, &str)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                if line.match_indices(word).any(|place| begins(&place)) {
                    findings.add(&file.path, i + 1, format!("says {word:?}: the word is {instead}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::File;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let files = vec![File { path: path.into(), bytes: 0, tracked: true, text: Some(text.to_owned()) }];
        let mut findings = Findings(Vec::new());
        retired(&Tree { root: "no such folder".into(), files, rust: Vec::new() }, &mut findings);
        findings.0.iter().map(|f| f.line).collect()
    }

    #[test]
    fn retired_words_are_found_in_documents_where_they_begin() {
        let text = "Guesses cost little.\nA draft is verified.\nLines that restrip.\nIn a Loud hour.\n";
        assert_eq!(found("docs/a.md", text), [1, 4]);
        assert!(found("bench/runs/a/b.md", text).is_empty());
        assert!(found("crates/a/src/a.rs", text).is_empty());
    }
}
