//! Choosing tokens from logits: what `Sample` and `Advance` mean, exactly.
//!
//! A draw needs no state: it is a function of the seed, the index of the token and the candidate. Nothing else that runs
//! can change it, it can be repeated, and a backend makes it by itself. It is an exponential race (the Gumbel-max trick in
//! other words): candidate `i` with weight `w` arrives at `-ln(u_i) / w`, and the first to arrive is drawn with probability
//! `w / Σw`.

use bytemuck::{Pod, Zeroable};

/// The finalizer of SplitMix64: every bit of the input flips half of the output's.
fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The draws of one token.
#[derive(Clone, Copy, Debug)]
pub struct Draws(u64);

impl Draws {
    /// The draws for the `index`-th token of the generation with this seed.
    pub fn new(seed: u64, index: u64) -> Self {
        Self(mix(mix(seed.wrapping_add(STEP)).wrapping_add(index.wrapping_add(1).wrapping_mul(STEP))))
    }

    /// Uniform in (0, 1), for candidate `lane`.
    #[inline]
    pub fn uniform(self, lane: u32) -> f64 {
        let bits = mix(self.0.wrapping_add((u64::from(lane) + 1).wrapping_mul(STEP)));
        ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Gumbel noise: the arg-max of `ln(weight) + gumbel` is a draw by weight.
    #[inline]
    pub fn gumbel(self, lane: u32) -> f64 {
        -(-self.uniform(lane).ln()).ln()
    }
}

/// How the token of an output row is drawn: a step variable. Zeros take the likeliest.
///
/// Of the likeliest `top_k` those stay that together have probability `top_p`, and of these the ones at least `min_p` times as likely
/// as the likeliest; then one is drawn at `temperature`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct DrawVars {
    /// 0: the likeliest, and nothing below counts.
    pub temperature: f32,
    /// At most [`MOST_CANDIDATES`]; 0: all, and then `top_p` does not count.
    pub top_k: u32,
    /// 1: all.
    pub top_p: f32,
    /// 0: all.
    pub min_p: f32,
    pub seed: [u32; 2],
    /// Which token of its text it is; `Advance` counts it up.
    pub index: u32,
    pub reserved: u32,
}

/// The most candidates that are kept apart while a token is drawn.
pub const MOST_CANDIDATES: usize = 256;

/// A logit and its token.
pub type Candidate = (f32, u32);

/// Likeliest first; ties to the lower index, so that the order never depends on chance.
#[inline]
pub fn order(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

impl DrawVars {
    pub fn draws(&self) -> Draws {
        Draws::new(u64::from(self.seed[0]) | u64::from(self.seed[1]) << 32, u64::from(self.index))
    }

    /// The token drawn from all `logits`; `None` where the likeliest is taken, or none can be.
    pub fn draw(&self, logits: &[f32]) -> Option<u32> {
        if self.temperature <= 0.0 {
            return None;
        }
        let usable = |l: &f32| *l > f32::NEG_INFINITY;
        let mut sorted: Vec<Candidate> = logits.iter().copied().zip(0..).filter(|(l, _)| usable(l)).collect();
        sorted.sort_unstable_by(order);
        if self.top_k > 0 {
            sorted.truncate(self.top_k as usize);
        }
        self.draw_sorted(&sorted)
    }

    /// The token drawn from these, likeliest first, after the cut to `top_k`.
    pub fn draw_sorted(&self, sorted: &[Candidate]) -> Option<u32> {
        let peak = sorted.first()?.0;
        if peak == f32::INFINITY {
            // Infinitely likely ones leave no chance to others, and no numbers to compute with.
            let certain = sorted.iter().take_while(|c| c.0 == peak).count();
            return self.race(sorted[..certain].iter().map(|c| (0.0, c.1)), 0.0);
        }
        let mut kept = sorted.len();
        if self.top_k > 0 && self.top_p < 1.0 {
            let weight = |c: &Candidate| f64::from((c.0 - peak).exp());
            let total: f64 = sorted.iter().map(weight).sum();
            let mut sum = 0.0;
            let enough = sorted.iter().position(|c| {
                sum += weight(c);
                sum >= f64::from(self.top_p) * total
            });
            kept = enough.map_or(kept, |i| i + 1);
        }
        let least = self.least(peak);
        self.race(sorted[..kept].iter().copied().filter(|c| c.0 >= least), peak)
    }

    /// The smallest logit that `min_p` keeps.
    #[inline]
    pub fn least(&self, peak: f32) -> f32 {
        if self.min_p > 0.0 { peak + self.min_p.min(1.0).ln() } else { f32::NEG_INFINITY }
    }

    /// One of these by probability at the temperature; their order does not matter.
    #[inline]
    pub fn race(&self, candidates: impl Iterator<Item = Candidate>, peak: f32) -> Option<u32> {
        let draws = self.draws();
        let mut best: Option<(f64, u32)> = None;
        for (logit, token) in candidates {
            let level = f64::from((logit - peak) / self.temperature);
            if let Some((first, _)) = best {
                // Who arrives first has -ln u < exp(level - first), and 1 - u is at most -ln u: most are out before any
                // logarithm. The margin covers the rounding of the power.
                let margin = 1.0001 * f64::from(((level - first) as f32).exp());
                if 1.0 - draws.uniform(token) > margin {
                    continue;
                }
            }
            let arrival = level + draws.gumbel(token);
            if best.is_none_or(|(first, than)| arrival > first || arrival == first && token < than) {
                best = Some((arrival, token));
            }
        }
        best.map(|(_, token)| token)
    }
}

/// The token that `Advance` takes where none was drawn: the first of the largest, NaN aside.
pub(crate) fn first_largest(logits: &[f32]) -> u32 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().position(|v| *v == most).unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_and_indices_are_uniform_and_independent() {
        // Chi-square over 16 × 16 cells of neighbouring draws: 255 degrees of freedom, 5 standard deviations.
        for neighbour in [(0, 1), (1, 0)] {
            let mut cells = vec![0u32; 256];
            let n = 64_000;
            for i in 0..n {
                let a = Draws::new(7, i).uniform(3);
                let b = Draws::new(7, i + neighbour.0).uniform(3 + neighbour.1);
                cells[(a * 16.0) as usize * 16 + (b * 16.0) as usize] += 1;
            }
            let expected = n as f64 / 256.0;
            let chi: f64 = cells.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
            assert!((chi - 255.0).abs() < 5.0 * (2.0f64 * 255.0).sqrt(), "{chi}");
        }
    }

    #[test]
    fn seeds_differ_from_the_first_draw_on() {
        let first: Vec<f64> = (0..64).map(|seed| Draws::new(seed, 0).uniform(0)).collect();
        for (i, a) in first.iter().enumerate() {
            assert!(first[..i].iter().all(|b| (a - b).abs() > 1e-9));
        }
    }

    #[test]
    fn a_race_draws_by_probability() {
        let logits = [0.0f32, 1.0, -2.0, 3.0, f32::NAN, 0.5, f32::NEG_INFINITY];
        let vars = DrawVars { temperature: 1.5, top_p: 1.0, seed: [9, 1], ..Default::default() };
        let n = 40_000;
        let mut counts = [0f64; 7];
        (0..n).for_each(|index| counts[DrawVars { index, ..vars }.draw(&logits).unwrap() as usize] += 1.0);
        let weight = |l: f32| if l.is_finite() { f64::from(l / 1.5).exp() } else { 0.0 };
        let total: f64 = logits.iter().map(|l| weight(*l)).sum();
        for (count, logit) in counts.iter().zip(logits) {
            let p = weight(logit) / total;
            let deviation = (p * (1.0 - p) * f64::from(n)).sqrt();
            assert!((count - p * f64::from(n)).abs() <= 5.0 * deviation, "{logit}: {count}");
        }
    }

    /// The shortcut of `race` leaves out nobody who could win.
    #[test]
    fn a_race_is_won_by_the_first_to_arrive() {
        for index in 0..3000 {
            let vars = DrawVars { temperature: 0.7, seed: [3, 0], index, ..Default::default() };
            let draws = vars.draws();
            let row: Vec<Candidate> = (0..40).map(|i| (draws.uniform(1000 + i) as f32 * 8.0, i)).collect();
            let arrival = |c: &Candidate| f64::from((c.0 - 8.0) / 0.7) + draws.gumbel(c.1);
            let first = row.iter().max_by(|a, b| arrival(a).total_cmp(&arrival(b))).map(|c| c.1);
            assert_eq!(vars.race(row.into_iter(), 8.0), first);
        }
    }

    #[test]
    fn nothing_to_draw_from_is_no_token() {
        let vars = DrawVars { temperature: 1.0, top_p: 1.0, ..Default::default() };
        assert_eq!(vars.draw(&[]), None);
        assert_eq!(vars.draw(&[f32::NAN, f32::NEG_INFINITY]), None);
        assert_eq!(vars.draw(&[1.0, f32::INFINITY, 2.0]), Some(1));
        assert_eq!(DrawVars::default().draw(&[1.0]), None);
    }
}
