//! Speculative decoding: several drafted tokens verified in one step, kept as far as they are accepted.
//!
//! A drafted token is accepted where the sampler chooses it from the model's logits at that position. Draws are
//! functions of seed and index (see `sample`), so that the text is the same token for token with and without drafts,
//! greedy or sampled; drafts only change how many steps it takes.

mod draft;
mod ngram;
mod pace;
mod tree;

pub use draft::Draft;
use ngram::Ngrams;
use pace::Pace;
use std::time::Duration;
pub(crate) use tree::Tree;

/// Where drafts come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speculation {
    /// No drafts.
    #[default]
    Off,
    /// What followed the last few tokens before, in the prompt or the answer, where it is measured to save time.
    Ngram,
    /// The same, whether it saves time or not: the steps do not depend on the machine.
    NgramAlways,
}

/// The most tokens drafted at once: with the token before them, a small batch.
pub(crate) const MAX_DRAFT: usize = 15;

/// Other drafts than the likeliest, and how many tokens they have.
const BRANCHES: usize = 2;
const BRANCH_LEN: usize = 2;
/// Tokens of a draft that is verified whatever it costs.
const ALWAYS: usize = 4;

/// The drafts of one generation, from its own text.
pub(crate) struct Speculator {
    always: bool,
    ngrams: Ngrams,
    pace: Pace,
    draft: Vec<u32>,
    others: Vec<Vec<u32>>,
    /// How sure the draft is, where there is one.
    class: usize,
    /// How much of it is verified.
    verified: usize,
}

impl Speculator {
    pub fn new(speculation: Speculation) -> Option<Self> {
        match speculation {
            Speculation::Off => None,
            Speculation::Ngram | Speculation::NgramAlways => Some(Self {
                always: speculation == Speculation::NgramAlways,
                ngrams: Ngrams::default(),
                pace: Pace::default(),
                draft: Vec::new(),
                others: Vec::new(),
                class: 0,
                verified: 0,
            }),
        }
    }

    /// Drafts what follows `tokens`, as much as is worth verifying; with branches where they have `places`.
    pub fn draft(&mut self, tokens: &[u32], most: usize, places: usize, tree: &mut Tree) {
        let most = most.min(MAX_DRAFT);
        let matched = self.ngrams.find(tokens, most, &mut self.draft, BRANCHES, &mut self.others);
        self.class = pace::class(matched);
        self.verified = match self.always {
            true => self.draft.len().min(ALWAYS),
            false => self.pace.best(self.class, self.draft.len()),
        };
        tree.clear();
        tree.add(&self.draft[..self.verified]);
        for other in &self.others {
            let other = &other[..other.len().min(BRANCH_LEN)];
            let fits = self.verified + other.len() <= most.min(places);
            let worth = self.always || self.pace.branches(self.class, tree.len() + 1, other.len());
            if self.verified > 0 && fits && worth {
                tree.add(other);
            }
        }
        if tree.len() > most.min(places) {
            tree.keep_chain();
        }
    }

    /// Learns from the chosen tokens how much of the last draft they accept.
    pub fn learn(&mut self, chosen: &[u32]) {
        // Also where nothing was verified: whether it would have been accepted costs nothing to know.
        let accepted = self.draft.iter().zip(chosen).take_while(|(a, b)| a == b).count();
        let seen = self.draft.len().min(chosen.len()).min(self.verified.max(1));
        self.pace.record_verified(self.class, accepted.min(seen), seen);
        if let Some(first) = chosen.first().filter(|_| accepted == 0 && !self.others.is_empty()) {
            self.pace.record_branch(self.others.iter().any(|other| other.first() == Some(first)));
        }
        self.draft.clear();
        self.verified = 0;
    }

    pub fn record_step(&mut self, rows: usize, time: Duration) {
        self.pace.record_step(rows, time);
    }
}
