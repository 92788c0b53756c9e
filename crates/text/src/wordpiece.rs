//! WordPiece: the longest token that fits, from left to right.

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
    pub fn encode(&self, vocab: &Vocab, word: &str, out: &mut Vec<u32>) {
        if word.chars().nth(self.max_chars).is_some() {
            out.push(self.unknown);
            return;
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
            let found = loop {
                if key.len() == prefix {
                    break None;
                }
                if let Some(id) = vocab.id(key.as_bytes()) {
                    break Some(id);
                }
                key.pop();
            };
            match found {
                Some(id) => {
                    out.push(id);
                    at += key.len() - prefix;
                }
                None => {
                    out.truncate(kept);
                    out.push(self.unknown);
                    return;
                }
            }
        }
    }
}
