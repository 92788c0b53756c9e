//! How much work a text may cost, when a stranger wrote the tokenizer's rules.
//!
//! Forty replacements can each double a text, and a pattern can look ahead over all of it from every character. Every
//! stage spends what it reads, writes and looks up. Real vocabularies spend a few steps for each byte.

use std::cell::Cell;

/// Steps for each byte of the text. The costliest real rules, decompositions of Hangul read again by four more
/// normalizers, need about half.
const STEPS_PER_BYTE: usize = 64;
/// What even the shortest text may cost.
const STEPS_AT_LEAST: usize = 1 << 20;

/// The steps that are left.
pub(crate) struct Budget(Cell<usize>);

/// No steps are left.
#[derive(Debug)]
pub(crate) struct Spent;

impl Budget {
    /// For work on `bytes` bytes of text.
    pub fn new(bytes: usize) -> Self {
        Budget(Cell::new(bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS_AT_LEAST)))
    }

    #[inline]
    pub fn spend(&self, steps: usize) -> Result<(), Spent> {
        self.0.set(self.0.get().checked_sub(steps).ok_or(Spent)?);
        Ok(())
    }

    /// The text that `chars` make, as long as there are steps for its bytes.
    pub fn collect(&self, mut chars: impl Iterator<Item = char>) -> Result<String, Spent> {
        let most = self.0.get();
        let mut text = String::with_capacity(chars.size_hint().0);
        chars.try_for_each(|c| {
            text.push(c);
            if text.len() > most { Err(Spent) } else { Ok(()) }
        })?;
        self.spend(text.len())?;
        Ok(text)
    }
}
