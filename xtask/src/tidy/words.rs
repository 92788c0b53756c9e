//! Words that the house has retired, and what to say instead.
//!
//! A row is for a word that means nothing else here and is gone from the whole tree: add it with the commit that removes
//! its last use.

use super::Findings;
use super::source::is_word;
use super::tree::Tree;

/// Retired, and what is said instead. Case does not matter; a word is found as a whole, a phrase within a line. Spelled in
/// two halves, so that this file does not find itself.
#[rustfmt::skip]
static RETIRED: &[(&str, &str)] = &[
    (concat!("who comes ", "first"), "work stealing"),
    (concat!("util", "s"), "what it is"),
    (concat!("help", "ers"), "what they are"),
    (concat!("man", "ager"), "what it does"),
    (concat!("un", "taken"), "steal"),
    (concat!("dots", "fn"), "GemmFn"),
];

/// Measurements stay as they were written.
const OUTSIDE: &str = "bench/runs/";

pub(crate) fn retired(tree: &Tree, findings: &mut Findings) {
    let ours = |path: &str| (path.ends_with(".rs") || path.ends_with(".md")) && !path.starts_with(OUTSIDE);
    for file in tree.files.iter().filter(|f| ours(&f.path)) {
        for (i, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
            let line = line.to_lowercase();
            for (word, instead) in RETIRED.iter().filter(|(word, _)| has_word(&line, word)) {
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
        let word = RETIRED[1].0;
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
}
