//! SentencePiece's precompiled character map: a double-array trie from byte sequences to replacement texts.

use unicode_segmentation::UnicodeSegmentation;

use crate::budget::{Budget, Spent};
use crate::error::Error;

/// Real keys are under 20 bytes; a crafted trie may have cycles.
const MAX_KEY_BYTES: usize = 64;

pub(crate) struct Charsmap {
    /// Darts double-array units: label in bits 0..8, leaf flag in bit 8, offset in bits 10..31 (shifted where bit 9 is set);
    /// a value unit has bit 31 set.
    units: Vec<u32>,
    /// Replacement texts, each ended by a zero byte.
    replacements: Vec<u8>,
}

impl Charsmap {
    /// `blob` is the size of the trie in bytes (little-endian u32), the trie, the replacements.
    pub fn new(blob: &[u8]) -> Result<Self, Error> {
        let (size, rest) =
            blob.split_first_chunk::<4>().ok_or(Error::InvalidCharsmap("it is shorter than its header"))?;
        let size = u32::from_le_bytes(*size) as usize;
        if size > rest.len() || !size.is_multiple_of(4) || size == 0 {
            return Err(Error::InvalidCharsmap("its table does not fit"));
        }
        let (trie, replacements) = rest.split_at(size);
        if std::str::from_utf8(replacements).is_err() {
            return Err(Error::InvalidCharsmap("its replacements are not UTF-8"));
        }
        let units = trie.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        Ok(Charsmap { units, replacements: replacements.to_vec() })
    }

    fn unit(&self, index: usize) -> u32 {
        self.units.get(index).copied().unwrap_or(0)
    }

    fn offset(unit: u32) -> usize {
        ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
    }

    /// The keys that `text` starts with, shortest first: their lengths and their replacements' places.
    fn prefixes(&self, text: &[u8]) -> impl Iterator<Item = (usize, usize)> {
        let mut node = Self::offset(self.unit(0));
        let mut bytes = text.iter().take(MAX_KEY_BYTES).enumerate();
        std::iter::from_fn(move || {
            loop {
                let (i, &byte) = bytes.next()?;
                node ^= byte as usize;
                let unit = self.unit(node);
                // A value unit has bit 31 set and so never equals a label.
                if byte == 0 || unit & (1 << 31 | 0xff) != u32::from(byte) {
                    bytes = [].iter().take(0).enumerate();
                    return None;
                }
                node ^= Self::offset(unit);
                if unit >> 8 & 1 == 1 {
                    return Some((i + 1, (self.unit(node) & !(1 << 31)) as usize));
                }
            }
        })
    }

    fn replacement(&self, at: usize, budget: &Budget) -> Result<&str, Spent> {
        let tail = self.replacements.get(at..).unwrap_or_default();
        let end = tail.iter().position(|&b| b == 0).unwrap_or(tail.len());
        budget.spend(end)?;
        // Checked whole in `new`; a crafted offset may still fall inside a character.
        Ok(std::str::from_utf8(&tail[..end]).unwrap_or_default())
    }

    /// As SentencePiece does: from left to right, the longest key wins.
    pub fn apply(&self, text: &str, budget: &Budget) -> Result<String, Spent> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let used = match self.prefixes(rest.as_bytes()).last() {
                Some((length, at)) if rest.is_char_boundary(length) => {
                    out.push_str(self.replacement(at, budget)?);
                    length
                }
                _ => {
                    out.push(first);
                    first.len_utf8()
                }
            };
            rest = &rest[used..];
        }
        Ok(out)
    }

    /// As HF's library does: a short grapheme is looked up whole, then its characters one by one, and the first key
    /// that fits replaces all that was looked up.
    pub fn apply_to_graphemes(&self, text: &str, budget: &Budget) -> Result<String, Spent> {
        let mut out = String::with_capacity(text.len());
        for grapheme in text.graphemes(true) {
            if grapheme.len() < 6
                && let Some((_, at)) = self.prefixes(grapheme.as_bytes()).next()
            {
                out.push_str(self.replacement(at, budget)?);
                continue;
            }
            for (start, c) in grapheme.char_indices() {
                match self.prefixes(&grapheme.as_bytes()[start..start + c.len_utf8()]).next() {
                    Some((_, at)) => out.push_str(self.replacement(at, budget)?),
                    None => out.push(c),
                }
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use akunu_limits::Limits;

    use super::*;

    #[test]
    fn damaged_maps_are_refused_and_odd_ones_are_harmless() {
        for blob in [&[][..], &[1, 0], &[8, 0, 0, 0, 1], &[3, 0, 0, 0, 1, 2, 3], &[0, 0, 0, 0]] {
            assert!(Charsmap::new(blob).is_err(), "{blob:?}");
        }
        // Every byte is a child and a leaf whose value points nowhere.
        let mut blob = 1024u32.to_le_bytes().to_vec();
        for byte in 0..256u32 {
            blob.extend((byte | 1 << 8 | 0x7f_ffff << 10).to_le_bytes());
        }
        let text = "any text, é and 🚀";
        let out = Charsmap::new(&blob).unwrap().apply(text, &Budget::new(text.len(), &Limits::default())).unwrap();
        assert!(out.len() <= text.len());
    }
}
