//! What is remembered while one pattern goes over one text, so that looking ahead costs each part of the text once.

use crate::budget::Budget;
use crate::hash::PairTable;

/// Matches that end, or fail, within so many bytes are not worth remembering; of longer ones, one state in so many bytes is.
pub(super) const FAR: usize = 32;

/// From a state at a position the automaton finds a match or not, whichever way it got there. An attempt that read far and
/// found nothing leaves its states behind, and the next one that meets one of them stops.
pub(crate) struct Scan<'t> {
    pub(super) text: &'t str,
    pub(super) budget: &'t Budget,
    /// `[state, position / FAR]`: no match ends after the first character that starts there.
    failed: Option<PairTable>,
    /// The same of the attempt under way, since its last match.
    trail: Vec<[u32; 2]>,
}

impl<'t> Scan<'t> {
    pub fn new(text: &'t str, budget: &'t Budget) -> Self {
        Scan { text, budget, failed: None, trail: Vec::new() }
    }

    /// Whether nothing more is found from `state` at the first character of a block.
    pub(super) fn is_known_to_fail(&mut self, state: u32, block: usize) -> bool {
        let key = [state, block as u32]; // 2^32 blocks are more than any text has.
        if self.failed.as_ref().is_some_and(|failed| failed.get(key).is_some()) {
            return true;
        }
        self.trail.push(key);
        false
    }

    /// The attempt has found a match: what led there did not fail.
    pub(super) fn matched(&mut self) {
        self.trail.clear();
    }

    /// The attempt finds no more.
    pub(super) fn failed(&mut self) {
        for key in self.trail.drain(..) {
            self.failed.get_or_insert_with(|| PairTable::with_capacity(0)).insert(key, [0; 2]);
        }
    }
}
