//! A tile of queries and its online softmax: `max`, `sum` and the weighted values so far.

use super::keys::{Ahead, Asking, Keys};
use crate::simd::Simd;
use crate::simd::math::{exp, soft_cap};
use akunu_dtype::{DType, Planes};
use akunu_plan::op::AttentionParams;
use akunu_plan::steps::KV_BLOCK;
use std::ops::Range;

/// Queries of a tile, at most.
pub(super) const TILE: usize = 16;

/// One query's place in the softmax.
#[derive(Clone, Copy)]
struct Query {
    /// Positions it sees, as a range.
    from: usize,
    to: usize,
    /// Of the places before its own, the last it sees, those that it does not: bit `i` is `i + 1` before.
    hidden: u64,
    max: f32,
    sum: f32,
    /// What the values so far are to be multiplied with, because the maximum rose.
    shrink: f32,
}

/// Everything about one tile. The pointers lead into the worker's scratch.
pub(super) struct Tile {
    count: usize,
    /// Head size, and the same rounded up to whole vectors; the rest holds zeros.
    d: usize,
    stride: usize,
    /// `[count][stride]`, times the attention scale.
    queries: *mut f32,
    /// `[count][stride]`
    results: *mut f32,
    /// `[count][KV_BLOCK]`: scores, then weights, of the block at hand.
    scores: *mut f32,
    /// `[KV_BLOCK][stride]` each, for blocks that are decoded.
    keys: *mut f32,
    values: *mut f32,
    state: [Query; TILE],
}

pub(super) const fn padded(d: usize) -> usize {
    d.next_multiple_of(16)
}

impl Tile {
    /// Bytes of scratch a tile of this head size takes.
    pub const fn bytes(d: usize) -> usize {
        4 * (2 * TILE * padded(d) + TILE * KV_BLOCK + 2 * KV_BLOCK * padded(d))
    }

    /// # Safety
    /// `scratch` has `bytes(d)` bytes, aligned for f32, for as long as the tile lives; `count <= TILE`.
    #[inline(always)]
    pub unsafe fn new(scratch: *mut u8, d: usize, count: usize) -> Self {
        let stride = padded(d);
        let queries = scratch.cast::<f32>();
        let results = queries.wrapping_add(TILE * stride);
        let scores = results.wrapping_add(TILE * stride);
        let keys = scores.wrapping_add(TILE * KV_BLOCK);
        let values = keys.wrapping_add(KV_BLOCK * stride);
        // SAFETY: the parts follow one another inside `bytes(d)`, and `count <= TILE`.
        unsafe {
            if stride > d {
                std::ptr::write_bytes(queries, 0, count * stride);
            }
            std::ptr::write_bytes(results, 0, count * stride);
        }
        let none = Query { from: 0, to: 0, hidden: 0, max: f32::NEG_INFINITY, sum: 0.0, shrink: 1.0 };
        Self { count, d, stride, queries, results, scores, keys, values, state: [none; TILE] }
    }

    /// # Safety
    /// `index < count`, and `q` has `d` values.
    #[inline(always)]
    pub unsafe fn set_query<S: Simd>(
        &mut self,
        s: S,
        index: usize,
        q: *const f32,
        scale: f32,
        sees: Range<usize>,
        hidden: u64,
    ) {
        let scale = s.splat(scale);
        let to = self.queries.wrapping_add(index * self.stride);
        let mut at = 0;
        while at < self.d {
            let n = S::LANES.min(self.d - at);
            // SAFETY: `at + n <= d`.
            unsafe { s.store_first(to.add(at), s.mul(s.load_first(q.add(at), n), scale), n) }
            at += n;
        }
        self.state[index].from = sees.start;
        self.state[index].to = sees.end;
        self.state[index].hidden = hidden;
    }

    /// Positions any query sees.
    pub fn span(&self) -> Range<usize> {
        let queries = &self.state[..self.count];
        let from = queries.iter().map(|q| q.from).min().unwrap_or(0);
        from..queries.iter().map(|q| q.to).max().unwrap_or(0)
    }

    /// Takes in the block of positions `base..base + KV_BLOCK`; `next` is what will be read after it.
    ///
    /// # Safety
    /// `keys` and `values` are the rows of one head of a block.
    #[inline(always)]
    pub unsafe fn visit<S: Simd, K: Keys>(
        &mut self,
        s: S,
        p: &AttentionParams,
        keys: *const u8,
        values: *const u8,
        base: usize,
        next: Ahead,
    ) {
        let span = self.span();
        // Positions of the block that some query sees: those outside may never have been written.
        let seen = span.start.max(base) - base..span.end.min(base + KV_BLOCK) - base;
        let row_bytes = p.kv.row_bytes as usize;
        // SAFETY: the caller's promise; decoded rows are `stride` f32 values in scratch.
        unsafe {
            if K::DIRECT {
                let soon = Ahead { at: values.wrapping_add(seen.start * row_bytes), bytes: seen.len() * row_bytes };
                self.score::<S, K>(s, keys, row_bytes, &seen, soon);
                self.weigh(s, p.soft_cap, base, &seen);
                self.mix::<S, K>(s, values, row_bytes, &seen, next);
            } else {
                let bytes = 4 * self.stride;
                self.decode(p, keys, self.keys, &seen);
                self.score::<S, K>(s, self.keys.cast(), bytes, &seen, Ahead::NOTHING);
                self.weigh(s, p.soft_cap, base, &seen);
                self.decode(p, values, self.values, &seen);
                self.mix::<S, K>(s, self.values.cast(), bytes, &seen, Ahead::NOTHING);
            }
        }
    }

    /// Rows `seen` as f32, padded with zeros.
    ///
    /// # Safety
    /// `from` is the rows of one head of a block, `to` has `KV_BLOCK * stride` values.
    unsafe fn decode(&self, p: &AttentionParams, from: *const u8, to: *mut f32, seen: &Range<usize>) {
        let Some(dtype) = DType::from_index(p.kv.dtype as u8) else { return };
        let bytes = dtype.row_bytes(self.d).unwrap_or(0);
        for position in seen.clone() {
            // SAFETY: `position < KV_BLOCK`, and a stored row has the bytes of `d` values.
            unsafe {
                let row = std::slice::from_raw_parts_mut(to.add(position * self.stride), self.stride);
                let data = std::slice::from_raw_parts(from.add(position * p.kv.row_bytes as usize), bytes);
                (dtype.format().decode)(Planes { data, ..Planes::default() }, &mut row[..self.d]);
                row[self.d..].fill(0.0);
            }
        }
    }

    /// `scores[t][position] = query[t] · key[position]` for the positions seen, while `soon` is asked for.
    ///
    /// # Safety
    /// `keys` has those rows, `stride` values each where they are decoded and `d` else.
    #[inline(always)]
    unsafe fn score<S: Simd, K: Keys>(
        &self,
        s: S,
        keys: *const u8,
        row_bytes: usize,
        seen: &Range<usize>,
        soon: Ahead,
    ) {
        let mut t = 0;
        // Queries at a time: what the registers hold beside four keys.
        let together = if S::REGISTERS >= 32 { 4 } else { 2 };
        let soon = &mut soon.in_steps(self.count.div_ceil(together) * (seen.len() / 4 + seen.len() % 4));
        // SAFETY: the caller's promise, and `t` never passes `count`.
        unsafe {
            while t < self.count {
                match (self.count - t).min(together) {
                    4 => self.score_some::<S, K, 4>(s, t, keys, row_bytes, seen, soon),
                    3 => self.score_some::<S, K, 3>(s, t, keys, row_bytes, seen, soon),
                    2 => self.score_some::<S, K, 2>(s, t, keys, row_bytes, seen, soon),
                    _ => self.score_some::<S, K, 1>(s, t, keys, row_bytes, seen, soon),
                }
                t += (self.count - t).min(together);
            }
        }
    }

    /// # Safety
    /// As [`Self::score`]; `t + N <= count`.
    #[inline(always)]
    unsafe fn score_some<S: Simd, K: Keys, const N: usize>(
        &self,
        s: S,
        t: usize,
        keys: *const u8,
        row_bytes: usize,
        seen: &Range<usize>,
        soon: &mut Asking,
    ) {
        let queries = self.queries.wrapping_add(t * self.stride);
        let scores = self.scores.wrapping_add(t * KV_BLOCK);
        let width = if K::DIRECT { self.d } else { self.stride };
        let mut position = seen.start;
        // SAFETY: positions stay below `seen.end <= KV_BLOCK`, values below `width`, a multiple of
        // the lanes.
        unsafe {
            while position + 4 <= seen.end {
                soon.step();
                let mut sums = [[s.splat(0.0); 4]; N];
                let rows = keys.add(position * row_bytes);
                let mut at = 0;
                while at < width {
                    let mut k = [s.splat(0.0); 4];
                    for (j, k) in k.iter_mut().enumerate() {
                        *k = K::load(s, rows.add(j * row_bytes), at);
                    }
                    for (i, sums) in sums.iter_mut().enumerate() {
                        let q = s.load(queries.add(i * self.stride + at));
                        for j in 0..4 {
                            sums[j] = s.fma(q, k[j], sums[j]);
                        }
                    }
                    at += S::LANES;
                }
                for (i, sums) in sums.into_iter().enumerate() {
                    let four = s.sum4(sums);
                    std::ptr::copy_nonoverlapping(four.as_ptr(), scores.add(i * KV_BLOCK + position), 4);
                }
                position += 4;
            }
            while position < seen.end {
                soon.step();
                let mut sums = [s.splat(0.0); N];
                let row = keys.add(position * row_bytes);
                let mut at = 0;
                while at < width {
                    let k = K::load(s, row, at);
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = s.fma(s.load(queries.add(i * self.stride + at)), k, *sum);
                    }
                    at += S::LANES;
                }
                for (i, sum) in sums.into_iter().enumerate() {
                    // Added up in the order of the four above: a score must not depend on how many
                    // positions are seen with it.
                    let zero = s.splat(0.0);
                    *scores.add(i * KV_BLOCK + position) = s.sum4([sum, zero, zero, zero])[0];
                }
                position += 1;
            }
        }
    }

    /// Scores to weights `e^(score - max)`, 0 where a query does not see; moves max and sum on.
    ///
    /// # Safety
    /// The scores of the positions seen were written.
    #[inline(always)]
    unsafe fn weigh<S: Simd>(&mut self, s: S, cap: f32, base: usize, seen: &Range<usize>) {
        let lowest = s.splat(-f32::MAX);
        // Whole vectors around what is seen by some query.
        let (first, end) = (seen.start / S::LANES * S::LANES, seen.end.next_multiple_of(S::LANES));
        for (t, query) in self.state[..self.count].iter_mut().enumerate() {
            let scores = self.scores.wrapping_add(t * KV_BLOCK);
            let from = query.from.clamp(base, base + KV_BLOCK) - base;
            let to = query.to.clamp(base, base + KV_BLOCK) - base;
            query.shrink = 1.0;
            // SAFETY: `scores` has `KV_BLOCK` values, a multiple of the lanes; what was not scored
            // is replaced before it is used.
            unsafe {
                for i in (first..from.min(end)).chain(to.max(from)..end) {
                    *scores.add(i) = f32::NEG_INFINITY;
                }
                // Hidden places are all in the block that ends what the query sees.
                let hidden = if query.to <= base + KV_BLOCK { query.hidden } else { 0 };
                if hidden != 0 {
                    for i in (0..to.saturating_sub(1)).filter(|i| hidden >> (to - 2 - i) & 1 == 1) {
                        *scores.add(i) = f32::NEG_INFINITY;
                    }
                }
                let mut largest = s.splat(f32::NEG_INFINITY);
                for at in (first..end).step_by(S::LANES) {
                    let mut v = s.load(scores.add(at));
                    if cap != 0.0 {
                        v = s.select_lt(v, lowest, v, soft_cap(s, v, cap));
                        s.store(scores.add(at), v);
                    }
                    largest = s.max(v, largest);
                }
                let max = s.largest(largest).max(query.max);
                if max == f32::NEG_INFINITY {
                    std::ptr::write_bytes(scores.add(first), 0, end - first);
                    continue;
                }
                let minus_max = s.splat(-max);
                let mut sum = s.splat(0.0);
                for at in (first..end).step_by(S::LANES) {
                    let v = s.load(scores.add(at));
                    let weight = s.select_lt(lowest, v, exp(s, s.add(v, minus_max)), s.splat(0.0));
                    s.store(scores.add(at), weight);
                    sum = s.add(sum, weight);
                }
                if hidden != 0 {
                    // Added up as if what is hidden were not there: the sum must not depend on where a branch is stored.
                    let mut packed = [0.0f32; KV_BLOCK];
                    let seen = (from..to).filter(|i| *i + 1 == to || hidden >> (to - 2 - i) & 1 == 0);
                    for (next, i) in (from..).zip(seen) {
                        packed[next] = *scores.add(i);
                    }
                    sum = s.splat(0.0);
                    for at in (0..KV_BLOCK).step_by(S::LANES) {
                        sum = s.add(sum, s.load(packed.as_ptr().add(at)));
                    }
                }
                query.shrink = (query.max - max).exp();
                query.sum = query.sum * query.shrink + s.sum(sum);
                query.max = max;
            }
        }
    }

    /// `results[t] = shrink[t] * results[t] + Σ weight[t][position] * value[position]`, while `soon` is asked for.
    ///
    /// # Safety
    /// As [`Self::score`], for values.
    #[inline(always)]
    unsafe fn mix<S: Simd, K: Keys>(
        &self,
        s: S,
        values: *const u8,
        row_bytes: usize,
        seen: &Range<usize>,
        soon: Ahead,
    ) {
        let together = if S::REGISTERS >= 32 { 4 } else { 2 };
        let columns = self.d.div_ceil(4 * S::LANES);
        let soon = &mut soon.in_steps(self.count.div_ceil(together) * columns * seen.len().div_ceil(4));
        let mut t = 0;
        // SAFETY: the caller's promise, and `t` never passes `count`.
        unsafe {
            while t < self.count {
                match (self.count - t).min(together) {
                    4 => self.mix_some::<S, K, 4>(s, t, values, row_bytes, seen, soon),
                    3 => self.mix_some::<S, K, 3>(s, t, values, row_bytes, seen, soon),
                    2 => self.mix_some::<S, K, 2>(s, t, values, row_bytes, seen, soon),
                    _ => self.mix_some::<S, K, 1>(s, t, values, row_bytes, seen, soon),
                }
                t += (self.count - t).min(together);
            }
        }
    }

    /// # Safety
    /// As [`Self::mix`]; `t + N <= count`.
    #[inline(always)]
    unsafe fn mix_some<S: Simd, K: Keys, const N: usize>(
        &self,
        s: S,
        t: usize,
        values: *const u8,
        row_bytes: usize,
        seen: &Range<usize>,
        soon: &mut Asking,
    ) {
        let width = if K::DIRECT { self.d } else { self.stride };
        let mut at = 0;
        // SAFETY: columns stay below `width`, a multiple of the lanes.
        unsafe {
            while at + 4 * S::LANES <= width {
                self.mix_columns::<S, K, N, 4>(s, (t, at), values, row_bytes, seen, soon);
                at += 4 * S::LANES;
            }
            while at + 2 * S::LANES <= width {
                self.mix_columns::<S, K, N, 2>(s, (t, at), values, row_bytes, seen, soon);
                at += 2 * S::LANES;
            }
            while at < width {
                self.mix_columns::<S, K, N, 1>(s, (t, at), values, row_bytes, seen, soon);
                at += S::LANES;
            }
        }
    }

    /// `N` queries, `C` vectors of columns from `at` on, in registers over all positions.
    ///
    /// # Safety
    /// As [`Self::mix`]; `t + N <= count`, `at + C * LANES <= width`.
    #[inline(always)]
    unsafe fn mix_columns<S: Simd, K: Keys, const N: usize, const C: usize>(
        &self,
        s: S,
        (t, at): (usize, usize),
        values: *const u8,
        row_bytes: usize,
        seen: &Range<usize>,
        soon: &mut Asking,
    ) {
        let mut sums = [[s.splat(0.0); C]; N];
        // SAFETY: queries, columns and positions are inside, by the caller's promise.
        unsafe {
            for (i, sums) in sums.iter_mut().enumerate() {
                let results = self.results.add((t + i) * self.stride + at);
                let shrink = s.splat(self.state[t + i].shrink);
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = s.mul(s.load(results.add(j * S::LANES)), shrink);
                }
            }
            for four in seen.clone().step_by(4) {
                soon.step();
                for position in four..seen.end.min(four + 4) {
                    let row = values.add(position * row_bytes);
                    let mut v = [s.splat(0.0); C];
                    for (j, v) in v.iter_mut().enumerate() {
                        *v = K::load(s, row, at + j * S::LANES);
                    }
                    for (i, sums) in sums.iter_mut().enumerate() {
                        let weight = s.splat(*self.scores.add((t + i) * KV_BLOCK + position));
                        for (sum, v) in sums.iter_mut().zip(v) {
                            *sum = s.fma(weight, v, *sum);
                        }
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                let results = self.results.add((t + i) * self.stride + at);
                for (j, sum) in sums.iter().enumerate() {
                    s.store(results.add(j * S::LANES), *sum);
                }
            }
        }
    }

    /// A query's maximum, sum and weighted values so far.
    pub fn found(&self, index: usize) -> (f32, f32, *const f32) {
        let query = &self.state[index];
        (query.max, query.sum, self.results.wrapping_add(index * self.stride))
    }

    /// The finished row of a query, `d` values: zeros where it saw nothing.
    ///
    /// # Safety
    /// `index < count`.
    #[inline(always)]
    pub unsafe fn result<S: Simd>(&self, s: S, index: usize) -> *const f32 {
        let row = self.results.wrapping_add(index * self.stride);
        let sum = self.state[index].sum;
        let factor = s.splat(if sum > 0.0 { 1.0 / sum } else { 0.0 });
        for at in (0..self.stride).step_by(S::LANES) {
            // SAFETY: a row has `stride` values, a multiple of the lanes.
            unsafe { s.store(row.add(at), s.mul(s.load(row.add(at)), factor)) }
        }
        row
    }
}
