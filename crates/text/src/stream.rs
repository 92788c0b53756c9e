//! Token ids to text one at a time, never emitting half a character.

use std::fmt;
use std::sync::Arc;

use crate::tokenizer::Inner;

/// A stream of text from a stream of token ids.
pub struct Detokenizer {
    inner: Arc<Inner>,
    /// Bytes of a character that has begun and not ended: at most three between calls.
    pending: Vec<u8>,
    /// The next text is the first, and encoding would have put a space before it.
    strip_space: bool,
    keep_special: bool,
}

impl Detokenizer {
    pub(crate) fn new(inner: Arc<Inner>, at_start: bool) -> Self {
        let strip_space = at_start && inner.decode.strip_leading_space;
        Detokenizer { inner, pending: Vec::new(), strip_space, keep_special: false }
    }

    /// Whether special tokens appear as their text; off at first.
    #[must_use]
    pub fn keep_special(mut self, keep: bool) -> Self {
        self.keep_special = keep;
        self
    }

    /// The characters that `id` completes; empty where it completes none.
    pub fn push(&mut self, id: u32) -> String {
        let mut text = String::new();
        self.push_to(id, &mut text);
        text
    }

    /// As [`Self::push`], appending to `text`.
    pub fn push_to(&mut self, id: u32, text: &mut String) {
        let special = self.inner.vocab.kind(id).is_special();
        if special && !self.keep_special {
            return;
        }
        let mut bytes = self.inner.vocab.piece(id);
        if self.strip_space && !bytes.is_empty() {
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
            self.strip_space = false;
        }
        if self.pending.is_empty() {
            // Nearly every token is whole characters.
            match std::str::from_utf8(bytes) {
                Ok(whole) => return text.push_str(whole),
                Err(_) => self.pending.extend_from_slice(bytes),
            }
        } else {
            self.pending.extend_from_slice(bytes);
        }
        let rest = take_whole(&self.pending, text);
        self.pending.drain(..self.pending.len() - rest);
    }

    /// What is left at the end: U+FFFD where the ids stopped inside a character. The stream may then be used again,
    /// as a continuation.
    pub fn flush(&mut self) -> String {
        let mut text = String::new();
        self.flush_to(&mut text);
        text
    }

    pub(crate) fn flush_to(&mut self, text: &mut String) {
        if !self.pending.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            self.pending.clear();
        }
    }
}

impl fmt::Debug for Detokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detokenizer").field("pending", &self.pending).finish_non_exhaustive()
    }
}

/// Appends the characters of `bytes` to `text`, U+FFFD for what cannot be one, and returns how many bytes at the end
/// may still become one.
fn take_whole(bytes: &[u8], text: &mut String) -> usize {
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(whole) => {
                text.push_str(whole);
                return 0;
            }
            Err(error) => {
                let (whole, tail) = rest.split_at(error.valid_up_to());
                text.push_str(&String::from_utf8_lossy(whole));
                match error.error_len() {
                    Some(bad) => {
                        text.push(char::REPLACEMENT_CHARACTER);
                        rest = &tail[bad..];
                    }
                    None => return tail.len(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_lossy_conversion_would_give_them_however_they_are_cut() {
        let samples: [&[u8]; 6] = [
            b"plain",
            "é中🚀".as_bytes(),
            &[0xff, b'a', 0xc3],
            &[0xf0, 0x9f, 0x9a],
            &[0xe4, 0xb8, b'x', 0x80],
            &[0xed, 0xa0, 0x80],
        ];
        for sample in samples {
            for size in 1..=sample.len() {
                let mut pending: Vec<u8> = Vec::new();
                let mut text = String::new();
                for chunk in sample.chunks(size) {
                    pending.extend_from_slice(chunk);
                    let rest = take_whole(&pending, &mut text);
                    assert!(rest < 4);
                    pending.drain(..pending.len() - rest);
                }
                if !pending.is_empty() {
                    text.push(char::REPLACEMENT_CHARACTER);
                }
                assert_eq!(text, String::from_utf8_lossy(sample), "{sample:?} by {size}");
            }
        }
    }
}
