//! What goes on in a scheduler, in numbers.

use std::time::Duration;

/// What goes on, and what has gone on since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Requests in the KV cache.
    pub running: usize,
    /// Requests that wait for room.
    pub waiting: usize,
    /// Requests since the start.
    pub submitted: u64,
    /// Of those, ended by themselves.
    pub finished: u64,
    /// Of those, cancelled.
    pub cancelled: u64,
    /// Of those, ended by an error.
    pub failed: u64,
    /// Times that a request gave its blocks back.
    pub preempted: u64,
    /// Steps computed.
    pub steps: u64,
    /// Rows of all steps.
    pub rows: u64,
    /// Time spent in steps.
    pub computing: Duration,
    /// The longest step.
    pub longest_step: Duration,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Of those, found in the prefix cache.
    pub cached_tokens: u64,
    /// Tokens chosen.
    pub generated_tokens: u64,
    /// Blocks of the largest KV pool that generations or the prefix cache hold.
    pub blocks_used: usize,
    /// Of those, blocks that the prefix cache holds, alone or with generations.
    pub blocks_cached: usize,
    /// All blocks of that pool.
    pub blocks: usize,
    /// From submission to the first token.
    pub first_token: Latency,
    /// From one token to the next, of the same request.
    pub gap: Latency,
}

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
