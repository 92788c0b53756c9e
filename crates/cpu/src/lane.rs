//! Which part of a record's work a worker does.

use std::ops::Range;

/// Lanes leave one in so many of their columns to whoever comes first, in no more parts than this.
const LEFT: usize = 4;
const MOST_PARTS: usize = 8;

/// Which worker runs, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    pub index: usize,
    pub count: usize,
}

impl Lane {
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
    /// Columns of a share that belong to its lane.
    own: usize,
    /// Columns of a part, and parts of a share.
    part: usize,
    parts: usize,
}

impl Split {
    /// Of `total` columns, cut at multiples of `grain`, into parts of no fewer than `least`.
    pub fn new(lanes: usize, total: usize, grain: usize, least: usize) -> Self {
        let grain = grain.max(1);
        // What even the smallest share has.
        let len = total.div_ceil(grain) / lanes * grain;
        let part = (len / (LEFT * MOST_PARTS)).max(least).max(1).next_multiple_of(grain);
        let parts = len / LEFT / part;
        Self { lanes, total, grain, own: len - parts * part, part, parts }
    }

    fn share(&self, lane: usize) -> Range<usize> {
        Lane { index: lane, count: self.lanes }.share(self.total, self.grain)
    }

    /// What belongs to a lane.
    pub fn own(&self, lane: usize) -> Range<usize> {
        let share = self.share(lane);
        if self.parts == 0 { share } else { share.start..share.start + self.own }
    }

    /// The parts of all shares.
    pub fn parts(&self) -> usize {
        self.lanes * self.parts
    }

    /// One of [`Self::parts`].
    pub fn part(&self, index: usize) -> Range<usize> {
        let (share, part) = (self.share(index / self.parts), index % self.parts);
        let from = share.start + self.own + part * self.part;
        from..if part + 1 == self.parts { share.end } else { from + self.part }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_everything_once_and_cut_at_the_grain() {
        for count in 1..7 {
            for total in 0..70 {
                for grain in [1, 3, 16, 32] {
                    let mut next = 0;
                    for index in 0..count {
                        let share = Lane { index, count }.share(total, grain);
                        assert_eq!(share.start, next);
                        assert!(share.start.is_multiple_of(grain) || share.start == total);
                        next = share.end;
                    }
                    assert_eq!(next, total);
                }
            }
        }
    }

    #[test]
    fn what_lanes_own_and_the_parts_they_leave_are_everything_once() {
        let mut with_parts = 0;
        for lanes in 1..6 {
            for total in (0..3000).step_by(37) {
                for (grain, least) in [(1, 1), (3, 10), (16, 128), (32, 128), (32, 200)] {
                    let split = Split::new(lanes, total, grain, least);
                    let own = (0..lanes).map(|lane| split.own(lane));
                    let mut all: Vec<_> = own.chain((0..split.parts()).map(|i| split.part(i))).collect();
                    all.retain(|columns| !columns.is_empty());
                    all.sort_by_key(|columns| columns.start);
                    assert!(all.iter().all(|columns| columns.start.is_multiple_of(grain)));
                    let end = all.iter().fold(0, |at, columns| {
                        assert_eq!(columns.start, at);
                        columns.end
                    });
                    assert_eq!(end, total);
                    with_parts += usize::from(split.parts() > 0);
                }
            }
        }
        assert!(with_parts > 500);
    }
}
