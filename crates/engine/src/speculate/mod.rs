//! Guessing ahead: several tokens verified in one step, kept as far as they are right.
//!
//! A guess is right where it is the token that the sampler chooses from the model's logits at that place. Draws are
//! functions of seed and index (see `sample`), so that the text is the same token for token with and without guesses,
//! greedy or sampled; guesses only change how many steps it takes.

mod draft;
mod ngram;
mod pace;

pub use draft::Draft;
use ngram::Ngrams;
use pace::Pace;
use std::time::Duration;

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

/// The guesses of one generation, from its own text.
pub(crate) struct Speculator {
    ngrams: Ngrams,
    pace: Pace,
    guess: Vec<u32>,
    /// How sure the guess is, where there is one.
    class: usize,
    /// How much of it is tried.
    tried: usize,
}

impl Speculator {
    pub fn new(speculation: Speculation) -> Option<Self> {
        match speculation {
            Speculation::Off => None,
            Speculation::Ngram => {
                let (ngrams, pace) = (Ngrams::default(), Pace::default());
                Some(Self { ngrams, pace, guess: Vec::new(), class: 0, tried: 0 })
            }
        }
    }

    /// Guesses at what follows `tokens`, as many as are worth trying.
    pub fn guess(&mut self, tokens: &[u32], most: usize) -> &[u32] {
        let matched = self.ngrams.guess(tokens, most.min(MOST_GUESSES), &mut self.guess);
        self.class = pace::class(matched);
        self.tried = self.pace.best(self.class, self.guess.len());
        &self.guess[..self.tried]
    }

    /// Learns what became of the last guess: the tokens that were chosen, how many rows the step had, and how long it took.
    pub fn learn(&mut self, chosen: &[u32]) {
        // Also where nothing was tried: whether it would have been right costs nothing to know.
        let right = self.guess.iter().zip(chosen).take_while(|(a, b)| a == b).count();
        let seen = self.guess.len().min(chosen.len()).min(self.tried.max(1));
        self.pace.guessed(self.class, right.min(seen), seen);
        self.guess.clear();
        self.tried = 0;
    }

    pub fn took(&mut self, rows: usize, time: Duration) {
        self.pace.took(rows, time);
    }
}
