//! The candidates for the next token, and the stages that remove some of them. Every stage keeps at least one.

use super::LogProbs;
use akunu_plan::Draws;
use akunu_plan::draw::{Candidate, order};

/// What may still be chosen.
#[derive(Default)]
pub struct Candidates {
    items: Vec<Candidate>,
    /// How many at the front are the likeliest, in order.
    sorted: usize,
    /// No stage has moved any yet: they are in the order of their tokens.
    by_token: bool,
    /// Scratch of stages that need probabilities.
    weights: Vec<f32>,
}

/// The lane of the draw that belongs to no token.
const XTC_LANE: u32 = u32::MAX;

impl Candidates {
    /// All tokens with a usable logit that `allowed` (a bit for each token) has; false where there is none.
    pub fn fill(&mut self, logits: &[f32], allowed: Option<&[u32]>) -> bool {
        self.items.clear();
        (self.sorted, self.by_token) = (0, true);
        let usable = |l: f32| l > f32::NEG_INFINITY;
        match allowed {
            None => {
                self.items.extend(logits.iter().enumerate().filter(|(_, l)| usable(**l)).map(|(i, l)| (*l, i as u32)))
            }
            Some(words) => {
                for (w, &word) in words.iter().enumerate() {
                    let mut left = word;
                    while left != 0 {
                        let token = w * 32 + left.trailing_zeros() as usize;
                        left &= left - 1;
                        if let Some(&l) = logits.get(token).filter(|l| usable(**l)) {
                            self.items.push((l, token as u32));
                        }
                    }
                }
            }
        }
        // Infinitely likely ones leave no chance to others, and no numbers to compute with.
        if self.items.iter().any(|c| c.0 == f32::INFINITY) {
            self.items.retain(|c| c.0 == f32::INFINITY);
            self.items.iter_mut().for_each(|c| c.0 = 0.0);
        }
        !self.items.is_empty()
    }

    /// The `k` likeliest tokens that `allowed` has, in order, found in one pass.
    pub fn likeliest(&mut self, logits: &[f32], allowed: &[u32], k: usize) -> &[Candidate] {
        self.items.clear();
        let full = 4 * k.max(32);
        let mut least = f32::NEG_INFINITY;
        for (&word, (first, logits)) in allowed.iter().zip((0..).step_by(32).zip(logits.chunks(32))) {
            // Most are below what may still count, which is seen of all 32 side by side.
            if word == 0 || !logits.iter().fold(false, |any, logit| any | (*logit > least)) {
                continue;
            }
            let mut left = word;
            while left != 0 {
                let i = left.trailing_zeros();
                left &= left - 1;
                let Some(&logit) = logits.get(i as usize).filter(|l| **l > least) else { continue };
                self.items.push((logit, first + i));
                if self.items.len() == full {
                    self.items.select_nth_unstable_by(k - 1, order);
                    self.items.truncate(k);
                    least = self.items[k - 1].0;
                }
            }
        }
        if self.items.len() > k {
            self.items.select_nth_unstable_by(k - 1, order);
            self.items.truncate(k);
        }
        self.items.sort_unstable_by(order);
        &self.items
    }

    fn peak(&self) -> f32 {
        self.items.iter().fold(f32::NEG_INFINITY, |m, c| m.max(c.0))
    }

    /// Changes the logit of `token`, if it is there.
    pub fn change(&mut self, token: u32, change: impl FnOnce(f32) -> f32) {
        let at = match self.by_token {
            true => self.items.binary_search_by_key(&token, |c| c.1).ok(),
            false => self.items.iter().position(|c| c.1 == token),
        };
        if let Some(at) = at {
            self.items[at].0 = change(self.items[at].0);
            self.sorted = 0;
        }
    }

    /// Puts the `n` likeliest in front, in order.
    fn sort(&mut self, n: usize) {
        let n = n.min(self.items.len());
        if n <= self.sorted {
            return;
        }
        self.by_token = false;
        if n < self.items.len() {
            self.items.select_nth_unstable_by(n - 1, order);
        }
        self.items[..n].sort_unstable_by(order);
        self.sorted = n;
    }

    fn truncate(&mut self, n: usize) {
        self.items.truncate(n.max(1));
        self.sorted = self.sorted.min(self.items.len());
    }

    fn retain(&mut self, keep: impl Fn(&Candidate) -> bool) {
        let front = self.items[..self.sorted].iter().filter(|c| keep(c)).count();
        self.items.retain(keep);
        self.sorted = front;
    }

    /// Probabilities of all, in the order of the candidates, and their logit of reference.
    fn probabilities(&mut self) -> &[f32] {
        let peak = self.peak();
        self.weights.clear();
        self.weights.extend(self.items.iter().map(|c| (c.0 - peak).exp()));
        let total: f64 = self.weights.iter().map(|w| f64::from(*w)).sum();
        self.weights.iter_mut().for_each(|w| *w = (f64::from(*w) / total) as f32);
        &self.weights
    }

    /// The `k` likeliest.
    pub fn top_k(&mut self, k: usize) {
        if k > 0 && k < self.items.len() {
            self.sort(k);
            self.truncate(k);
        }
    }

    /// The fewest of the likeliest that together have probability `p`.
    pub fn top_p(&mut self, p: f32) {
        if p >= 1.0 {
            return;
        }
        let peak = self.peak();
        let total: f64 = self.items.iter().map(|c| f64::from((c.0 - peak).exp())).sum();
        // Few are enough nearly always: sort no more than needed.
        let (mut sum, mut seen, mut ahead) = (0.0, 0, 128);
        loop {
            self.sort(ahead);
            while seen < self.sorted {
                sum += f64::from((self.items[seen].0 - peak).exp());
                seen += 1;
                if sum >= f64::from(p) * total {
                    return self.truncate(seen);
                }
            }
            if seen == self.items.len() {
                return;
            }
            ahead *= 8;
        }
    }

    /// Those at least `p` times as likely as the likeliest.
    pub fn min_p(&mut self, p: f32) {
        if p > 0.0 {
            let least = self.peak() + p.min(1.0).ln();
            self.retain(|c| c.0 >= least);
        }
    }

    /// Those whose logit is within `n` standard deviations of the largest.
    pub fn top_n_sigma(&mut self, n: f32) {
        if n <= 0.0 {
            return;
        }
        let count = self.items.len() as f64;
        let mean = self.items.iter().map(|c| f64::from(c.0)).sum::<f64>() / count;
        let variance = self.items.iter().map(|c| (f64::from(c.0) - mean).powi(2)).sum::<f64>() / count;
        let least = (f64::from(self.peak()) - f64::from(n) * variance.sqrt()) as f32;
        self.retain(|c| c.0 >= least);
    }

    /// Those whose surprise is nearest to the expected one, until together they have probability `p`.
    pub fn typical(&mut self, p: f32) {
        if p >= 1.0 {
            return;
        }
        self.sort(self.items.len());
        let probabilities = self.probabilities();
        let surprise = |p: f32| -f64::from(p).max(f64::MIN_POSITIVE).ln();
        let entropy: f64 = probabilities.iter().map(|p| f64::from(*p) * surprise(*p)).sum();
        let mut nearest: Vec<(f64, usize)> =
            probabilities.iter().enumerate().map(|(i, p)| ((surprise(*p) - entropy).abs(), i)).collect();
        nearest.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut sum = 0.0;
        let enough = nearest.iter().position(|(_, i)| {
            sum += f64::from(probabilities[*i]);
            sum >= f64::from(p)
        });
        let kept = enough.map_or(nearest.len(), |i| i + 1).max(1);
        let mut keep: Vec<usize> = nearest[..kept].iter().map(|n| n.1).collect();
        keep.sort_unstable();
        for (to, from) in keep.iter().enumerate() {
            self.items[to] = self.items[*from];
        }
        self.items.truncate(kept);
        self.sorted = kept;
    }

    /// XTC: by chance, of the tokens with at least probability `threshold` only the least likely stays.
    pub fn xtc(&mut self, probability: f32, threshold: f32, draws: Draws) {
        if probability <= 0.0 || threshold > 0.5 || draws.uniform(XTC_LANE) >= f64::from(probability) {
            return;
        }
        self.sort(self.items.len());
        let above = self.probabilities().iter().take_while(|p| **p >= threshold).count();
        if above > 1 {
            self.items.drain(..above - 1);
            self.sorted = self.items.len();
        }
    }

    /// Divides the logits by the temperature; 0 keeps the likeliest only.
    pub fn temperature(&mut self, temperature: f32) {
        if temperature <= 0.0 {
            self.sort(1);
            return self.truncate(1);
        }
        // Relative to the peak, so that a small temperature does not overflow.
        let peak = self.peak();
        self.items.iter_mut().for_each(|c| c.0 = (c.0 - peak) / temperature);
    }

    /// The temperature between `least` and `most` that the entropy asks for: sure of itself, cool.
    pub fn dynamic_temperature(&mut self, least: f32, most: f32, exponent: f32) {
        let n = self.items.len() as f64;
        let probabilities = self.probabilities();
        let entropy: f64 =
            probabilities.iter().filter(|p| **p > 0.0).map(|p| -f64::from(*p) * f64::from(*p).ln()).sum();
        let share = if n > 1.0 { (entropy / n.ln()).clamp(0.0, 1.0) } else { 0.0 };
        self.temperature(least + (most - least) * share.powf(f64::from(exponent)) as f32);
    }

    /// Those whose surprise is at most `mu` bits.
    pub fn at_most_surprising(&mut self, mu: f32) {
        self.sort(self.items.len());
        let kept = self.probabilities().iter().take_while(|p| -p.log2() <= mu).count();
        self.truncate(kept);
    }

    /// The surprise of `token` in bits.
    pub fn surprise(&mut self, token: u32) -> f32 {
        let at = self.items.iter().position(|c| c.1 == token);
        let probabilities = self.probabilities();
        -at.map_or(1.0, |i| probabilities[i]).log2()
    }

    /// Log-probabilities of `chosen` and of the `n` likeliest that can be drawn at all.
    pub fn log_probabilities(&mut self, chosen: u32, n: usize) -> LogProbs {
        self.sort(n);
        let at = self.items.iter().position(|c| c.1 == chosen);
        self.probabilities();
        let of = |i: usize| self.weights[i].ln();
        let likeliest = (0..n.min(self.items.len())).filter(|i| self.weights[*i] > 0.0);
        LogProbs {
            chosen: at.map_or(f32::NEG_INFINITY, of),
            top: likeliest.map(|i| (self.items[i].1, of(i))).collect(),
        }
    }

    /// One of them, by probability.
    pub fn draw(&self, draws: Draws) -> u32 {
        let mut best = (f64::NEG_INFINITY, 0);
        for &(logit, token) in &self.items {
            let arrival = f64::from(logit) + draws.gumbel(token);
            if arrival > best.0 || arrival == best.0 && token < best.1 {
                best = (arrival, token);
            }
        }
        best.1
    }

    #[cfg(test)]
    pub fn tokens(&self) -> Vec<u32> {
        let mut tokens: Vec<u32> = self.items.iter().map(|c| c.1).collect();
        tokens.sort_unstable();
        tokens
    }

    #[cfg(test)]
    pub fn logits(&self) -> &[(f32, u32)] {
        &self.items
    }
}
