//! What to generate, how, and what comes of it.

use super::thoughts::{Thinking, Thoughts};
use crate::{LogProbs, SamplingOptions, Speculation};
use akunu_text::{Grammar, Matcher};

/// What to generate, and how.
///
/// ```
/// use akunu::{GenerateOptions, SamplingOptions};
///
/// let options = GenerateOptions::new()
///     .max_tokens(100)
///     .sampling(SamplingOptions { temperature: 0.8, seed: 1, ..Default::default() })
///     .stop("\n\n")
///     .logprobs(5);
/// assert_eq!(options.stop, ["\n\n"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// 0: until the model ends, or the context is full.
    pub max_tokens: usize,
    /// How tokens are chosen; the likeliest unless it says otherwise.
    pub sampling: SamplingOptions,
    /// Go on after the model's end token.
    pub ignore_eos: bool,
    /// The text ends before the first of these.
    pub stop: Vec<String>,
    /// The text ends before any of these tokens.
    pub stop_tokens: Vec<u32>,
    /// Log-probabilities of every chosen token, and of this many likeliest ones.
    pub logprobs: Option<usize>,
    /// Those that tokens were drawn by, after grammar, bias, penalties, truncation and temperature; else the model's own.
    pub sampled_logprobs: bool,
    /// When the context is full, forget the older half of what comes after this many tokens; `None`: end.
    pub context_shift: Option<usize>,
    /// The form that the text must have.
    pub grammar: Option<Grammar>,
    /// The same, compiled already: then nobody waits for that.
    pub matcher: Option<Matcher>,
    /// Whether the model thinks first: the grammar holds from where its thoughts end.
    pub thinking: Thinking,
    /// What stands around thoughts, and how many there may be.
    pub thoughts: Thoughts,
    /// Draft several tokens and verify them together: the same text in fewer steps, where drafts are accepted.
    pub speculation: Speculation,
}

impl GenerateOptions {
    /// Greedy, until the model ends.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends after so many tokens.
    #[must_use]
    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = max_tokens;
        self
    }

    /// How tokens are chosen.
    #[must_use]
    pub fn sampling(mut self, sampling: SamplingOptions) -> Self {
        self.sampling = sampling;
        self
    }

    /// 0: the likeliest token; above: a draw from the distribution at this temperature.
    #[must_use]
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.sampling.temperature = temperature;
        self
    }

    /// The same seed draws the same tokens.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.sampling.seed = seed;
        self
    }

    /// Goes on after the model's end token.
    #[must_use]
    pub fn ignore_eos(mut self, ignore: bool) -> Self {
        self.ignore_eos = ignore;
        self
    }

    /// Adds a stop string.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Adds a stop token.
    #[must_use]
    pub fn stop_token(mut self, token: u32) -> Self {
        self.stop_tokens.push(token);
        self
    }

    /// When the context is full, forgets the older half of what comes after `keep` tokens, instead of ending.
    #[must_use]
    pub fn context_shift(mut self, keep: usize) -> Self {
        self.context_shift = Some(keep);
        self
    }

    /// The text must have this form.
    #[must_use]
    pub fn grammar(mut self, grammar: Grammar) -> Self {
        self.grammar = Some(grammar);
        self
    }

    /// Lets the model think before the grammar holds.
    #[must_use]
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.thinking = thinking;
        self
    }

    /// What stands around thoughts, and how many there may be.
    #[must_use]
    pub fn thoughts(mut self, thoughts: Thoughts) -> Self {
        self.thoughts = thoughts;
        self
    }

    /// Where drafts come from.
    #[must_use]
    pub fn speculation(mut self, speculation: Speculation) -> Self {
        self.speculation = speculation;
        self
    }

    /// Log-probabilities of every chosen token, and of so many likeliest ones.
    #[must_use]
    pub fn logprobs(mut self, top: usize) -> Self {
        self.logprobs = Some(top);
        self
    }
}

/// One generated token and the text it completes: whole characters, often none.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// What was chosen.
    pub token: u32,
    /// The whole characters that it completes.
    pub text: String,
    /// Where they were asked for.
    pub logprobs: Option<LogProbs>,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model said so, a stop token came, or a grammar lets nothing follow.
    Stop,
    /// This one of [`GenerateOptions::stop`] came.
    StopString(usize),
    /// `max_tokens` are there.
    Length,
    /// The context is full.
    Context,
}
