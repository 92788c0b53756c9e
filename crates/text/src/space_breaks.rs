//! Where a text written with `▁` for spaces may be cut without changing how it is encoded.
//!
//! SentencePiece-like vocabularies see a whole text as one word. Yet a merge can only ever make tokens of the
//! vocabulary: between a character and a `▁` that no token has side by side, nothing merges. Nearly every word of
//! ordinary text starts at such a place, and short words are much cheaper to merge.

use std::collections::HashSet;

use crate::vocab::Vocab;

pub(crate) const SPACE: char = '▁';

pub(crate) struct SpaceBreaks {
    /// The characters that some token has before a `▁`.
    joined: HashSet<char>,
}

impl SpaceBreaks {
    pub fn new(vocab: &Vocab) -> Self {
        let mut joined = HashSet::new();
        for text in (0..vocab.len() as u32).filter_map(|id| vocab.text(id)) {
            for (at, _) in text.match_indices(SPACE) {
                joined.extend(text[..at].chars().next_back());
            }
        }
        SpaceBreaks { joined }
    }

    /// Gives `sink` the words of `text`, which together are `text`.
    pub fn split<'t>(&self, text: &'t str, mut sink: impl FnMut(&'t str)) {
        let mut start = 0;
        for (at, _) in text.match_indices(SPACE) {
            if at > start && text[..at].chars().next_back().is_some_and(|c| !self.joined.contains(&c)) {
                sink(&text[start..at]);
                start = at;
            }
        }
        if start < text.len() {
            sink(&text[start..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use akunu_limits::Limits;

    use super::*;
    use crate::vocab::{Entry, TokenKind};

    #[test]
    fn cuts_only_where_no_token_reaches_across() {
        let texts = ["a", "▁", "▁▁", "▁a", "b▁c"];
        let entries = texts.iter().map(|text| Entry { text, kind: TokenKind::Normal });
        let breaks = SpaceBreaks::new(&Vocab::new(entries, &Limits::default(), |_, _| Ok(Vec::new())).unwrap());
        let mut words = Vec::new();
        breaks.split("▁a▁a▁▁ab▁c▁x▁", |word| words.push(word));
        assert_eq!(words, ["▁a", "▁a", "▁▁ab▁c", "▁x", "▁"]);
    }
}
