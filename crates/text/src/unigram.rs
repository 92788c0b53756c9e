//! Unigram: the way to cut a text into tokens whose scores add up highest, found by dynamic programming over a trie.

use crate::budget::{Budget, Spent};
use crate::error::Error;
use crate::hash::{Arena, PairTable};
use crate::vocab::{TokenKind, Vocab};

/// Tokens longer than this are refused: each position of a text may walk the trie this far.
const MAX_UNIGRAM_BYTES: usize = 1 << 10;
const NONE: u32 = u32::MAX;
/// How much worse than the worst token an unknown character is.
const UNKNOWN_PENALTY: f64 = 10.0;

pub(crate) struct Unigram {
    trie: Trie,
    scores: Vec<f64>,
    unknown: u32,
    unknown_score: f64,
    /// `<0x00>` to `<0xFF>`, where unknown characters are written in bytes.
    bytes: Option<Box<[u32; 256]>>,
}

/// The tokens by their bytes, where a run of bytes without a choice is one step: there are at most two nodes for each token,
/// however long tokens are.
struct Trie {
    /// `[node, byte]` to `[node, token or NONE]`, the node with [`LABELLED`] where it has a label.
    edges: PairTable,
    /// `[node]`: the bytes after the first on the way there.
    labels: Vec<Label>,
}

/// Bytes among those of the vocabulary's texts.
#[derive(Clone, Copy)]
struct Label {
    at: usize,
    len: usize,
}

impl Label {
    fn of(self, texts: &[u8]) -> &[u8] {
        &texts[self.at..self.at + self.len]
    }
}

const ROOT: u32 = 0;
/// There are fewer nodes: a vocabulary has at most 2^30 tokens.
const LABELLED: u32 = 1 << 31;

/// A step down the trie.
struct Next {
    node: u32,
    len: usize,
    token: u32,
}

impl Trie {
    fn with_capacity(tokens: usize) -> Self {
        Trie { edges: PairTable::with_capacity(tokens), labels: vec![Label { at: 0, len: 0 }] }
    }

    fn node(&mut self, label: Label) -> u32 {
        self.labels.push(label);
        self.labels.len() as u32 - 1
    }

    fn link(&mut self, from: u32, byte: u8, to: u32, token: u32) {
        let mark = if self.labels[to as usize].len > 0 { LABELLED } else { 0 };
        self.edges.insert([from, byte.into()], [to | mark, token]);
    }

    fn insert(&mut self, texts: &Arena, id: u32) {
        let mut rest = texts.range(id as usize);
        let mut node = ROOT;
        loop {
            let byte = texts.bytes()[rest.start];
            rest.start += 1;
            let Some([child, token]) = self.edges.get([node, byte.into()]) else {
                let leaf = self.node(Label { at: rest.start, len: rest.len() });
                return self.link(node, byte, leaf, id);
            };
            let child = child & !LABELLED;
            let label = self.labels[child as usize];
            let alike = texts.bytes()[rest.clone()].iter().zip(label.of(texts.bytes())).take_while(|(a, b)| a == b);
            let alike = alike.count();
            rest.start += alike;
            let ends = rest.is_empty();
            if alike == label.len {
                self.link(node, byte, child, if ends { id } else { token });
                node = child;
            } else {
                // What the two have in common comes between.
                let fork = self.node(Label { len: alike, ..label });
                self.link(node, byte, fork, if ends { id } else { NONE });
                self.labels[child as usize] = Label { at: label.at + alike + 1, len: label.len - alike - 1 };
                self.link(fork, texts.bytes()[label.at + alike], child, token);
                node = fork;
            }
            if ends {
                return;
            }
        }
    }

    /// The step from `node` that `bytes` begin with.
    #[inline]
    fn next(&self, node: u32, bytes: &[u8], texts: &[u8], steps: &mut usize) -> Option<Next> {
        let (&byte, rest) = bytes.split_first()?;
        let [node, token] = self.edges.get([node, byte.into()])?;
        *steps += 1;
        if node & LABELLED == 0 {
            return Some(Next { node, len: 1, token });
        }
        let node = node & !LABELLED;
        let label = self.labels[node as usize];
        *steps += label.len;
        rest.starts_with(label.of(texts)).then_some(Next { node, len: 1 + label.len, token })
    }
}

/// The best way to reach a position.
#[derive(Clone, Copy)]
struct Step {
    score: f64,
    from: usize,
    token: u32,
}

impl Unigram {
    pub fn new(vocab: &Vocab, scores: Vec<f64>, unknown: u32, bytes: Option<Box<[u32; 256]>>) -> Result<Self, Error> {
        let mut trie = Trie::with_capacity(vocab.len());
        let mut lowest = f64::INFINITY;
        for id in 0..vocab.len() as u32 {
            let score = scores[id as usize];
            if score.is_nan() {
                return Err(Error::InvalidScore { id, value: score as f32 });
            }
            let kind = vocab.kind(id);
            if kind == TokenKind::Normal {
                lowest = lowest.min(score);
            }
            let Some(text) = vocab.text(id).filter(|t| !t.is_empty()) else { continue };
            if kind.is_special() {
                continue;
            }
            if text.len() > MAX_UNIGRAM_BYTES {
                return Err(Error::TokenTooLong { id, bytes: text.len(), max: MAX_UNIGRAM_BYTES });
            }
            trie.insert(vocab.texts(), id);
        }
        let unknown_score = if lowest.is_finite() { lowest } else { 0.0 } - UNKNOWN_PENALTY;
        Ok(Unigram { trie, scores, unknown, unknown_score, bytes })
    }

    pub fn encode(&self, vocab: &Vocab, text: &str, budget: &Budget, out: &mut Vec<u32>) -> Result<(), Spent> {
        let (bytes, labels) = (text.as_bytes(), vocab.texts().bytes());
        let mut best = vec![Step { score: f64::NEG_INFINITY, from: 0, token: self.unknown }; bytes.len() + 1];
        best[0].score = 0.0;
        for (start, c) in text.char_indices() {
            let here = best[start].score;
            let mut covered = false;
            let mut steps = 1;
            let mut node = ROOT;
            let mut end = start;
            while let Some(next) = self.trie.next(node, &bytes[end..], labels, &mut steps) {
                node = next.node;
                end += next.len;
                if next.token == NONE {
                    continue;
                }
                covered |= end == start + c.len_utf8();
                let score = here + self.scores[next.token as usize];
                let reached = &mut best[end];
                if score > reached.score {
                    *reached = Step { score, from: start, token: next.token };
                }
            }
            budget.spend(steps)?;
            if !covered {
                let reached = &mut best[start + c.len_utf8()];
                let score = here + self.unknown_score;
                if score > reached.score {
                    *reached = Step { score, from: start, token: self.unknown };
                }
            }
        }
        let kept = out.len();
        let mut at = bytes.len();
        let mut after_unknown = false;
        while at > 0 {
            let Step { from, token, .. } = best[at];
            let is_unknown = token == self.unknown;
            match &self.bytes {
                Some(ids) if is_unknown => out.extend(bytes[from..at].iter().rev().map(|&b| ids[b as usize])),
                // Neighbouring unknown characters are one unknown token.
                _ if is_unknown && after_unknown => {}
                _ => out.push(token),
            }
            after_unknown = is_unknown;
            at = from;
        }
        out[kept..].reverse();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trie_has_every_token_and_no_other_in_whatever_order_they_came() {
        let texts = ["abcdef", "abc", "abx", "a", "abcdeg", "b", "bcdefghi", "bcdefgh", "é", "èa"];
        for turn in 0..texts.len() {
            let (mut arena, mut trie) = (Arena::default(), Trie::with_capacity(0));
            let turned: Vec<&str> = texts.iter().cycle().skip(turn).take(texts.len()).copied().collect();
            for (id, text) in turned.iter().enumerate() {
                arena.push(text.as_bytes());
                trie.insert(&arena, id as u32);
            }
            assert!(trie.labels.len() <= 2 * texts.len() + 1, "{} nodes", trie.labels.len());
            for text in ["abcdefg", "abcdeg", "abxy", "bcdefghi", "bcdefgi", "éa", "èa", "c", ""] {
                let (mut node, mut end, mut found) = (ROOT, 0, Vec::new());
                while let Some(next) = trie.next(node, &text.as_bytes()[end..], arena.bytes(), &mut 0) {
                    (node, end) = (next.node, end + next.len);
                    if next.token != NONE {
                        found.push(turned[next.token as usize]);
                    }
                }
                let mut expected: Vec<&str> = texts.iter().copied().filter(|t| text.starts_with(t)).collect();
                expected.sort_by_key(|t| t.len());
                assert_eq!(found, expected, "{text}, turned by {turn}");
            }
        }
    }
}
