//! Unigram: the way to cut a text into tokens whose scores add up highest, found by dynamic programming over a trie.

use crate::budget::{Budget, Spent};
use crate::error::Error;
use crate::hash::PairTable;
use crate::vocab::{TokenKind, Vocab};

/// Tokens longer than this are refused: each position of a text may walk the trie this far.
const MAX_UNIGRAM_BYTES: usize = 1 << 10;
const NONE: u32 = u32::MAX;
/// How much worse than the worst token an unknown character is.
const UNKNOWN_PENALTY: f64 = 10.0;

pub(crate) struct Unigram {
    /// `[node, byte]` to `[node, token or NONE]`.
    trie: PairTable,
    scores: Vec<f64>,
    unknown: u32,
    unknown_score: f64,
    /// `<0x00>` to `<0xFF>`, where unknown characters are written in bytes.
    bytes: Option<Box<[u32; 256]>>,
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
        let mut trie = PairTable::with_capacity(vocab.len());
        let mut nodes = 1u32;
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
            let mut node = 0;
            for (i, byte) in text.bytes().enumerate() {
                let key = [node, u32::from(byte)];
                let [child, token] = trie.get(key).unwrap_or_else(|| {
                    nodes += 1;
                    [nodes - 1, NONE]
                });
                let token = if i + 1 == text.len() { id } else { token };
                trie.insert(key, [child, token]);
                node = child;
            }
        }
        let unknown_score = if lowest.is_finite() { lowest } else { 0.0 } - UNKNOWN_PENALTY;
        Ok(Unigram { trie, scores, unknown, unknown_score, bytes })
    }

    pub fn encode(&self, text: &str, budget: &Budget, out: &mut Vec<u32>) -> Result<(), Spent> {
        let bytes = text.as_bytes();
        let mut best = vec![Step { score: f64::NEG_INFINITY, from: 0, token: self.unknown }; bytes.len() + 1];
        best[0].score = 0.0;
        for (start, c) in text.char_indices() {
            let here = best[start].score;
            let mut covered = false;
            let mut node = 0;
            let mut steps = 1;
            for (i, &byte) in bytes[start..].iter().enumerate() {
                let Some([child, token]) = self.trie.get([node, u32::from(byte)]) else { break };
                node = child;
                steps += 1;
                if token == NONE {
                    continue;
                }
                covered |= i + 1 == c.len_utf8();
                let score = here + self.scores[token as usize];
                let reached = &mut best[start + i + 1];
                if score > reached.score {
                    *reached = Step { score, from: start, token };
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
