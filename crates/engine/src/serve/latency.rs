//! How long things take, counted by how long.

use std::time::Duration;

/// A histogram of times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// By bucket: as many as there are [`Latency::BOUNDS`], and one for what took longer.
    counts: [u64; Latency::BOUNDS.len() + 1],
    total: Duration,
    longest: Duration,
}

impl Latency {
    /// The longest times of the buckets, in milliseconds.
    pub const BOUNDS: [u64; 16] = [1, 2, 5, 10, 20, 50, 100, 200, 300, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];

    pub(crate) fn record(&mut self, time: Duration) {
        let place = Self::BOUNDS.partition_point(|bound| Duration::from_millis(*bound) < time);
        self.counts[place] += 1;
        self.total += time;
        self.longest = self.longest.max(time);
    }

    /// How many took so many milliseconds at most, for every bound.
    pub fn up_to(&self) -> impl Iterator<Item = (u64, u64)> {
        let sums = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        Self::BOUNDS.into_iter().zip(sums)
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The longest there was.
    pub fn longest(&self) -> Duration {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_all_that_took_no_longer() {
        let mut latency = Latency::default();
        for ms in [1, 2, 150, 90_000] {
            latency.record(Duration::from_millis(ms));
        }
        let up_to = |ms| latency.up_to().find(|(bound, _)| *bound == ms).map(|(_, count)| count);
        assert_eq!([1, 2, 100, 200, 60_000].map(up_to), [1, 2, 2, 3, 3].map(Some));
        assert_eq!((latency.count(), latency.longest()), (4, Duration::from_secs(90)));
    }
}
