//! Byte-level vocabularies without merges: a token's number is its rank, and the pair that makes the lowest is merged first.

use std::ops::Range;
use std::sync::OnceLock;

use akunu_limits::Limits;

use crate::budget::Budget;
use crate::byte_level;
use crate::error::Error;
use crate::hash::{Arena, TextTable};
use crate::merge::{Pairs, Symbols};
use crate::pre_names::GPT2;
use crate::split::{Step, split};

/// A vocabulary of byte strings by rank, such as Whisper's ggml files have.
pub struct Ranked {
    tokens: Arena,
    /// Made when something is encoded: decoding does without.
    ranks: OnceLock<TextTable>,
    steps: Vec<Step>,
    limits: Limits,
}

/// Longer tokens are no pairs: to find the parts of a token is to encode its bytes.
const MAX_TOKEN: usize = 256;

/// The merge rule over one word: the ranks below a limit.
struct Below<'a> {
    ranks: &'a TextTable,
    tokens: &'a Arena,
    word: &'a [u8],
    limit: u32,
}

impl Pairs for Below<'_> {
    fn pair(&self, _: u32, _: u32, span: Range<usize>) -> Option<[u32; 2]> {
        let rank = self.ranks.get(self.tokens, &self.word[span]).filter(|&rank| rank < self.limit)?;
        Some([rank, rank])
    }
}

impl Ranked {
    pub fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let mut arena = Arena::default();
        tokens.for_each(|token| arena.push(token));
        Ok(Self { tokens: arena, ranks: OnceLock::new(), steps: vec![Step::pattern(GPT2)?], limits: Limits::default() })
    }

    /// The same vocabulary, encoding within `limits`.
    pub fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.len() == 0
    }

    /// The bytes a token stands for; empty outside the vocabulary.
    pub fn bytes(&self, id: u32) -> &[u8] {
        if (id as usize) < self.len() { self.tokens.get(id as usize) } else { &[] }
    }

    fn ranks(&self) -> &TextTable {
        self.ranks.get_or_init(|| {
            let mut ranks = TextTable::with_capacity(self.len());
            for rank in (0..self.len()).filter(|&rank| !self.tokens.get(rank).is_empty()) {
                // The lower rank wins where a token is there twice.
                ranks.insert(&self.tokens, rank as u32);
            }
            ranks
        })
    }

    /// The tokens of a text. Bytes that no token has are left out.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut out = Vec::new();
        let mut symbols = Symbols::default();
        let words = split(&self.steps, text, true, &Budget::new(text.len(), &self.limits), &mut |word| {
            let word = word.as_bytes();
            self.merge(word, u32::MAX, &mut symbols);
            let ends = symbols.starts.iter().skip(1).map(|&start| start as usize).chain([word.len()]);
            let parts = symbols.starts.iter().zip(ends).map(|(&start, end)| &word[start as usize..end]);
            out.extend(parts.filter_map(|part| self.ranks().get(&self.tokens, part)));
            Ok(())
        });
        words.map_err(|spent| spent.on("this text", &self.limits))?;
        Ok(out)
    }

    /// The same vocabulary as byte-level BPE has it: the tokens as text, and the merges, best first. What lower ranks make
    /// two parts of, a merge makes one.
    pub fn as_byte_pairs(&self) -> (Vec<String>, Vec<String>) {
        let text = |bytes: &[u8]| bytes.iter().map(|b| byte_level::char_of(*b)).collect::<String>();
        let known = |part: &[u8]| self.ranks().get(&self.tokens, part).is_some();
        let mut symbols = Symbols::default();
        let mut merges = Vec::new();
        for rank in 0..self.len() {
            let token = self.tokens.get(rank);
            if token.len() > MAX_TOKEN {
                continue;
            }
            self.merge(token, rank as u32, &mut symbols);
            if let [_, cut] = symbols.starts[..] {
                let (left, right) = token.split_at(cut as usize);
                if known(left) && known(right) {
                    merges.push(format!("{} {}", text(left), text(right)));
                }
            }
        }
        ((0..self.len()).map(|rank| text(self.tokens.get(rank))).collect(), merges)
    }

    /// Leaves where parts of a word begin once all ranks below `limit` are merged in `symbols.starts`.
    fn merge(&self, word: &[u8], limit: u32, symbols: &mut Symbols) {
        symbols.clear();
        // Only places in the word count, not the ids of what is there.
        symbols.ids.resize(word.len(), 0);
        symbols.starts.extend(0..word.len() as u32);
        symbols.merge(&Below { ranks: self.ranks(), tokens: &self.tokens, word, limit }, word.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rank_is_merged_first() {
        let tokens = ["a", "b", "c", " ", "bc", "ab", " a", "abc"];
        let ranked = Ranked::new(tokens.iter().map(|t| t.as_bytes())).unwrap();
        assert_eq!(ranked.encode("abc").unwrap(), [7]);
        assert_eq!(ranked.encode("ab").unwrap(), [5]);
        assert_eq!(ranked.encode("abc abx").unwrap(), [7, 3, 5]);
        assert_eq!(ranked.bytes(6), b" a");
        assert_eq!(ranked.bytes(99), b"");
    }

    #[test]
    fn merges_follow_from_ranks() {
        let tokens = ["a", "b", "c", " ", "bc", "ab", " a", "abc"];
        let ranked = Ranked::new(tokens.iter().map(|t| t.as_bytes())).unwrap();
        let (tokens, merges) = ranked.as_byte_pairs();
        assert_eq!(tokens, ["a", "b", "c", "Ġ", "bc", "ab", "Ġa", "abc"]);
        assert_eq!(merges, ["b c", "a b", "Ġ a", "a bc"]);
    }
}
