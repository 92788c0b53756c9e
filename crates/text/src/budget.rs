//! How much work a text may cost, when a stranger wrote the tokenizer's rules.
//!
//! Forty replacements can each double a text, and a pattern can look ahead over all of it from every character. Every
//! stage spends what it reads, writes and looks up. Real vocabularies spend a few steps for each byte.

use std::cell::Cell;

use akunu_limits::{Limits, over};

use crate::error::Error;

/// What even the shortest text may cost, where a byte of any may cost 64 steps, which is the default. The costliest real
/// rules, decompositions of Hangul read again by four more normalizers, need about half of that.
const BYTES_AT_LEAST: usize = 1 << 14;

/// The steps that are left.
pub(crate) struct Budget(Cell<usize>);

/// No steps are left.
#[derive(Debug)]
pub(crate) struct Spent;

impl Spent {
    /// No steps are left for `what`.
    pub fn on(self, what: &'static str, limits: &Limits) -> Error {
        Error::TooMuchWork { what, over: over!(limits, tokenizer_steps) }
    }
}

impl Budget {
    /// For work on `bytes` bytes of text.
    pub fn new(bytes: usize, limits: &Limits) -> Self {
        let steps = usize::try_from(limits.tokenizer_steps).unwrap_or(usize::MAX);
        Budget(Cell::new(bytes.saturating_add(BYTES_AT_LEAST).saturating_mul(steps)))
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
