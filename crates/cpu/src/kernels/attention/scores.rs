//! Queries of a tile times the keys of a block.

use super::keys::{KeyBlock, Keys, Prefetcher, SPAN};
use super::tile::{Tile, together};
use crate::simd::{Body, Simd};
use akunu_plan::steps::KV_BLOCK;
use std::marker::PhantomData;
use std::ops::Range;

/// Positions that are scored together: of fewer the rest is computed too, and not used.
const SCORED: usize = 16;

impl Tile {
    /// A block that is not there.
    ///
    /// # Safety
    /// `index` is a block of the span.
    #[inline(always)]
    pub(super) unsafe fn score_nothing<S: Simd>(&self, s: S, index: usize) {
        for t in 0..self.count {
            for at in (0..KV_BLOCK).step_by(S::LANES) {
                // SAFETY: every query has `SPAN` scores.
                unsafe { s.store(self.scores.add(t * SPAN + index * KV_BLOCK + at), s.splat(f32::NEG_INFINITY)) }
            }
        }
    }

    /// `scores[t][position] = query[t] · key[position]` for the positions of a block that are seen, while `prefetcher` goes on. Of
    /// others near them something is written that means nothing.
    ///
    /// # Safety
    /// The rows have `stride` values each where they are decoded and `d` else.
    #[inline(always)]
    pub(super) unsafe fn score<S: Simd, K: Keys>(
        &self,
        s: S,
        (index, block): (usize, &KeyBlock),
        keys: (*const u8, usize),
        prefetcher: &mut Prefetcher,
    ) {
        let mut t = 0;
        // Queries and keys at a time: as many sums as the registers hold.
        let wide = S::REGISTERS >= 32;
        let together = together::<S>();
        // SAFETY: the caller's promise, and `t` never passes `count`.
        unsafe {
            while t < self.count {
                let to = self.scores.add(t * SPAN + index * KV_BLOCK);
                match (self.count - t).min(together) {
                    4 => self.score_some::<S, K, 4, 4>(s, t, keys, block, to, prefetcher),
                    3 => self.score_some::<S, K, 3, 4>(s, t, keys, block, to, prefetcher),
                    2 if wide => self.score_some::<S, K, 2, 8>(s, t, keys, block, to, prefetcher),
                    2 => self.score_some::<S, K, 2, 4>(s, t, keys, block, to, prefetcher),
                    _ => self.score_some::<S, K, 1, 8>(s, t, keys, block, to, prefetcher),
                }
                t += (self.count - t).min(together);
            }
        }
    }

    /// `N` queries, `P` keys at a time.
    ///
    /// # Safety
    /// As [`Self::score`]; `t + N <= count`.
    #[inline(always)]
    unsafe fn score_some<S: Simd, K: Keys, const N: usize, const P: usize>(
        &self,
        s: S,
        t: usize,
        (keys, row_bytes): (*const u8, usize),
        block: &KeyBlock,
        scores: *mut f32,
        prefetcher: &mut Prefetcher,
    ) {
        let (_, row_bytes) = K::shape(self.d, row_bytes);
        let row = |position: usize| keys.wrapping_add(position * row_bytes);
        let (seen, readable) = (block.seen(), block.readable());
        for first in (seen.start / SCORED * SCORED..seen.end).step_by(SCORED) {
            let count = seen.end - first;
            // SAFETY: rows can be read; in place of those that cannot, which nobody sees, come the nearest. A query has `SPAN`
            // scores, whole blocks, and those are a multiple of what is scored together.
            unsafe {
                let scores = scores.add(first);
                if first >= readable.start && first + SCORED <= readable.end {
                    self.score_rows::<S, K, N, P>(s, t, (|j| row(first + j), count), scores, prefetcher);
                } else {
                    for i in 0..N {
                        let (tile, seen, scores) = (self, seen.clone(), scores.add(i * SPAN));
                        let keys = (keys, row_bytes);
                        s.call(Nearest::<K> { tile, t: t + i, keys, first, seen, scores, prefetcher, of: PhantomData });
                    }
                }
            }
        }
    }

    /// The scores of `count` rows, or of [`SCORED`]; whole vectors of as many are written.
    ///
    /// # Safety
    /// As [`Self::score_some`], for the rows that `row` gives.
    #[inline(always)]
    unsafe fn score_rows<S: Simd, K: Keys, const N: usize, const P: usize>(
        &self,
        s: S,
        t: usize,
        (row, count): (impl Fn(usize) -> *const u8, usize),
        scores: *mut f32,
        prefetcher: &mut Prefetcher,
    ) {
        let mut parts = [[s.splat(0.0); SCORED / 4]; N];
        // Not a loop: the sums would wait in memory.
        macro_rules! some {
            ($($i:literal)*) => {$(
                if $i * P < SCORED && $i * P < count {
                    for _ in 0..P / 4 {
                        prefetcher.step::<K>();
                    }
                    // SAFETY: the caller's promise.
                    let sums: [[S::V; P]; N] = unsafe { self.dots::<S, K, N, P>(s, t, |j| row($i * P + j)) };
                    for (parts, sums) in parts.iter_mut().zip(&sums) {
                        for (part, four) in parts[$i * P / 4..].iter_mut().zip(sums.as_chunks::<4>().0) {
                            *part = s.part_sums(*four);
                        }
                    }
                }
            )*};
        }
        some!(0 1 2 3);
        for (i, parts) in parts.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { s.store_sums(scores.add(i * SPAN), parts) }
        }
    }

    /// Products of queries from `t` on with rows, lane by lane.
    ///
    /// # Safety
    /// As [`Self::score_some`], for the rows that `row` gives.
    #[inline(always)]
    unsafe fn dots<S: Simd, K: Keys, const N: usize, const P: usize>(
        &self,
        s: S,
        t: usize,
        row: impl Fn(usize) -> *const u8,
    ) -> [[S::V; P]; N] {
        let (width, _) = K::shape(self.stride, 0);
        let mut sums = [[s.splat(0.0); P]; N];
        for at in (0..width).step_by(S::LANES) {
            // SAFETY: values stay below `width`, a multiple of the lanes.
            unsafe {
                let mut q = [s.splat(0.0); N];
                for (i, q) in q.iter_mut().enumerate() {
                    *q = s.load(self.queries.add((t + i) * self.stride + at));
                }
                for j in 0..P {
                    let k = K::load(s, row(j), at);
                    for (sums, q) in sums.iter_mut().zip(q) {
                        sums[j] = if at == 0 { s.mul(q, k) } else { s.fma(q, k, sums[j]) };
                    }
                }
            }
        }
        sums
    }
}

/// The scores of one query where not all [`SCORED`] rows from `first` on can be read.
struct Nearest<'a, 'b, K> {
    tile: &'a Tile,
    t: usize,
    keys: (*const u8, usize),
    first: usize,
    seen: Range<usize>,
    scores: *mut f32,
    prefetcher: &'a mut Prefetcher<'b>,
    of: PhantomData<K>,
}

impl<K: Keys> Body for Nearest<'_, '_, K> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let Self { tile, t, keys: (keys, row_bytes), first, seen, scores, prefetcher, .. } = self;
        let row = |j: usize| keys.wrapping_add((first + j).clamp(seen.start, seen.end - 1) * row_bytes);
        // SAFETY: the same contract; rows that are seen can be read.
        unsafe { tile.score_rows::<S, K, 1, 4>(s, t, (row, seen.end - first), scores, prefetcher) }
    }
}
