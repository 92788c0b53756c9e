//! Guessing ahead: several tokens verified in one step, kept as far as they are right.
//!
//! A guess is right where it is the token that the sampler chooses from the model's logits at that place. Draws are
//! functions of seed and index (see `sample`), so that the text is the same token for token with and without guesses,
//! greedy or sampled; guesses only change how many steps it takes.

mod draft;
mod ngram;
mod pace;
mod tree;

pub use draft::Draft;
use ngram::Ngrams;
use pace::Pace;
use std::time::Duration;
pub(crate) use tree::Tree;

/// Where guesses come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speculation {
    /// No guesses.
    #[default]
    Off,
    /// What followed the last few tokens before, in the prompt or the answer.
    Ngram,
}

/// The most tokens guessed at once: with the token before them, a small batch.
pub(crate) const MOST_GUESSES: usize = 15;

/// Other guesses than the likeliest, and how far they reach.
const BRANCHES: usize = 2;
const BRANCH: usize = 2;

/// The guesses of one generation, from its own text.
pub(crate) struct Speculator {
    ngrams: Ngrams,
    pace: Pace,
    guess: Vec<u32>,
    others: Vec<Vec<u32>>,
    /// How sure the guess is, where there is one.
    class: usize,
    /// How much of it is tried.
    tried: usize,
}

impl Speculator {
    pub fn new(speculation: Speculation) -> Option<Self> {
        match speculation {
            Speculation::Off => None,
            Speculation::Ngram => Some(Self {
                ngrams: Ngrams::default(),
                pace: Pace::default(),
                guess: Vec::new(),
                others: Vec::new(),
                class: 0,
                tried: 0,
            }),
        }
    }

    /// Guesses at what follows `tokens`, as many as are worth trying; with branches where they have `places`.
    pub fn guess(&mut self, tokens: &[u32], most: usize, places: usize, tree: &mut Tree) {
        let most = most.min(MOST_GUESSES);
        let matched = self.ngrams.guess(tokens, most, &mut self.guess, BRANCHES, &mut self.others);
        self.class = pace::class(matched);
        self.tried = self.pace.best(self.class, self.guess.len());
        tree.clear();
        tree.add(&self.guess[..self.tried]);
        for other in &self.others {
            let other = &other[..other.len().min(BRANCH)];
            let fits = self.tried + other.len() <= most.min(places);
            if self.tried > 0 && fits && self.pace.branches(self.class, tree.len() + 1, other.len()) {
                tree.add(other);
            }
        }
        if tree.len() > most.min(places) {
            tree.keep_chain();
        }
    }

    /// Learns from the tokens that were chosen what became of the last guess.
    pub fn learn(&mut self, chosen: &[u32]) {
        // Also where nothing was tried: whether it would have been right costs nothing to know.
        let right = self.guess.iter().zip(chosen).take_while(|(a, b)| a == b).count();
        let seen = self.guess.len().min(chosen.len()).min(self.tried.max(1));
        self.pace.guessed(self.class, right.min(seen), seen);
        if let Some(first) = chosen.first().filter(|_| right == 0 && !self.others.is_empty()) {
            self.pace.branched(self.others.iter().any(|other| other.first() == Some(first)));
        }
        self.guess.clear();
        self.tried = 0;
    }

    pub fn took(&mut self, rows: usize, time: Duration) {
        self.pace.took(rows, time);
    }
}
