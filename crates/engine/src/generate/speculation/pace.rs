//! How many drafted tokens are worth verifying: what they bring, against what their rows cost.
//!
//! Both are measured as the text is written. How often drafts are accepted is known even while none is verified, because
//! they can be compared with what came; so that verifying begins when the text becomes predictable and ends when it
//! does not, and on a text that cannot be predicted nothing is spent.

use super::MAX_DRAFT;
use crate::average::{self, RATE};
use std::time::Duration;

/// Drafts by how many tokens their place was found by.
const CLASSES: usize = 4;

pub fn class(matched: usize) -> usize {
    match matched {
        0..=4 => 0,
        5..=11 => 1,
        12..=23 => 2,
        _ => 3,
    }
}

/// A row more is taken to cost this share of a step until it is measured.
const ROW: f64 = 0.1;
/// Tokens of the first draft, before any cost is known.
const FIRST: usize = 4;
/// Drafts must promise this much more than a plain step.
const WORTH: f64 = 1.05;

pub struct Pace {
    /// By class: how likely a drafted token is accepted, given that those before it are.
    acceptance: [f64; CLASSES],
    /// By rows: seconds of a step; 0 where it is not known.
    seconds: [f64; MAX_DRAFT + 2],
    /// Seconds to draft one token.
    drafting: f64,
    /// How often another draft is accepted where the first is not.
    branch: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { acceptance: [0.3, 0.7, 0.9, 0.95], seconds: [0.0; MAX_DRAFT + 2], drafting: 0.0, branch: 0.2 }
    }
}

impl Pace {
    /// How many of `most` drafted tokens to verify; none before a plain step was measured.
    pub fn best(&self, class: usize, most: usize) -> usize {
        if self.seconds[1] == 0.0 {
            return 0;
        }
        let first = self.seconds[2..].iter().all(|s| *s == 0.0);
        let most = most.min(if first { FIRST } else { MAX_DRAFT });
        let (mut best, mut promise) = (0, WORTH / self.seconds[1]);
        let (mut expected, mut likely) = (1.0, 1.0);
        for drafted in 1..=most {
            likely *= self.acceptance[class];
            expected += likely;
            let rate = expected / (self.cost(drafted + 1) + self.drafting * drafted as f64);
            if rate > promise {
                (best, promise) = (drafted, rate);
            }
        }
        best
    }

    /// Whether `more` rows for another draft are worth it in a step of `rows`.
    pub fn branches(&self, class: usize, rows: usize, more: usize) -> bool {
        if rows + more >= self.seconds.len() {
            return false;
        }
        let gain = (1.0 - self.acceptance[class]) * self.branch;
        // Plain tokens that the time would give.
        let price = (self.cost(rows + more) - self.cost(rows)) / self.seconds[1].max(1e-9);
        gain > price
    }

    /// Whether another draft was accepted where the first was not.
    pub fn record_branch(&mut self, accepted: bool) {
        self.branch += RATE * (if accepted { 1.0 } else { 0.0 } - self.branch);
    }

    /// Seconds of a step: measured, or on the line through what was.
    fn cost(&self, rows: usize) -> f64 {
        let known = |r: &usize| self.seconds[*r] > 0.0;
        let plain = self.seconds[1];
        let below = (1..=rows).rev().find(known).unwrap_or(1);
        let above = (rows..self.seconds.len()).find(known);
        let line = |(a, b): (usize, usize)| {
            let slope = (self.seconds[b] - self.seconds[a]) / (b - a) as f64;
            self.seconds[a] + slope * (rows - a) as f64
        };
        let cost = match above {
            Some(above) if above == below => self.seconds[below],
            Some(above) => line((below, above)),
            None if below == 1 => plain * (1.0 + ROW * (rows - 1) as f64),
            // The step from one row to several has a price of its own; what each further row costs is found out by trying.
            None => {
                let slope = |two: usize| (self.seconds[below] - self.seconds[two]) / (below - two) as f64;
                let row = (2..below).find(known).map_or(ROW * plain, slope);
                self.seconds[below] + row.max(0.0) * (rows - below) as f64
            }
        };
        cost.max(plain)
    }

    /// `accepted` tokens of `drafted` were.
    pub fn record_verified(&mut self, class: usize, accepted: usize, drafted: usize) {
        for i in 0..drafted.min(accepted + 1) {
            let outcome = if i < accepted { 1.0 } else { 0.0 };
            self.acceptance[class] += RATE * (outcome - self.acceptance[class]);
        }
    }

    /// A drafted token took this long.
    pub fn record_drafting(&mut self, time: Duration) {
        self.drafting += if self.drafting == 0.0 { 1.0 } else { RATE } * (time.as_secs_f64() - self.drafting);
    }

    /// A step of `rows` rows took this long.
    pub fn record_step(&mut self, rows: usize, time: Duration) {
        if let Some(known) = self.seconds.get_mut(rows) {
            average::record(known, time.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: impl Fn(usize) -> f64, right: impl Fn(u32) -> bool) -> Pace {
        let mut pace = Pace::default();
        pace.record_step(1, Duration::from_secs_f64(seconds(1)));
        for i in 0..400 {
            let drafted = pace.best(1, MAX_DRAFT);
            let accepted = (0..drafted.max(1)).take_while(|k| right(i * 31 + *k as u32)).count();
            pace.record_verified(1, accepted, drafted.max(1));
            pace.record_step(drafted + 1, Duration::from_secs_f64(seconds(drafted + 1)));
        }
        pace
    }

    #[test]
    fn cheap_rows_and_accepted_drafts_make_many() {
        let pace = after(|rows| 1.0 + 0.05 * rows as f64, |_| true);
        assert_eq!(pace.best(1, MAX_DRAFT), MAX_DRAFT);
        assert_eq!(pace.best(1, 4), 4);
    }

    #[test]
    fn a_dear_second_row_does_not_hide_cheap_further_ones() {
        let pace = after(|rows| if rows == 1 { 1.0 } else { 2.4 + 0.05 * rows as f64 }, |_| true);
        assert_eq!(pace.best(1, MAX_DRAFT), MAX_DRAFT);
    }

    #[test]
    fn rejected_drafts_or_dear_rows_make_none() {
        assert_eq!(after(|rows| 1.0 + 0.05 * rows as f64, |_| false).best(1, MAX_DRAFT), 0);
        assert_eq!(after(|rows| rows as f64, |i| i % 10 != 0).best(1, MAX_DRAFT), 0);
    }

    #[test]
    fn the_better_the_drafts_the_more() {
        let cost = |rows: usize| 1.0 + 0.2 * rows as f64;
        let often = after(cost, |i| i % 10 != 0).best(1, MAX_DRAFT);
        let seldom = after(cost, |i| i % 2 == 0).best(1, MAX_DRAFT);
        assert!(often > seldom, "{often} {seldom}");
    }

    #[test]
    fn a_text_that_becomes_predictable_is_noticed() {
        let mut pace = after(|rows| 1.0 + 0.05 * rows as f64, |_| false);
        for _ in 0..60 {
            pace.record_verified(1, 1, 1);
        }
        assert!(pace.best(1, MAX_DRAFT) > 0);
    }
}
