//! The rules of a transcribed text: which token may come next. What `Suppress` means, exactly.
//!
//! They need little of the text so far, and `Advance` moves that on with every token, so that a backend follows them by itself.

use crate::steps::NO_TOKEN;
use bytemuck::{Pod, Zeroable};

/// The most tokens that rules can list.
pub const MOST_LISTED: usize = 128;

/// What every text with rules obeys: a step variable.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Rules {
    /// The end of a text; tokens below it are words.
    pub end: u32,
    /// It and all tokens after it are timestamps.
    pub first_timestamp: u32,
    /// 0: a text has no timestamps.
    pub timestamps: u32,
    /// A text begins with a timestamp, at most so many after the first.
    pub latest_start: u32,
    /// How many of `tokens` are never said, and how many after those not as the first.
    pub never: u32,
    pub not_first: u32,
    pub tokens: [u32; MOST_LISTED],
}

/// Where the text of an output row stands: a step variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct RuleVars {
    /// 0: no rules, and nothing below counts.
    pub on: u32,
    /// Tokens so far; the last, the one before it, and the last timestamp among them.
    pub count: u32,
    pub last: u32,
    pub before: u32,
    pub latest: u32,
    /// The log-probabilities of all of them together.
    pub sum: f32,
    /// [`log_sum`] of the logits that the last was chosen from.
    pub total: f32,
    pub reserved: u32,
}

/// A token that was chosen for an output row, its logit, and [`log_sum`] of all logits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chosen {
    pub token: u32,
    pub logit: f32,
    pub total: f32,
}

impl Chosen {
    /// What the host learns of it: the token, or [`NO_TOKEN`] where its logit is no finite number.
    pub fn emitted(&self) -> u32 {
        // Where nothing may come, all logits are -∞: that is no fault of theirs.
        if self.logit < f32::INFINITY { self.token } else { NO_TOKEN }
    }
}

impl RuleVars {
    /// An empty text that obeys rules.
    pub fn empty() -> Self {
        Self { on: 1, ..Self::default() }
    }

    /// Goes on with a token; nothing follows the end.
    pub fn push(&mut self, rules: &Rules, Chosen { token, logit, total }: Chosen) {
        if rules.ended(self) {
            return;
        }
        self.count = self.count.saturating_add(1);
        (self.before, self.last) = (self.last, token);
        if rules.is_timestamp(token) {
            self.latest = token;
        }
        (self.sum, self.total) = (self.sum + (logit - total), total);
    }
}

impl Rules {
    /// Rules that list these tokens, as far as there is room: those never said, and those not said as the first.
    pub fn listing(mut self, never: &[u32], not_first: &[u32]) -> Self {
        let never = &never[..never.len().min(MOST_LISTED)];
        let not_first = &not_first[..not_first.len().min(MOST_LISTED - never.len())];
        (self.never, self.not_first) = (never.len() as u32, not_first.len() as u32);
        self.tokens.iter_mut().zip(never.iter().chain(not_first)).for_each(|(to, token)| *to = *token);
        self
    }

    pub fn is_timestamp(&self, token: u32) -> bool {
        token >= self.first_timestamp
    }

    pub fn ended(&self, text: &RuleVars) -> bool {
        text.count > 0 && text.last == self.end
    }

    /// Whether they say how the text goes on.
    pub fn govern(&self, text: &RuleVars) -> bool {
        text.on != 0 && !self.ended(text)
    }

    /// Words with all other marks, and timestamps.
    #[inline(always)]
    pub fn split<'a>(&self, logits: &'a mut [f32]) -> (&'a mut [f32], &'a mut [f32]) {
        logits.split_at_mut((self.first_timestamp as usize).min(logits.len()))
    }

    /// Makes what may not come next impossible, as far as that depends on the text alone.
    #[inline(always)]
    pub fn forbid(&self, text: &RuleVars, logits: &mut [f32]) {
        const NEVER: f32 = f32::NEG_INFINITY;
        let begins = text.count == 0;
        let listed = self.never.saturating_add(if begins { self.not_first } else { 0 });
        for token in self.tokens.iter().take(listed as usize) {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit = NEVER;
            }
        }
        let end = self.end as usize;
        let (words, times) = self.split(logits);
        if self.timestamps == 0 {
            times.fill(NEVER);
            return;
        }
        if begins {
            words.fill(NEVER);
            times.iter_mut().skip(self.latest_start as usize + 1).for_each(|logit| *logit = NEVER);
            return;
        }
        // Timestamps come in pairs, but for one before the end.
        let last = self.is_timestamp(text.last);
        let closes = last && text.count > 1 && !self.is_timestamp(text.before);
        if closes {
            let end = end.min(words.len());
            words[..end].fill(NEVER);
        } else if last {
            times.fill(NEVER);
        }
        // They never go back, and a segment is never empty.
        if self.is_timestamp(text.latest) {
            let passed = (text.latest - self.first_timestamp) as usize + usize::from(!closes);
            let passed = passed.min(times.len());
            times[..passed].fill(NEVER);
        }
    }

    /// Where all timestamps together are likelier than any word, it is time for one. `word` is the largest logit of the
    /// words, `times` the [`log_sum`] of the timestamps'.
    #[inline(always)]
    pub fn prefer(&self, logits: &mut [f32], word: f32, times: f32) {
        if times > word {
            self.split(logits).0.fill(f32::NEG_INFINITY);
        }
    }

    /// Makes all that may not come next impossible.
    pub fn apply(&self, text: &RuleVars, logits: &mut [f32]) {
        self.forbid(text, logits);
        let (words, times) = self.split(logits);
        let (word, times) = (largest(words), log_sum(times));
        self.prefer(logits, word, times);
    }
}

fn largest(logits: &[f32]) -> f32 {
    logits.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// `ln Σ e^x`; minus infinity where nothing is possible.
pub fn log_sum(logits: &[f32]) -> f32 {
    log_sum_below(largest(logits), logits)
}

/// `ln Σ e^x` of values whose largest is known. The sums are the same bits wherever they are computed.
#[inline(always)]
pub fn log_sum_below(max: f32, logits: &[f32]) -> f32 {
    if max == f32::NEG_INFINITY {
        return max;
    }
    let mut sums = [0.0f32; 16];
    let (chunks, rest) = logits.as_chunks::<16>();
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += exp(x - max);
        }
    }
    max + (sums.iter().sum::<f32>() + rest.iter().map(|x| exp(x - max)).sum::<f32>()).ln()
}

/// `e^x` for x up to 0, to 1e-5 of it, without branches: a step of decoding asks for fifty thousand of them.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let t = (x * std::f32::consts::LOG2_E).max(-126.0);
    // Rounds to nearest by its own rounding; its last bits are then the whole number.
    const MAGIC: f32 = 12_582_912.0;
    let rounded = t + MAGIC;
    let f = (t - (rounded - MAGIC)) * std::f32::consts::LN_2;
    let series = 1.0 + f * (1.0 + f * (0.5 + f * (1.0 / 6.0 + f * (1.0 / 24.0 + f * (1.0 / 120.0 + f / 720.0)))));
    let whole = rounded.to_bits().wrapping_sub(MAGIC.to_bits());
    series * f32::from_bits(whole.wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u32 = 10;
    const FIRST: u32 = 12;

    fn rules() -> Rules {
        let rules = Rules { end: END, first_timestamp: FIRST, timestamps: 1, latest_start: 2, ..Rules::zeroed() };
        rules.listing(&[3, 11], &[1, END])
    }

    fn possible(rules: &Rules, sampled: &[u32], raise: &[(u32, f32)]) -> Vec<u32> {
        let mut logits = vec![0.0; 20];
        // So that timestamps together stay below the likeliest word unless a case says otherwise.
        logits[FIRST as usize..].fill(-10.0);
        raise.iter().for_each(|(t, v)| logits[*t as usize] = *v);
        let mut text = RuleVars::empty();
        sampled.iter().for_each(|&token| text.push(rules, Chosen { token, ..Chosen::default() }));
        rules.apply(&text, &mut logits);
        (0..20).filter(|t| logits[*t as usize] > f32::NEG_INFINITY).collect()
    }

    #[test]
    fn exponentials_are_right() {
        for i in 0..2000 {
            let x = -(i as f32) * 0.04;
            let want = f64::from(x).exp();
            // The exponent itself is rounded: that weighs more the larger it is.
            let bound = (1e-6 - 1e-7 * f64::from(x)) * want;
            assert!((f64::from(exp(x)) - want).abs() < bound, "{x}");
        }
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
        assert!((log_sum(&vec![0.5; 1000]) - (0.5 + 1000f32.ln())).abs() < 1e-5);
    }

    #[test]
    fn a_text_begins_with_an_early_timestamp() {
        assert_eq!(possible(&rules(), &[], &[]), [12, 13, 14]);
    }

    #[test]
    fn after_the_first_timestamp_comes_text() {
        assert_eq!(possible(&rules(), &[12], &[]), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn after_words_come_words_or_a_later_timestamp() {
        assert_eq!(possible(&rules(), &[13, 5], &[]), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn a_closing_timestamp_is_followed_by_one_like_it_or_the_end() {
        assert_eq!(possible(&rules(), &[12, 5, 15], &[]), [10, 15, 16, 17, 18, 19]);
        assert_eq!(possible(&rules(), &[12, 5, 15, 15], &[]), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn timestamps_win_together() {
        let raise: Vec<(u32, f32)> = (14..20).map(|t| (t, -1.0)).collect();
        assert_eq!(possible(&rules(), &[13, 5], &raise), [14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn a_text_without_timestamps_begins_with_a_word() {
        let rules = Rules { timestamps: 0, ..rules() };
        assert_eq!(possible(&rules, &[], &[(15, 99.0)]), [0, 2, 4, 5, 6, 7, 8, 9]);
        assert_eq!(possible(&rules, &[5], &[(15, 99.0)]), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn nothing_follows_the_end() {
        let (rules, mut text) = (rules(), RuleVars::empty());
        [13, 5, END, 7, 15].iter().for_each(|&token| text.push(&rules, Chosen { token, logit: 1.0, total: 2.0 }));
        assert!(rules.ended(&text));
        let wanted =
            RuleVars { count: 3, last: END, before: 5, latest: 13, sum: -3.0, total: 2.0, ..RuleVars::empty() };
        assert_eq!(text, wanted);
    }

    #[test]
    fn rules_of_another_vocabulary_do_no_harm() {
        let huge = Rules { end: u32::MAX, first_timestamp: u32::MAX, ..rules() };
        let listed = Rules { never: u32::MAX, not_first: u32::MAX, latest_start: u32::MAX, ..rules() };
        for rules in [huge, listed, Rules { first_timestamp: 0, ..rules() }] {
            for sampled in [&[][..], &[u32::MAX], &[5, u32::MAX], &[u32::MAX, 5]] {
                possible(&rules, sampled, &[]);
            }
        }
    }
}
