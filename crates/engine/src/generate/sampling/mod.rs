//! Choosing the next token: a chain of stages, then one draw.
//!
//! First, always: what a grammar forbids goes, and [`SamplingOptions::logit_bias`] is added. Then the stages of
//! [`SamplingOptions::chain`] in their order; a stage at its neutral value does nothing. Last, always: one draw. With
//! [`SamplingOptions::mirostat`] only penalties, DRY and temperature of the chain run, and mirostat truncates.
//!
//! A draw is a function of the logits, the seed and the index of the token, of nothing else. Logits do not depend on what
//! else is computed with them, so that one seed gives one text for one prompt: alone, in a batch, in chunks, drafted by
//! speculation or not. This holds on one backend at one instruction-set level; other kernels round differently.

mod candidates;
mod history;
mod logprobs;

use akunu_plan::DrawVars;
use akunu_plan::Draws;
use akunu_plan::draw::MOST_CANDIDATES;
use akunu_text::Tokenizer;
use candidates::Candidates;
pub use logprobs::{LogProbs, log_probabilities};

/// One stage of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Repetition, frequency and presence.
    Penalties,
    /// See [`Dry`].
    Dry,
    /// Keeps logits within so many standard deviations of the largest.
    TopNSigma,
    /// Keeps the likeliest tokens, a number of them.
    TopK,
    /// Keeps tokens about as surprising as is expected.
    Typical,
    /// Keeps the likeliest tokens that have so much of the probability together.
    TopP,
    /// Keeps tokens that have at least this share of the likeliest's probability.
    MinP,
    /// Drops the likeliest tokens, now and then, where others are likely enough.
    Xtc,
    /// Divides logits.
    Temperature,
}

impl Stage {
    /// Every stage with its name, in the default order.
    pub const ALL: [(&'static str, Stage); 9] = [
        ("penalties", Stage::Penalties),
        ("dry", Stage::Dry),
        ("top-n-sigma", Stage::TopNSigma),
        ("top-k", Stage::TopK),
        ("typical", Stage::Typical),
        ("top-p", Stage::TopP),
        ("min-p", Stage::MinP),
        ("xtc", Stage::Xtc),
        ("temperature", Stage::Temperature),
    ];

    /// By the name that flags and requests use.
    pub fn from_name(name: &str) -> Option<Stage> {
        Self::ALL.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// The name that flags and requests use.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|row| row.1 == self).map_or("", |row| row.0)
    }
}

/// Makes it unlikely to repeat passages.
#[derive(Clone, Debug, PartialEq)]
pub struct Dry {
    /// 0: off.
    pub multiplier: f32,
    /// The penalty grows by this factor with every token more.
    pub base: f32,
    /// The longest repetition without a penalty is one token shorter.
    pub allowed_length: usize,
    /// How many tokens it looks back.
    pub last: usize,
    /// A passage ends at a token that contains one of these.
    pub breakers: Vec<String>,
}

impl Default for Dry {
    fn default() -> Self {
        let breakers = ["\n", ":", "\"", "*"].map(String::from).to_vec();
        Self { multiplier: 0.0, base: 1.75, allowed_length: 2, last: usize::MAX, breakers }
    }
}

/// Mirostat 2: keeps the surprise of the text near `tau` bits a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirostat {
    /// The surprise per token that it holds, in bits.
    pub tau: f32,
    /// How fast it corrects itself.
    pub eta: f32,
}

impl Default for Mirostat {
    fn default() -> Self {
        Self { tau: 5.0, eta: 0.1 }
    }
}

/// How to choose. Temperature 0 takes the likeliest and needs nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingOptions {
    /// 0: the likeliest token.
    pub temperature: f32,
    /// The temperature moves this far up and down with the entropy; 0: it stays.
    pub dynamic_temperature: f32,
    /// How the entropy moves it.
    pub dynamic_exponent: f32,
    /// Keep this many of the likeliest; 0: all.
    pub top_k: usize,
    /// Keep the likeliest whose probabilities reach this sum; 1: all.
    pub top_p: f32,
    /// Keep those at least this share as likely as the likeliest; 0: all.
    pub min_p: f32,
    /// Keep the most typical whose probabilities reach this sum; 1: all.
    pub typical_p: f32,
    /// Keep those within this many standard deviations of the largest logit; 0: all.
    pub top_n_sigma: f32,
    /// How often XTC strikes: of the tokens above the threshold only the least likely stays. 0: never.
    pub xtc_probability: f32,
    /// The probability from which on a token counts as likely.
    pub xtc_threshold: f32,
    /// Holds the surprise of the text; `None`: off.
    pub mirostat: Option<Mirostat>,
    /// Divides positive logits of recent tokens, multiplies negative ones; 1: none.
    pub repeat_penalty: f32,
    /// Subtracted for every time a token came recently.
    pub frequency_penalty: f32,
    /// Subtracted once where a token came recently.
    pub presence_penalty: f32,
    /// How many recent tokens these three look at.
    pub repeat_last: usize,
    /// Penalties for repeating long runs of tokens.
    pub dry: Dry,
    /// Added to the logits of single tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// The stages, in their order.
    pub chain: Vec<Stage>,
    /// The same seed draws the same tokens.
    pub seed: u64,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            dynamic_temperature: 0.0,
            dynamic_exponent: 1.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            top_n_sigma: 0.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            mirostat: None,
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repeat_last: 64,
            dry: Dry::default(),
            logit_bias: Vec::new(),
            chain: Stage::ALL.map(|row| row.1).to_vec(),
            seed: 0,
        }
    }
}

impl SamplingOptions {
    /// The arg-max of the model's own logits.
    pub fn is_plain_greedy(&self) -> bool {
        self.temperature <= 0.0 && self.is_plain()
    }

    /// Whether nothing counts but temperature and the cuts of the likeliest.
    fn is_plain(&self) -> bool {
        self.dynamic_temperature <= 0.0
            && self.typical_p >= 1.0
            && self.xtc_probability <= 0.0
            && self.mirostat.is_none()
            && !self.penalizes()
            && self.dry.multiplier <= 0.0
            && self.logit_bias.is_empty()
    }

    /// What the backend needs to choose the first token by itself; `None` where it cannot.
    ///
    /// It takes the likeliest, or cuts by top-k, top-p and min-p, in this order, and draws: as the host would, to the token.
    pub(crate) fn on_backend(&self) -> Option<DrawVars> {
        if self.is_plain_greedy() {
            return Some(DrawVars::default());
        }
        let order = [Stage::TopK, Stage::TopP, Stage::MinP, Stage::Temperature];
        let places: Vec<usize> = self.chain.iter().filter_map(|stage| order.iter().position(|o| o == stage)).collect();
        let has = |stage: Stage| self.chain.contains(&stage);
        let top_k = if has(Stage::TopK) { self.top_k } else { 0 };
        let top_p = if has(Stage::TopP) { self.top_p } else { 1.0 };
        let able = self.is_plain()
            && self.top_n_sigma <= 0.0
            && self.temperature > 0.0
            && places.windows(2).all(|p| p[0] < p[1])
            && top_k <= MOST_CANDIDATES
            && (top_k > 0 || top_p >= 1.0);
        able.then_some(DrawVars {
            temperature: if has(Stage::Temperature) { self.temperature } else { 1.0 },
            top_k: top_k as u32,
            top_p,
            min_p: if has(Stage::MinP) { self.min_p } else { 0.0 },
            seed: [self.seed as u32, (self.seed >> 32) as u32],
            ..DrawVars::default()
        })
    }

    fn penalizes(&self) -> bool {
        self.repeat_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0
    }
}

/// Chooses tokens from logits; reuses its memory from token to token.
pub struct Sampler {
    options: SamplingOptions,
    /// Where no stage needs all candidates.
    draw: Option<DrawVars>,
    /// What was drawn from stays, to be asked for.
    keeps: bool,
    /// Where DRY's breakers are looked up.
    tokenizer: Option<Tokenizer>,
    /// Tokens chosen so far.
    index: u64,
    /// Mirostat's bound on surprise.
    mu: f32,
    candidates: Candidates,
    scratch: history::Scratch,
}

impl Sampler {
    /// At the first token of a text.
    pub fn new(options: SamplingOptions) -> Self {
        Self {
            mu: options.mirostat.map_or(0.0, |m| 2.0 * m.tau),
            draw: options.on_backend(),
            keeps: false,
            options,
            tokenizer: None,
            index: 0,
            candidates: Candidates::default(),
            scratch: history::Scratch::default(),
        }
    }

    /// With a tokenizer, in which DRY finds its breakers.
    #[must_use]
    pub fn with_tokenizer(mut self, tokenizer: Option<&Tokenizer>) -> Self {
        self.tokenizer = tokenizer.cloned();
        self
    }

    /// Whose [`Self::sampled`] is asked for: every token goes through the chain.
    #[must_use]
    pub(crate) fn keeping(mut self) -> Self {
        (self.keeps, self.draw) = (true, None);
        self
    }

    /// Log-probabilities of `chosen`, which was drawn last, and of the `n` likeliest of what it was drawn from.
    pub(crate) fn sampled(&mut self, chosen: u32, n: usize) -> LogProbs {
        self.candidates.log_probabilities(chosen, n)
    }

    /// As if `index` tokens had been chosen already.
    #[must_use]
    pub fn starting_at(mut self, index: u64) -> Self {
        self.index = index;
        self
    }

    /// The backend has chosen the next `tokens`.
    pub(crate) fn skip(&mut self, tokens: usize) {
        self.index += tokens as u64;
    }

    /// Tokens chosen so far.
    pub(crate) fn index(&self) -> u64 {
        self.index
    }

    /// As they were given.
    pub fn options(&self) -> &SamplingOptions {
        &self.options
    }

    /// The next token after `history`.
    pub fn sample(&mut self, logits: &[f32], history: &[u32]) -> u32 {
        self.sample_allowed(logits, history, None)
    }

    /// The next token among those whose bit in `allowed` is set.
    pub fn sample_allowed(&mut self, logits: &[f32], history: &[u32], allowed: Option<&[u32]>) -> u32 {
        let draws = Draws::new(self.options.seed, self.index);
        self.index += 1;
        if allowed.is_none() && self.options.is_plain_greedy() && !self.keeps {
            return argmax(logits);
        }
        let o = &self.options;
        let kept = &mut self.candidates;
        if let (Some(words), Some(draw)) = (allowed, self.draw) {
            let k = if draw.temperature > 0.0 { draw.top_k as usize } else { 1 };
            if k > 0 {
                let likeliest = kept.likeliest(logits, words, k);
                let draw = DrawVars { index: (self.index - 1) as u32, ..draw };
                let drawn = if draw.temperature > 0.0 { draw.draw_sorted(likeliest) } else { None };
                return drawn.or(likeliest.first().map(|c| c.1)).unwrap_or_else(|| first_allowed(words));
            }
        }
        if !kept.fill(logits, allowed) {
            // No usable logit: the first token there may be.
            return allowed.map_or(0, first_allowed);
        }
        history::bias(o, kept);
        for stage in &o.chain {
            match stage {
                Stage::Penalties if o.penalizes() => history::penalties(o, history, kept, &mut self.scratch),
                Stage::Dry if o.dry.multiplier > 0.0 => {
                    history::dry(&o.dry, self.tokenizer.as_ref(), history, kept, &mut self.scratch);
                }
                Stage::Penalties | Stage::Dry => {}
                Stage::Temperature if o.dynamic_temperature > 0.0 => {
                    let (t, range) = (o.temperature, o.dynamic_temperature);
                    kept.dynamic_temperature((t - range).max(0.0), t + range, o.dynamic_exponent);
                }
                Stage::Temperature => kept.temperature(o.temperature),
                _ if o.mirostat.is_some() => {}
                Stage::TopNSigma => kept.top_n_sigma(o.top_n_sigma),
                Stage::TopK => kept.top_k(o.top_k),
                Stage::Typical => kept.typical(o.typical_p),
                Stage::TopP => kept.top_p(o.top_p),
                Stage::MinP => kept.min_p(o.min_p),
                Stage::Xtc => kept.xtc(o.xtc_probability, o.xtc_threshold, draws),
            }
        }
        let Some(mirostat) = o.mirostat else { return kept.draw(draws) };
        kept.at_most_surprising(self.mu);
        let token = kept.draw(draws);
        self.mu -= mirostat.eta * (kept.surprise(token) - mirostat.tau);
        token
    }
}

fn first_allowed(words: &[u32]) -> u32 {
    words.iter().position(|w| *w != 0).map_or(0, |i| i as u32 * 32 + words[i].trailing_zeros())
}

/// Index of the largest; ties to the lower index, NaN never.
pub fn argmax(logits: &[f32]) -> u32 {
    // Independent maxima, so that they are computed side by side.
    let mut maxima = [f32::NEG_INFINITY; 16];
    let (rows, rest) = logits.as_chunks::<16>();
    for row in rows {
        for (max, l) in maxima.iter_mut().zip(row) {
            *max = if *l > *max { *l } else { *max };
        }
    }
    let max = maxima.iter().chain(rest).fold(f32::NEG_INFINITY, |max, l| if *l > max { *l } else { max });
    logits.iter().position(|l| *l == max).unwrap_or(0) as u32
}

#[cfg(test)]
mod tests;
