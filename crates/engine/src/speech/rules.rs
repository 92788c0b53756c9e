//! Which token may come next, and how likely each is.

use super::Vocabulary;

/// What every step of a decoding has to obey.
pub struct Rules {
    suppressed: Vec<u32>,
    /// Not as the first token: a space, the end.
    blank: Vec<u32>,
    /// The latest first timestamp, in steps of 0.02 s.
    max_initial: u32,
    timestamps: bool,
    end: u32,
    first_timestamp: u32,
    no_timestamps: u32,
}

impl Rules {
    pub fn new(vocabulary: &Vocabulary, timestamps: bool) -> Self {
        let mut blank = vocabulary.encode(" ");
        blank.push(vocabulary.end);
        Self {
            suppressed: vocabulary.unspoken(),
            blank,
            // One second.
            max_initial: 50,
            timestamps,
            end: vocabulary.end,
            first_timestamp: vocabulary.first_timestamp,
            no_timestamps: vocabulary.no_timestamps,
        }
    }

    /// Makes what may not follow `sampled` impossible.
    pub fn apply(&self, logits: &mut [f32], sampled: &[u32]) {
        let first = self.first_timestamp as usize;
        if sampled.is_empty() {
            forbid(logits, &self.blank);
        }
        forbid(logits, &self.suppressed);
        forbid(logits, &[self.no_timestamps]);
        if !self.timestamps {
            logits[first..].fill(f32::NEG_INFINITY);
            return;
        }
        // Timestamps come in pairs, but for one before the end.
        let is_timestamp = |token: &u32| *token >= self.first_timestamp;
        let last = sampled.last().is_some_and(is_timestamp);
        let before = sampled.len() < 2 || is_timestamp(&sampled[sampled.len() - 2]);
        if last && before {
            logits[first..].fill(f32::NEG_INFINITY);
        } else if last {
            logits[..self.end as usize].fill(f32::NEG_INFINITY);
        }
        // They never go back, and a segment is never empty.
        if let Some(latest) = sampled.iter().rev().find(|t| is_timestamp(t)) {
            let allowed = if last && !before { *latest } else { latest + 1 };
            let end = (allowed as usize).min(logits.len());
            logits[first..end].fill(f32::NEG_INFINITY);
        }
        if sampled.is_empty() {
            logits[..first].fill(f32::NEG_INFINITY);
            let end = (first + self.max_initial as usize + 1).min(logits.len());
            logits[end..].fill(f32::NEG_INFINITY);
        }
        // All timestamps together likelier than any word: it is time for one.
        let (words, times) = logits.split_at_mut(first);
        let likeliest = words.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if log_sum(times) > likeliest {
            words.fill(f32::NEG_INFINITY);
        }
    }
}

fn forbid(logits: &mut [f32], tokens: &[u32]) {
    for token in tokens {
        if let Some(logit) = logits.get_mut(*token as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// `ln Σ e^x`; minus infinity where nothing is possible.
pub fn log_sum(logits: &[f32]) -> f32 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
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
pub fn exp(x: f32) -> f32 {
    let t = (x * std::f32::consts::LOG2_E).max(-126.0);
    // Rounds to nearest by its own rounding.
    const MAGIC: f32 = 12_582_912.0;
    let whole = (t + MAGIC) - MAGIC;
    let f = (t - whole) * std::f32::consts::LN_2;
    let series = 1.0 + f * (1.0 + f * (0.5 + f * (1.0 / 6.0 + f * (1.0 / 24.0 + f * (1.0 / 120.0 + f / 720.0)))));
    series * f32::from_bits(((whole as i32 + 127) << 23) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u32 = 10;
    const FIRST: u32 = 12;

    fn rules() -> Rules {
        Rules {
            suppressed: vec![3],
            blank: vec![1, END],
            max_initial: 2,
            timestamps: true,
            end: END,
            first_timestamp: FIRST,
            no_timestamps: 11,
        }
    }

    fn possible(sampled: &[u32], raise: &[(u32, f32)]) -> Vec<u32> {
        let mut logits = vec![0.0; 20];
        // So that timestamps together stay below the likeliest word unless a case says otherwise.
        logits[FIRST as usize..].fill(-10.0);
        raise.iter().for_each(|(t, v)| logits[*t as usize] = *v);
        rules().apply(&mut logits, sampled);
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
        assert_eq!(possible(&[], &[]), [12, 13, 14]);
    }

    #[test]
    fn after_the_first_timestamp_comes_text() {
        assert_eq!(possible(&[12], &[]), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn after_words_come_words_or_a_later_timestamp() {
        assert_eq!(possible(&[13, 5], &[]), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn a_closing_timestamp_is_followed_by_one_like_it_or_the_end() {
        assert_eq!(possible(&[12, 5, 15], &[]), [10, 15, 16, 17, 18, 19]);
        assert_eq!(possible(&[12, 5, 15, 15], &[]), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn timestamps_win_together() {
        let raise: Vec<(u32, f32)> = (14..20).map(|t| (t, -1.0)).collect();
        assert_eq!(possible(&[13, 5], &raise), [14, 15, 16, 17, 18, 19]);
    }
}
