//! SentencePiece's BPE as GGUF `llama` vocabularies have it: the neighbours that make the best-scored token merge first,
//! and a character that no token covers falls back to byte tokens.

use std::ops::Range;

use crate::error::Error;
use crate::merge::{Pairs, Symbols};
use crate::space_breaks::SpaceBreaks;
use crate::vocab::Vocab;

pub(crate) struct Spm {
    /// `[id]`: 0 for the highest score; equal scores share a rank.
    ranks: Vec<u32>,
    /// No token is longer, so longer spans need no look-up.
    longest: usize,
    /// `<0x00>` to `<0xFF>`; `None` where the vocabulary lacks some.
    bytes: Box<[Option<u32>; 256]>,
    unknown: Option<u32>,
    breaks: SpaceBreaks,
}

/// The merge rule over one text.
struct Spans<'a> {
    spm: &'a Spm,
    vocab: &'a Vocab,
    text: &'a [u8],
}

impl Pairs for Spans<'_> {
    #[inline]
    fn pair(&self, _: u32, _: u32, span: Range<usize>) -> Option<[u32; 2]> {
        if span.len() > self.spm.longest {
            return None;
        }
        let id = self.vocab.id(&self.text[span])?;
        Some([self.spm.ranks[id as usize], id])
    }
}

/// A character that is no token.
const UNCOVERED: u32 = u32::MAX;

impl Spm {
    pub fn new(vocab: &Vocab, scores: &[f32], unknown: Option<u32>) -> Result<Self, Error> {
        let mut order: Vec<u32> = (0..vocab.len() as u32).collect();
        for (id, &value) in scores.iter().enumerate() {
            if value.is_nan() {
                return Err(Error::InvalidScore { id: id as u32, value });
            }
        }
        order.sort_unstable_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
        let mut ranks = vec![0; vocab.len()];
        let mut rank = 0;
        for pair in order.windows(2) {
            // `!=` and not `total_cmp`: zero and minus zero tie.
            if scores[pair[0] as usize] != scores[pair[1] as usize] {
                rank += 1;
            }
            ranks[pair[1] as usize] = rank;
        }
        let longest = (0..vocab.len() as u32).filter_map(|id| vocab.text(id)).map(str::len).max().unwrap_or(0);
        let bytes = Box::new(std::array::from_fn(|byte| vocab.id(format!("<0x{byte:02X}>").as_bytes())));
        Ok(Spm { ranks, longest, bytes, unknown, breaks: SpaceBreaks::new(vocab) })
    }

    pub fn encode(&self, vocab: &Vocab, text: &str, symbols: &mut Symbols, out: &mut Vec<u32>) {
        self.breaks.split(text, |word| self.encode_word(vocab, word, symbols, out));
    }

    fn encode_word(&self, vocab: &Vocab, text: &str, symbols: &mut Symbols, out: &mut Vec<u32>) {
        symbols.clear();
        let mut buffer = [0; 4];
        for (start, c) in text.char_indices() {
            symbols.ids.push(vocab.id(c.encode_utf8(&mut buffer).as_bytes()).unwrap_or(UNCOVERED));
            symbols.starts.push(start as u32);
        }
        symbols.merge(&Spans { spm: self, vocab, text: text.as_bytes() }, text.len());
        for (i, &id) in symbols.ids.iter().enumerate() {
            if id != UNCOVERED {
                out.push(id);
                continue;
            }
            let start = symbols.starts[i] as usize;
            let end = symbols.starts.get(i + 1).map_or(text.len(), |&s| s as usize);
            for &byte in &text.as_bytes()[start..end] {
                out.extend(self.bytes[byte as usize].or(self.unknown));
            }
        }
    }
}
