//! Which part of a record's work a worker does.

use akunu_gemm::dots::PLACES;
use akunu_gemm::packed::ROWS;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lanes leave one in so many of their columns to whoever comes first, in no more parts than this.
const LEFT: usize = 4;
pub const MOST_PARTS: usize = 8;
/// A part has at least so many bytes of weights, which take some 8 µs with one activation row, and a multiple of as many columns
/// as kernels read at eight places.
const LEAST_BYTES: usize = 128 << 10;
const WALK: usize = PLACES * ROWS;

/// Which worker runs, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    pub index: usize,
    pub count: usize,
}

impl Lane {
    /// A worker that does everything.
    pub const ALONE: Lane = Lane { index: 0, count: 1 };

    /// This worker's contiguous share of `0..total`, cut at multiples of `grain`.
    pub fn share(self, total: usize, grain: usize) -> Range<usize> {
        let grain = grain.max(1);
        let units = total.div_ceil(grain);
        let at = |worker: usize| (units * worker / self.count * grain).min(total);
        at(self.index)..at(self.index + 1)
    }

    /// This worker's share of KV heads, where all workers have as many: the op that writes them and attention take the
    /// same, so that each finds in its cache what it wrote there.
    pub fn kv_heads(self, kv_heads: usize) -> Option<Range<usize>> {
        kv_heads.is_multiple_of(self.count).then(|| self.share(kv_heads, 1))
    }
}

/// Columns that are split among lanes: most of every share belongs to its lane, and the end of each, cut into parts, to whoever
/// comes first. A worker on a core that others use too leaves more of them to the rest.
#[derive(Clone, Copy)]
pub struct Split {
    lanes: usize,
    total: usize,
    grain: usize,
    /// Columns of a part, and parts of a share.
    part: usize,
    per_share: usize,
}

impl Split {
    /// Of `total` columns of so many bytes each, cut at multiples of `grain`.
    pub fn new(lanes: usize, total: usize, grain: usize, bytes: usize) -> Self {
        let grain = grain.max(1);
        // What every share has, but that the last column may come before its end.
        let len = total.div_ceil(grain) / lanes * grain;
        let least = LEAST_BYTES.div_ceil(bytes.max(1));
        let part = len.div_ceil(LEFT * MOST_PARTS).max(least).next_multiple_of(WALK).next_multiple_of(grain);
        let per_share = if lanes == 1 { 0 } else { len / LEFT / part };
        Self { lanes, total, grain, part, per_share }
    }

    fn share(&self, lane: usize) -> Range<usize> {
        Lane { index: lane, count: self.lanes }.share(self.total, self.grain)
    }

    /// What belongs to a lane.
    pub fn own(&self, lane: usize) -> Range<usize> {
        let share = self.share(lane);
        let len = share.len().next_multiple_of(self.grain) - self.per_share * self.part;
        share.start..share.end.min(share.start + len)
    }

    /// The parts that all lanes leave.
    pub fn parts(&self) -> usize {
        self.lanes * self.per_share
    }

    /// One of [`Self::parts`].
    pub fn part(&self, index: usize) -> Range<usize> {
        let lane = index / self.per_share;
        let from = self.own(lane).end + index % self.per_share * self.part;
        from..self.share(lane).end.min(from + self.part)
    }
}

/// Those of `parts` parts that no worker has taken yet, as they come; `asked` counts how often lanes have asked for one. Every lane
/// goes through them to the end, once in a step, and a step ends before the next begins.
#[inline]
pub fn untaken(asked: &AtomicU64, lanes: usize, parts: usize) -> impl Iterator<Item = usize> {
    // Every lane asks once in vain, so that each step begins with a multiple of this.
    let in_a_step = (parts + lanes) as u64;
    let next = move || (asked.fetch_add(1, Ordering::Relaxed) % in_a_step) as usize;
    std::iter::from_fn(move || Some(next()).filter(|&part| part < parts)).fuse()
}
