//! Log-probabilities of the model itself: before bias, penalties, temperature and truncation.

/// How likely the model found a token, and which ones it found likeliest.
#[derive(Clone, Debug, PartialEq)]
pub struct LogProbs {
    /// Natural logarithm of the chosen token's probability.
    pub chosen: f32,
    /// The likeliest tokens with theirs, likeliest first.
    pub top: Vec<(u32, f32)>,
}

/// Log-probabilities of `chosen` and of the `n` likeliest.
pub fn log_probabilities(logits: &[f32], chosen: u32, n: usize) -> LogProbs {
    let peak = logits.iter().copied().filter(|l| !l.is_nan()).fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().filter(|l| !l.is_nan()).map(|l| f64::from(l - peak).exp()).sum();
    let log_sum = f64::from(peak) + sum.ln();
    let of = |logit: f32| (f64::from(logit) - log_sum) as f32;
    let mut best: Vec<(f32, u32)> = Vec::new();
    if n > 0 {
        best.extend(logits.iter().enumerate().filter(|(_, l)| !l.is_nan()).map(|(i, l)| (*l, i as u32)));
        let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if n < best.len() {
            best.select_nth_unstable_by(n - 1, order);
            best.truncate(n);
        }
        best.sort_unstable_by(order);
    }
    LogProbs {
        chosen: logits.get(chosen as usize).map_or(f32::NEG_INFINITY, |l| of(*l)),
        top: best.into_iter().map(|(l, token)| (token, of(l))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_the_logarithm_of_the_softmax() {
        let logits = [1.0f32, 3.0, f32::NAN, -2.0, 3.0];
        let total: f64 = [1.0f64, 3.0, -2.0, 3.0].iter().map(|l| l.exp()).sum();
        let of = |l: f64| (l.exp() / total).ln() as f32;
        let got = log_probabilities(&logits, 3, 3);
        assert!((got.chosen - of(-2.0)).abs() < 1e-6);
        assert_eq!(got.top.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 4, 0]);
        assert!((got.top[2].1 - of(1.0)).abs() < 1e-6);
        assert!(log_probabilities(&logits, 9, 0).chosen == f32::NEG_INFINITY);
        assert_eq!(log_probabilities(&logits, 0, 99).top.len(), 4);
    }
}
