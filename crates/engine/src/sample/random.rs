//! Random numbers without state: a draw is a function of the seed, the index of the token and the candidate.
//!
//! Nothing else that runs can change a draw, a draw can be repeated, and a backend may make it by itself. The choice of a
//! token is an exponential race (the Gumbel-max trick in other words): candidate `i` with weight `w` arrives at
//! `-ln(u_i) / w`, and the first to arrive is drawn with probability `w / Σw`.

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
    pub fn uniform(self, lane: u32) -> f64 {
        let bits = mix(self.0.wrapping_add((u64::from(lane) + 1).wrapping_mul(STEP)));
        ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Gumbel noise: the arg-max of `ln(weight) + gumbel` is a draw by weight.
    pub fn gumbel(self, lane: u32) -> f64 {
        -(-self.uniform(lane).ln()).ln()
    }
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
}
