//! WordPiece: the longest token that fits, from left to right.

use crate::budget::{Budget, Spent};
use crate::vocab::Vocab;

pub(crate) struct WordPiece {
    /// Written before a token that starts a word: `▁` in GGUF, nothing in tokenizer.json.
    pub start: String,
    /// Written before a token that goes on in a word: nothing in GGUF, `##` in tokenizer.json.
    pub inside: String,
    pub unknown: u32,
    /// Longer words are unknown.
    pub max_chars: usize,
    /// The longest token, in bytes.
    pub longest: usize,
}

impl WordPiece {
    pub fn encode(&self, vocab: &Vocab, word: &str, budget: &Budget, out: &mut Vec<u32>) -> Result<(), Spent> {
        if word.chars().nth(self.max_chars).is_some() {
            out.push(self.unknown);
            return Ok(());
        }
        let kept = out.len();
        let mut key = String::new();
        let mut at = 0;
        while at < word.len() {
            key.clear();
            key.push_str(if at == 0 { &self.start } else { &self.inside });
            let prefix = key.len();
            let end = word.len().min(word.floor_char_boundary(at + self.longest));
            key.push_str(&word[at..end]);
            let mut steps = 0;
            let found = loop {
                // Inside a word, what looks like the start of one is a character that happens to be the mark.
                if key.len() == prefix || at > 0 && !self.start.is_empty() && key.starts_with(&self.start) {
                    break None;
                }
                steps += 1 + key.len() / 8; // A look-up reads the key eight bytes at a time.
                if let Some(id) = vocab.id(key.as_bytes()) {
                    break Some(id);
                }
                key.pop();
            };
            budget.spend(steps)?;
            match found {
                Some(id) => {
                    out.push(id);
                    at += key.len() - prefix;
                }
                None => {
                    out.truncate(kept);
                    out.push(self.unknown);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// A token's text without the space that no one writes before it.
pub(crate) fn clean_up(text: &str) -> String {
    const REPLACEMENTS: [(&str, &str); 10] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    REPLACEMENTS.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
