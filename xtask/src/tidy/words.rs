//! Words that the house has retired, and what to say instead.
//!
//! A row is for a word that means nothing else where the row looks: add it with the commit that removes its last use.

use super::Findings;
use super::source::is_word;
use super::tree::Tree;

/// Retired, what is said instead, and the folders it is looked for in; none: everywhere. Case does not matter; a word is found
/// as a whole, a phrase within a line. Spelled in two halves, so that this file does not find itself.
#[rustfmt::skip]
static RETIRED: &[(&str, &str, &[&str])] = &[
    (concat!("util", "s"), "what it is", &[]),
    (concat!("help", "ers"), "what they are", &[]),
    (concat!("man", "ager"), "what it does", &[]),
    (concat!("who comes ", "first"), "work stealing", &[]),
    (concat!("what memory ", "gives"), "memory bandwidth", &[]),
    (concat!("in a loud ", "hour"), "noisy machine", &[]),
    (concat!("built and ", "left out"), "not adopted", &[]),
    (concat!("he", "aring"), "audio encoder", &[]),
    (concat!("he", "ar"), "encode", &[]),
    (concat!("he", "ars"), "encodes", &[]),
    (concat!("he", "ard"), "encoded", &[]),
    (concat!("by ", "turns"), "interleaved", &[]),
    (concat!("first-level ", "cache"), "L1", &[]),
    (concat!("gue", "ss"), "draft", DECODING),
    (concat!("gue", "sses"), "drafts", DECODING),
    (concat!("gue", "ssed"), "drafted", DECODING),
    (concat!("un", "taken"), "steal", &[]),
    (concat!("dots", "fn"), "GemmFn", &[]),
];

/// Elsewhere the word is arithmetic's.
const DECODING: &[&str] = &["crates/engine/", "crates/cli/", "docs/"];

/// Measurements stay as they were written.
const OUTSIDE: &str = "bench/runs/";

pub(crate) fn retired(tree: &Tree, findings: &mut Findings) {
    let ours = |path: &str| (path.ends_with(".rs") || path.ends_with(".md")) && !path.starts_with(OUTSIDE);
    for file in tree.files.iter().filter(|f| ours(&f.path)) {
        for (i, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
            let line = line.to_lowercase();
            let here = |under: &[&str]| under.is_empty() || under.iter().any(|folder| file.path.starts_with(folder));
            for (word, instead, _) in RETIRED.iter().filter(|(word, _, under)| here(under) && has_word(&line, word)) {
                findings.add(&file.path, i + 1, format!("says {word:?}: the word is {instead:?}"));
            }
        }
    }
}

/// `word` with nothing of a word before and after it.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_word) && !line[at + word.len()..].starts_with(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::File;

    #[test]
    fn a_retired_word_is_found_as_a_whole_in_code_comments_and_documents() {
        let word = RETIRED[0].0;
        let text = format!("a {word} b\n{}s x\nmod {};\n// x_{word}\n", word, word.to_uppercase());
        for (path, lines) in
            [("a.rs", vec![1, 3]), ("docs/a.md", vec![1, 3]), ("a.txt", vec![]), ("bench/runs/a.md", vec![])]
        {
            let files = vec![File { path: path.into(), bytes: 0, tracked: true, text: Some(text.clone()) }];
            let mut findings = Findings(Vec::new());
            retired(&Tree { root: Default::default(), files, rust: Vec::new() }, &mut findings);
            assert_eq!(findings.0.iter().map(|f| f.line).collect::<Vec<_>>(), lines, "{path}");
        }
    }

    #[test]
    fn a_word_that_is_another_elsewhere_is_found_in_its_folders() {
        let (word, _, under) = RETIRED.iter().find(|row| !row.2.is_empty()).unwrap();
        for (path, count) in [(format!("{}a.rs", under[0]), 1), ("elsewhere/a.rs".into(), 0)] {
            let files = vec![File { path, bytes: 0, tracked: true, text: Some(format!("a {word} b\n")) }];
            let mut findings = Findings(Vec::new());
            retired(&Tree { root: Default::default(), files, rust: Vec::new() }, &mut findings);
            assert_eq!(findings.0.len(), count);
        }
    }
}
