//! Choosing the next token on the host: penalties, temperature, truncation, one random draw.
//!
//! The order is fixed: repetition penalty, top-k, temperature, top-p, min-p, draw.

/// How to choose. Temperature 0 is greedy and needs nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingOptions {
    pub temperature: f32,
    /// Keep this many of the likeliest; 0: all.
    pub top_k: usize,
    /// Keep the likeliest whose probabilities reach this sum; 1: all.
    pub top_p: f32,
    /// Keep those at least this share as likely as the likeliest; 0: all.
    pub min_p: f32,
    /// Divides positive logits of recent tokens, multiplies negative ones; 1: none.
    pub repeat_penalty: f32,
    /// How many recent tokens the penalty looks at.
    pub repeat_last: usize,
    pub seed: u64,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self { temperature: 0.0, top_k: 40, top_p: 0.95, min_p: 0.05, repeat_penalty: 1.0, repeat_last: 64, seed: 0 }
    }
}

impl SamplingOptions {
    /// The arg-max of the model's own logits: what the backend's chain computes by itself.
    pub fn is_plain_greedy(&self) -> bool {
        self.temperature <= 0.0 && self.repeat_penalty == 1.0
    }
}

/// Draws tokens from logits; reuses its memory from token to token.
pub struct Sampler {
    options: SamplingOptions,
    random: u64,
    candidates: Vec<(f32, u32)>,
    penalized: Vec<f32>,
}

impl Sampler {
    pub fn new(options: SamplingOptions) -> Self {
        Self { random: options.seed, options, candidates: Vec::new(), penalized: Vec::new() }
    }

    /// The next token, given what came before it.
    pub fn sample(&mut self, logits: &[f32], recent: &[u32]) -> u32 {
        let o = &self.options;
        let logits = if o.repeat_penalty == 1.0 {
            logits
        } else {
            self.penalized.clear();
            self.penalized.extend_from_slice(logits);
            let recent = &recent[recent.len().saturating_sub(o.repeat_last)..];
            for (i, &token) in recent.iter().enumerate() {
                // Once per token, however often it came.
                if !recent[..i].contains(&token)
                    && let Some(l) = self.penalized.get_mut(token as usize)
                {
                    *l = if *l > 0.0 { *l / o.repeat_penalty } else { *l * o.repeat_penalty };
                }
            }
            &self.penalized
        };
        if o.temperature <= 0.0 {
            return argmax(logits);
        }
        let kept = &mut self.candidates;
        kept.clear();
        kept.extend(logits.iter().enumerate().filter(|(_, l)| !l.is_nan()).map(|(i, l)| (*l, i as u32)));
        if kept.is_empty() {
            return 0;
        }
        // Likeliest first; ties to the lower index, so that the order never depends on chance.
        let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if o.top_k > 0 && o.top_k < kept.len() {
            kept.select_nth_unstable_by(o.top_k - 1, order);
            kept.truncate(o.top_k);
        }
        kept.sort_unstable_by(order);
        let peak = kept[0].0;
        let mut total = 0.0;
        for (p, _) in kept.iter_mut() {
            *p = ((*p - peak) / o.temperature).exp();
            total += *p;
        }
        if o.top_p < 1.0 {
            let mut sum = 0.0;
            let enough = kept.iter().position(|(p, _)| {
                sum += p;
                sum >= o.top_p * total
            });
            kept.truncate(enough.map_or(kept.len(), |i| i + 1));
        }
        if o.min_p > 0.0 {
            // The likeliest has weight 1.
            let keep = kept.iter().take_while(|(p, _)| *p >= o.min_p).count();
            kept.truncate(keep.max(1));
        }
        let total: f32 = kept.iter().map(|(p, _)| p).sum();
        let mut left = uniform(&mut self.random) * total;
        let drawn = kept.iter().find(|(p, _)| {
            left -= p;
            left < 0.0
        });
        drawn.unwrap_or(&kept[kept.len() - 1]).1
    }
}

/// Index of the largest; ties to the lower index, NaN never.
pub fn argmax(logits: &[f32]) -> u32 {
    let mut best = (f32::NEG_INFINITY, 0);
    for (i, &l) in logits.iter().enumerate() {
        if l > best.0 {
            best = (l, i);
        }
    }
    best.1 as u32
}

/// SplitMix64: one addition of state, full period, good enough to draw tokens with.
fn uniform(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ z >> 31) >> 40) as f32 / (1u64 << 24) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(options: SamplingOptions, logits: &[f32], n: usize) -> Vec<usize> {
        let mut sampler = Sampler::new(options);
        let mut counts = vec![0; logits.len()];
        (0..n).for_each(|_| counts[sampler.sample(logits, &[]) as usize] += 1);
        counts
    }

    fn all() -> SamplingOptions {
        SamplingOptions { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..Default::default() }
    }

    #[test]
    fn draws_follow_the_softmax() {
        let logits = [1.0f32, 2.0, 0.0, -1.0];
        let n = 40_000;
        let counts = draws(all(), &logits, n);
        let total: f32 = logits.iter().map(|l| l.exp()).sum();
        for (count, logit) in counts.iter().zip(logits) {
            let expected = logit.exp() / total;
            // Five standard deviations of a binomial.
            let tolerance = 5.0 * (expected * (1.0 - expected) / n as f32).sqrt();
            assert!((*count as f32 / n as f32 - expected).abs() < tolerance);
        }
    }

    #[test]
    fn truncations_keep_what_they_promise() {
        let logits = [3.0f32, 2.9, 1.0, 0.0, -4.0];
        let kept = |o| draws(o, &logits, 5000).iter().filter(|c| **c > 0).count();
        assert_eq!(kept(SamplingOptions { top_k: 2, ..all() }), 2);
        assert_eq!(kept(SamplingOptions { top_p: 0.5, ..all() }), 2);
        assert_eq!(kept(SamplingOptions { top_p: 0.4, ..all() }), 1);
        assert_eq!(kept(SamplingOptions { min_p: 0.5, ..all() }), 2);
        assert_eq!(kept(SamplingOptions { min_p: 1.0, ..all() }), 1);
    }

    #[test]
    fn one_seed_gives_one_sequence_and_another_gives_another() {
        let logits: Vec<f32> = (0..100).map(|i| (i % 7) as f32).collect();
        let run = |seed| {
            let mut s = Sampler::new(SamplingOptions { seed, ..all() });
            (0..50).map(|_| s.sample(&logits, &[])).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn the_repetition_penalty_turns_away_from_recent_tokens() {
        let options = SamplingOptions { repeat_penalty: 2.0, ..Default::default() };
        assert_eq!(Sampler::new(options.clone()).sample(&[1.0, 1.5, -1.0], &[1]), 0);
        assert_eq!(Sampler::new(options).sample(&[-2.0, -1.5, -1.4], &[2]), 1);
    }

    #[test]
    fn broken_logits_still_give_a_token() {
        let nan = [f32::NAN; 4];
        assert_eq!(Sampler::new(all()).sample(&nan, &[]), 0);
        assert_eq!(argmax(&[f32::NAN, 1.0, f32::NAN]), 1);
        assert_eq!(Sampler::new(all()).sample(&[f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY], &[]), 1);
    }
}
