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
}

impl ChunkPace {
    /// Rows for the coming chunk, between the fewest and `most`: what takes as long as a step of those who decode, and with
    /// it no longer than `max_gap`.
    pub fn rows(&self, most: usize, max_gap: Duration) -> usize {
        let time = self.decoding.min(max_gap.as_secs_f64() - self.decoding).max(0.0);
        let rows = if self.row > 0.0 { time / self.row } else { 0.0 };
        (rows as usize).max(LEAST_CHUNK).min(most)
    }

    /// A step of those who decode took this long.
    pub fn decoded(&mut self, time: Duration) {
        average::record(&mut self.decoding, time.as_secs_f64());
    }

    /// A chunk of `rows` rows took this long, while others waited: rows of large chunks, that nobody waits for, cost less.
    pub fn read(&mut self, rows: usize, time: Duration) {
        average::record(&mut self.row, time.as_secs_f64() / rows.max(1) as f64);
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

    #[test]
    fn step_and_chunk_together_stay_within_the_gap() {
        let mut pace = ChunkPace::default();
        for _ in 0..50 {
            pace.decoded(Duration::from_millis(150));
            pace.read(100, Duration::from_millis(100));
        }
        assert!((140..=160).contains(&pace.rows(512, AN_HOUR)));
        assert!((45..=55).contains(&pace.rows(512, Duration::from_millis(200))));
        assert_eq!(pace.rows(512, Duration::from_millis(100)), LEAST_CHUNK);
    }
}
