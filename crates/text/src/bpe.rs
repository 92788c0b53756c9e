//! Byte-pair encoding of one word: over bytes (GPT-2 and its heirs) or over characters with byte fallback.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::byte_level;
use crate::error::{Error, excerpt};
use crate::hash::{Arena, PairTable, TextTable};
use crate::merge::{Pairs, Symbols};
use crate::space_breaks::SpaceBreaks;
use crate::vocab::{TokenKind, Vocab};

/// No token.
const NONE: u32 = u32::MAX;

/// What a word is cut into before merging.
pub(crate) enum Unit {
    /// `[byte]`: its token, or `NONE`.
    Bytes(Box<[u32; 256]>),
    /// Characters; one that has no token falls back to the tokens of its bytes, then to the unknown token.
    Chars { bytes: Option<Box<[u32; 256]>>, unknown: Option<u32>, fuse_unknown: bool },
}

pub(crate) struct Bpe {
    /// Whole words to tokens: over the bytes that tokens stand for, or over their texts where words are characters.
    words: TextTable,
    /// `[id]`: whether the merges make this token from its own text, found out when first asked.
    whole: Vec<AtomicU8>,
    merges: MergeTable,
    unit: Unit,
    /// A word that is a token is that token, whatever the merges would make of it.
    ignore_merges: bool,
    /// Where words of characters may be cut. Not where whole words count, nor where unknown characters fuse across.
    breaks: Option<SpaceBreaks>,
}

const UNTRIED: u8 = 0;
const MERGES_TO_ITSELF: u8 = 1;
const SPLITS: u8 = 2;

/// `[left, right]` to `[rank, merged]`.
pub(crate) struct MergeTable(PairTable);

impl Pairs for MergeTable {
    #[inline]
    fn pair(&self, left: u32, right: u32, _: Range<usize>) -> Option<[u32; 2]> {
        self.0.get([left, right])
    }
}

impl MergeTable {
    /// `merges` are pairs of token texts, best first.
    pub fn new<'a>(vocab: &Vocab, merges: impl ExactSizeIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let mut table = PairTable::with_capacity(merges.len());
        let mut joined = Vec::new();
        for (rank, (left, right)) in merges.enumerate() {
            joined.clear();
            joined.extend_from_slice(left.as_bytes());
            joined.extend_from_slice(right.as_bytes());
            let id = |text: &[u8]| {
                vocab.id(text).ok_or_else(|| Error::UnknownMergeToken {
                    index: rank,
                    text: excerpt(&format!("{} {}", excerpt(left), excerpt(right))),
                    token: excerpt(&String::from_utf8_lossy(text)),
                })
            };
            table.insert([id(left.as_bytes())?, id(right.as_bytes())?], [rank as u32, id(&joined)?]);
        }
        Ok(MergeTable(table))
    }
}

impl Bpe {
    pub fn new(vocab: &Vocab, merges: MergeTable, unit: Unit, ignore_merges: bool) -> Self {
        let mut words = TextTable::with_capacity(vocab.len());
        for id in 0..vocab.len() as u32 {
            let arena = arena(vocab, &unit);
            if vocab.kind(id) == TokenKind::Normal && !arena.get(id as usize).is_empty() {
                words.insert(arena, id);
            }
        }
        let whole = (0..vocab.len()).map(|_| AtomicU8::new(UNTRIED)).collect();
        let breaks = match &unit {
            Unit::Chars { bytes: Some(_), .. } if !ignore_merges => Some(SpaceBreaks::new(vocab)),
            _ => None,
        };
        Bpe { words, whole, merges, unit, ignore_merges, breaks }
    }

    /// The token of every byte in a byte-level vocabulary.
    pub fn byte_symbols(vocab: &Vocab) -> Box<[u32; 256]> {
        let mut ids = Box::new([NONE; 256]);
        for byte in 0..=255u8 {
            let mut text = [0; 4];
            if let Some(id) = vocab.id(byte_level::char_of(byte).encode_utf8(&mut text).as_bytes()) {
                ids[byte as usize] = id;
            }
        }
        ids
    }

    /// The tokens `<0x00>` to `<0xFF>`, where all 256 are there.
    pub fn fallback_symbols(vocab: &Vocab) -> Option<Box<[u32; 256]>> {
        let mut ids = Box::new([NONE; 256]);
        for byte in 0..=255u8 {
            ids[byte as usize] = vocab.id(format!("<0x{byte:02X}>").as_bytes())?;
        }
        Some(ids)
    }

    pub fn encode(&self, vocab: &Vocab, word: &str, symbols: &mut Symbols, out: &mut Vec<u32>) {
        match &self.breaks {
            Some(breaks) => breaks.split(word, |word| self.encode_word(vocab, word, symbols, out)),
            None => self.encode_word(vocab, word, symbols, out),
        }
    }

    #[inline]
    fn encode_word(&self, vocab: &Vocab, word: &str, symbols: &mut Symbols, out: &mut Vec<u32>) {
        let Some(id) = self.words.get(arena(vocab, &self.unit), word.as_bytes()) else {
            self.merge(vocab, word, symbols);
            out.extend_from_slice(&symbols.ids);
            return;
        };
        if self.ignore_merges {
            out.push(id);
            return;
        }
        // Relaxed: the flag is a remembered answer, computed alike by every thread.
        let flag = &self.whole[id as usize];
        match flag.load(Ordering::Relaxed) {
            MERGES_TO_ITSELF => out.push(id),
            known => {
                self.merge(vocab, word, symbols);
                if known == UNTRIED {
                    let answer = if symbols.ids == [id] { MERGES_TO_ITSELF } else { SPLITS };
                    flag.store(answer, Ordering::Relaxed);
                }
                out.extend_from_slice(&symbols.ids);
            }
        }
    }

    fn merge(&self, vocab: &Vocab, word: &str, symbols: &mut Symbols) {
        symbols.clear();
        match &self.unit {
            Unit::Bytes(ids) => {
                symbols.ids.extend(word.bytes().map(|b| ids[b as usize]).filter(|&id| id != NONE));
            }
            Unit::Chars { bytes, unknown, fuse_unknown } => {
                let mut after_unknown = false;
                let mut buffer = [0; 4];
                for c in word.chars() {
                    let text = c.encode_utf8(&mut buffer).as_bytes();
                    if let Some(id) = vocab.id(text) {
                        symbols.ids.push(id);
                        after_unknown = false;
                    } else if let Some(bytes) = bytes {
                        symbols.ids.extend(text.iter().map(|&b| bytes[b as usize]));
                        after_unknown = false;
                    } else if let Some(unknown) = *unknown {
                        if !(after_unknown && *fuse_unknown) {
                            symbols.ids.push(unknown);
                        }
                        after_unknown = true;
                    }
                }
            }
        }
        symbols.merge(&self.merges, word.len());
    }
}

/// What words are compared with.
#[inline]
fn arena<'v>(vocab: &'v Vocab, unit: &Unit) -> &'v Arena {
    match unit {
        Unit::Bytes(_) => vocab.pieces(),
        Unit::Chars { .. } => vocab.texts(),
    }
}
