//! How much of the prompts is read between two steps of those who decode: what takes as long as such a step, so that a
//! long prompt makes others wait about twice as long as without it, on any machine and at any depth.

use crate::average;
use std::time::Duration;

/// The smallest chunk of a prompt that is worth a step.
pub const LEAST_CHUNK: usize = 16;

/// What steps have taken lately, in seconds; 0 where none was measured.
#[derive(Default)]
pub struct ChunkPace {
    /// A step of those who decode.
    decoding: f64,
    /// A row of a prompt.
    row: f64,
    /// The same at their longest: what is promised must hold then too.
    longest_decoding: f64,
    longest_row: f64,
}

impl ChunkPace {
    /// Rows for the coming chunk, between the fewest and `most`: what takes as long as a step of those who decode, and with
    /// it no longer than `max_gap`.
    pub fn rows(&self, most: usize, max_gap: Duration) -> usize {
        let left = (max_gap.as_secs_f64() - self.longest_decoding).max(0.0);
        let rows = if self.row > 0.0 { (self.decoding / self.row).min(left / self.longest_row) } else { 0.0 };
        (rows as usize).max(LEAST_CHUNK).min(most)
    }

    /// A step of those who decode took this long.
    pub fn decoded(&mut self, time: Duration) {
        average::record(&mut self.decoding, time.as_secs_f64());
        average::record_peak(&mut self.longest_decoding, time.as_secs_f64());
    }

    /// A chunk of `rows` rows took this long, while others waited: rows of large chunks, that nobody waits for, cost less.
    pub fn read(&mut self, rows: usize, time: Duration) {
        let row = time.as_secs_f64() / rows.max(1) as f64;
        average::record(&mut self.row, row);
        average::record_peak(&mut self.longest_row, row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AN_HOUR: Duration = Duration::from_secs(3600);

    /// The chunk after many steps, where a step takes `decoding` seconds and a chunk `fixed` and `row` for each row.
    fn settled(decoding: f64, fixed: f64, row: f64) -> usize {
        let mut pace = ChunkPace::default();
        for _ in 0..100 {
            pace.decoded(Duration::from_secs_f64(decoding));
            let rows = pace.rows(512, AN_HOUR);
            pace.read(rows, Duration::from_secs_f64(fixed + row * rows as f64));
        }
        pace.rows(512, AN_HOUR)
    }

    #[test]
    fn a_chunk_takes_as_long_as_a_step() {
        assert!((90..=100).contains(&settled(1.0, 0.0, 0.01)));
        assert!((60..=80).contains(&settled(1.0, 0.3, 0.01)));
    }

    #[test]
    fn it_is_never_too_small_to_be_worth_it_nor_larger_than_a_step_can_be() {
        assert_eq!(settled(0.001, 0.0, 0.01), LEAST_CHUNK);
        assert_eq!(settled(100.0, 0.0, 0.01), 512);
        assert_eq!(ChunkPace::default().rows(512, AN_HOUR), LEAST_CHUNK);
        assert_eq!(ChunkPace::default().rows(7, AN_HOUR), 7);
    }

    #[test]
    fn one_long_step_changes_little() {
        let mut pace = ChunkPace::default();
        for _ in 0..50 {
            pace.decoded(Duration::from_millis(10));
            pace.read(40, Duration::from_millis(10));
        }
        let before = pace.rows(512, AN_HOUR);
        pace.decoded(Duration::from_millis(30));
        assert!(pace.rows(512, AN_HOUR) <= before * 13 / 10);
        pace.read(40, Duration::from_millis(40));
        assert!(pace.rows(512, AN_HOUR) >= before * 7 / 10);
    }

    /// A machine whose steps take what they take: `decoding` seconds for those who decode, and for a chunk `fixed` and `row`
    /// for each row, which grows by `deeper` for each position before it.
    struct Machine {
        decoding: f64,
        fixed: f64,
        row: f64,
        deeper: f64,
    }

    impl Machine {
        /// The longest gap, and that of the smallest possible chunks, after some steps, while prompts of 8192 tokens are
        /// read one after another.
        fn gaps(&self, max_gap: Duration) -> (f64, f64) {
            let mut pace = ChunkPace::default();
            let (mut longest, mut shortest) = (0.0f64, 0.0f64);
            for prompt in 0..3 {
                let mut depth = 0;
                while depth < 8192 {
                    pace.decoded(Duration::from_secs_f64(self.decoding));
                    let rows = pace.rows(512, max_gap).min(8192 - depth);
                    let read = |rows: usize| self.fixed + rows as f64 * (self.row + self.deeper * depth as f64);
                    pace.read(rows, Duration::from_secs_f64(read(rows)));
                    // The first prompt is what it learns from.
                    if prompt > 0 {
                        longest = longest.max(self.decoding + read(rows));
                        shortest = shortest.max(self.decoding + read(LEAST_CHUNK));
                    }
                    depth += rows;
                }
            }
            (longest, shortest)
        }
    }

    #[test]
    fn step_and_chunk_together_stay_within_the_gap() {
        let machines = [
            // A large model, a small one; attention that costs as much as all else, and ten times as much, at the end.
            Machine { decoding: 0.15, fixed: 0.0, row: 0.002, deeper: 0.0 },
            Machine { decoding: 0.15, fixed: 0.02, row: 0.002, deeper: 0.002 / 8192.0 },
            Machine { decoding: 0.004, fixed: 0.001, row: 0.00002, deeper: 0.00002 / 8192.0 },
            Machine { decoding: 0.05, fixed: 0.0, row: 0.0005, deeper: 0.005 / 8192.0 },
            // Nothing is left for prompts, or not enough for the smallest chunk.
            Machine { decoding: 0.25, fixed: 0.0, row: 0.002, deeper: 0.0 },
            Machine { decoding: 0.19, fixed: 0.01, row: 0.004, deeper: 0.0 },
        ];
        for (i, machine) in machines.iter().enumerate() {
            for max_gap in [0.05, 0.1, 0.2, 1.0] {
                let (longest, shortest) = machine.gaps(Duration::from_secs_f64(max_gap));
                // An average follows a growing cost by some steps.
                let most = (max_gap * 1.05).max(shortest);
                assert!(longest <= most, "machine {i}, {max_gap} s: {longest} s, and {shortest} s is possible");
            }
        }
    }

    #[test]
    fn the_gap_is_kept_where_others_use_the_machine_too() {
        let mut pace = ChunkPace::default();
        let (mut state, mut late) = (1u64, 0);
        // Up to half as long again, and now and then three times as long.
        let mut slowed = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let chance = (state >> 33) as f64 / (1u64 << 31) as f64;
            if chance > 0.998 { 3.0 } else { 1.0 + chance / 2.0 }
        };
        for step in 0..2200 {
            let decoding = 0.08 * slowed();
            pace.decoded(Duration::from_secs_f64(decoding));
            let rows = pace.rows(512, Duration::from_millis(200));
            let reading = 0.002 * rows as f64 * slowed();
            pace.read(rows, Duration::from_secs_f64(reading));
            late += usize::from(step >= 200 && decoding + reading > 0.2);
        }
        assert!(late <= 30, "{late} of 2000 gaps are too long");
    }
}
