//! How the work of a record is divided: shares, and shards that are stolen.

use akunu_gemm::gemm::STREAMS;
use akunu_gemm::packed::ROWS;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// One in so many columns of a share is stolen, in no more shards than this.
const STOLEN: usize = 4;
pub const MAX_SHARDS: usize = 8;
/// A shard has at least so many bytes of weights, which take about 8 µs with one activation row.
const MIN_SHARD_BYTES: usize = 128 << 10;
/// Columns of a shard are a multiple of what a GEMV reads in all its streams.
const WALK: usize = STREAMS * ROWS;

/// One of the shares of a record's work: there are as many as workers, and a worker runs its own, unless another had to run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub index: usize,
    pub count: usize,
}

impl Share {
    /// All of the work.
    pub const WHOLE: Share = Share { index: 0, count: 1 };

    /// The contiguous part of `0..total` that belongs to this share, cut at multiples of `grain`.
    pub fn of(self, total: usize, grain: usize) -> Range<usize> {
        let grain = grain.max(1);
        let units = total.div_ceil(grain);
        let at = |share: usize| (units * share / self.count * grain).min(total);
        at(self.index)..at(self.index + 1)
    }

    /// The KV heads of this share, where all shares have as many. The op that writes them and attention divide alike, so that
    /// each worker finds in its cache what it wrote.
    pub fn kv_heads(self, kv_heads: usize) -> Option<Range<usize>> {
        kv_heads.is_multiple_of(self.count).then(|| self.of(kv_heads, 1))
    }
}

/// Columns divided among shares. The first columns of a share belong to it; the last are shards that any worker steals, so that a
/// worker on a core that other processes use leaves more of them to the rest.
#[derive(Clone, Copy)]
pub struct Split {
    shares: usize,
    total: usize,
    grain: usize,
    /// Columns of a shard, and shards of a share.
    shard: usize,
    per_share: usize,
}

impl Split {
    /// Divides `total` columns of so many bytes each, cut at multiples of `grain`.
    pub fn new(shares: usize, total: usize, grain: usize, bytes: usize) -> Self {
        let grain = grain.max(1);
        // Every share has so many columns, but that the last column may come before its end.
        let len = total.div_ceil(grain) / shares * grain;
        let least = MIN_SHARD_BYTES.div_ceil(bytes.max(1));
        let shard = len.div_ceil(STOLEN * MAX_SHARDS).max(least).next_multiple_of(WALK).next_multiple_of(grain);
        let per_share = if shares == 1 { 0 } else { len / STOLEN / shard };
        Self { shares, total, grain, shard, per_share }
    }

    fn whole(&self, share: usize) -> Range<usize> {
        Share { index: share, count: self.shares }.of(self.total, self.grain)
    }

    /// The columns that belong to a share.
    pub fn own(&self, share: usize) -> Range<usize> {
        let whole = self.whole(share);
        let len = whole.len().next_multiple_of(self.grain) - self.per_share * self.shard;
        whole.start..whole.end.min(whole.start + len)
    }

    /// The shards of all shares.
    pub fn shards(&self) -> usize {
        self.shares * self.per_share
    }

    /// One of [`Self::shards`].
    pub fn shard(&self, index: usize) -> Range<usize> {
        let share = index / self.per_share;
        let from = self.own(share).end + index % self.per_share * self.shard;
        from..self.whole(share).end.min(from + self.shard)
    }
}

/// Takes shards that nobody has taken. `steals` counts the attempts of all shares. Every share steals until it fails, once in a step,
/// and a step ends before the next begins.
#[inline]
pub fn steal(steals: &AtomicU64, shares: usize, shards: usize) -> impl Iterator<Item = usize> {
    // Every share fails once, so that each step begins with a multiple of this.
    let in_a_step = (shards + shares) as u64;
    let next = move || (steals.fetch_add(1, Ordering::Relaxed) % in_a_step) as usize;
    std::iter::from_fn(move || Some(next()).filter(|&shard| shard < shards)).fuse()
}
