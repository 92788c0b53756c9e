//! Byte-level vocabularies without merges: a token's number is its rank, and the pair that makes the lowest is merged first.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::byte_level;
use crate::error::Error;
use crate::pre_names::GPT2;
use crate::split::{Step, split};

/// A vocabulary of byte strings by rank, such as Whisper's ggml files have.
pub struct Ranked {
    tokens: Vec<Box<[u8]>>,
    /// Made when something is encoded: decoding does without.
    ranks: OnceLock<HashMap<Box<[u8]>, u32>>,
    steps: Vec<Step>,
}

/// No longer word is looked at whole: merging is quadratic in it.
const MAX_WORD: usize = 256;

impl Ranked {
    pub fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let steps = vec![Step::pattern(GPT2)?];
        Ok(Self { tokens: tokens.map(Into::into).collect(), ranks: OnceLock::new(), steps })
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The bytes a token stands for; empty outside the vocabulary.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.tokens.get(id as usize).map_or(&[], |t| t)
    }

    fn ranks(&self) -> &HashMap<Box<[u8]>, u32> {
        self.ranks.get_or_init(|| {
            let by_rank = self.tokens.iter().enumerate().filter(|(_, t)| !t.is_empty());
            // The lower rank wins where a token is there twice.
            by_rank.rev().map(|(rank, token)| (token.clone(), rank as u32)).collect()
        })
    }

    /// The tokens of a text. Bytes that no token has are left out.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let ranks = self.ranks();
        let mut out = Vec::new();
        split(&self.steps, text, true, &mut |word| {
            for word in word.as_bytes().chunks(MAX_WORD) {
                let cuts = merge(ranks, word, u32::MAX);
                out.extend(cuts.windows(2).filter_map(|part| ranks.get(&word[part[0]..part[1]])));
            }
        });
        out
    }

    /// The same vocabulary as byte-level BPE has it: the tokens as text, and the merges, best first. What lower ranks make
    /// two parts of, a merge makes one.
    pub fn as_byte_pairs(&self) -> (Vec<String>, Vec<String>) {
        let text = |bytes: &[u8]| bytes.iter().map(|b| byte_level::char_of(*b)).collect::<String>();
        let ranks = self.ranks();
        let pair = |(rank, token): (usize, &[u8])| {
            let cuts = merge(ranks, &token[..token.len().min(MAX_WORD)], rank as u32);
            let [_, cut, end] = cuts[..] else { return None };
            let parts = [&token[..cut], &token[cut..]];
            let known = end == token.len() && parts.iter().all(|p| ranks.contains_key(*p));
            known.then(|| format!("{} {}", text(parts[0]), text(parts[1])))
        };
        let merges = self.tokens.iter().map(|t| &**t).enumerate().filter_map(pair).collect();
        (self.tokens.iter().map(|t| text(t)).collect(), merges)
    }
}

/// Where parts of a word begin once all ranks below `limit` are merged, and where the last one ends.
fn merge(ranks: &HashMap<Box<[u8]>, u32>, word: &[u8], limit: u32) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..=word.len()).collect();
    while cuts.len() > 2 {
        let joined = |i: usize| ranks.get(&word[cuts[i]..cuts[i + 2]]).map(|rank| (*rank, i));
        let best = (0..cuts.len() - 2).filter_map(joined).min().filter(|(rank, _)| *rank < limit);
        let Some((_, at)) = best else { break };
        cuts.remove(at + 1);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rank_is_merged_first() {
        let tokens = ["a", "b", "c", " ", "bc", "ab", " a", "abc"];
        let ranked = Ranked::new(tokens.iter().map(|t| t.as_bytes())).unwrap();
        assert_eq!(ranked.encode("abc"), [7]);
        assert_eq!(ranked.encode("ab"), [5]);
        assert_eq!(ranked.encode("abc abx"), [7, 3, 5]);
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
