//! A tile of queries and its online softmax: `max`, `sum` and the weighted values so far.

use super::Reading;
use super::keys::{KeyBlock, Keys, Prefetcher, SPAN, SPAN_BLOCKS, Span};
use crate::simd::math::{exp, soft_cap};
use crate::simd::{Body, Simd};
use akunu_dtype::{DType, Planes};
use akunu_plan::op::AttentionParams;
use akunu_plan::steps::KV_BLOCK;
use std::marker::PhantomData;
use std::ops::Range;

/// The numbers of the lanes of the widest level.
pub(super) static LANE_NUMBERS: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// Queries of a tile, at most.
pub(super) const TILE: usize = 16;

/// How far a query is in the softmax.
#[derive(Clone, Copy)]
pub(super) struct Query {
    /// Positions it sees, as a range.
    from: usize,
    to: usize,
    /// Of the positions before its own, the last it sees, those that it does not: bit `i` is `i + 1` before.
    hidden: u64,
    max: f32,
    pub(super) sum: f32,
    /// What the values so far are to be multiplied with, because the maximum rose.
    shrink: f32,
}

impl Query {
    /// What finishes its results: 0 where it saw nothing.
    #[inline(always)]
    fn inverse(&self) -> f32 {
        if self.sum > 0.0 { 1.0 / self.sum } else { 0.0 }
    }
}

/// Everything about one tile after the other. The pointers lead into the worker's scratch.
pub(super) struct Tile {
    pub(super) count: usize,
    /// Head size, and the same rounded up to whole vectors; the rest holds zeros.
    pub(super) d: usize,
    pub(super) stride: usize,
    /// `[count][stride]`, times the attention scale.
    pub(super) queries: *mut f32,
    /// `[count][stride]`
    pub(super) results: *mut f32,
    /// `[count][SPAN]`: scores, then weights, of the span at hand.
    pub(super) scores: *mut f32,
    /// `[SPAN][stride]`, for keys and then values that are decoded.
    decoded: *mut f32,
    pub(super) state: [Query; TILE],
}

pub(super) const fn padded(d: usize) -> usize {
    d.next_multiple_of(16)
}

impl Tile {
    /// Bytes of scratch a tile of this head size takes.
    pub const fn bytes(d: usize) -> usize {
        4 * (2 * TILE * padded(d) + TILE * SPAN + SPAN * padded(d))
    }

    /// A tile of no queries: see [`Self::begin`].
    ///
    /// # Safety
    /// `scratch` has `bytes(d)` bytes, aligned for f32, for as long as the tile lives.
    #[inline(always)]
    pub unsafe fn new(scratch: *mut u8, d: usize) -> Self {
        let stride = padded(d);
        let queries = scratch.cast::<f32>();
        let results = queries.wrapping_add(TILE * stride);
        let scores = results.wrapping_add(TILE * stride);
        let decoded = scores.wrapping_add(TILE * SPAN);
        let none = Query { from: 0, to: 0, hidden: 0, max: f32::NEG_INFINITY, sum: 0.0, shrink: 1.0 };
        Self { count: 0, d, stride, queries, results, scores, decoded, state: [none; TILE] }
    }

    /// Begins another `count` queries, `TILE` at most, all of which are set before anything else.
    #[inline(always)]
    pub fn begin(&mut self, count: usize) {
        self.count = count;
    }

    /// # Safety
    /// `index < count <= TILE`, and `q` has `d` values.
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
        let [query, result] = [self.queries, self.results].map(|rows| rows.wrapping_add(index * self.stride));
        let whole = self.d / S::LANES * S::LANES;
        // SAFETY: both rows have `d` values, rounded up to whole vectors.
        unsafe {
            for at in (0..whole).step_by(S::LANES) {
                s.store(query.add(at), s.mul(s.load(q.add(at)), scale));
                s.store(result.add(at), s.splat(0.0));
            }
            for at in (whole..self.stride).step_by(S::LANES) {
                let n = S::LANES.min(self.d.saturating_sub(at));
                s.store(query.add(at), s.mul(s.load_some(q.wrapping_add(at), n), scale));
                s.store(result.add(at), s.splat(0.0));
            }
        }
        let Range { start: from, end: to } = sees;
        self.state[index] = Query { from, to, hidden, max: f32::NEG_INFINITY, sum: 0.0, shrink: 1.0 };
    }

    /// Positions any query sees.
    pub fn span(&self) -> Range<usize> {
        let queries = &self.state[..self.count];
        let from = queries.iter().map(|q| q.from).min().unwrap_or(0);
        from..queries.iter().map(|q| q.to).max().unwrap_or(0)
    }

    /// Takes in the positions `base..base + SPAN`; `next` is what will be read after them. Both come with the bytes from the first
    /// KV head's to those at hand.
    ///
    /// # Safety
    /// The blocks have what they say is seen, which is what the queries see of the span.
    #[inline(always)]
    pub unsafe fn visit<S: Simd>(
        &mut self,
        s: S,
        p: &AttentionParams,
        reading: Reading<S>,
        base: usize,
        (here, head): (&Span, usize),
        (next, next_head): (&Span, usize),
    ) {
        let span = self.span();
        let seen = span.start.max(base) - base..span.end.min(base + SPAN) - base;
        let steps = self.count.div_ceil(together::<S>()) * steps(&here.blocks);
        // SAFETY: the caller's promise.
        unsafe {
            (reading.score)(
                s,
                Score { tile: self, p, direct: reading.direct, seen: seen.clone(), here: (here, head), steps },
            );
            s.call(Weigh { tile: self, cap: p.soft_cap, base, seen });
            let (here, next) = ((here, head), (next, next_head));
            (reading.mix)(s, Mix { tile: self, p, direct: reading.direct, here, steps, next, whole: false });
        }
    }

    /// The scores of the positions `seen` of a span, while its values are prefetched in so many steps.
    ///
    /// # Safety
    /// As [`Self::visit`].
    #[inline(always)]
    unsafe fn score_blocks<S: Simd, K: Keys>(&self, s: S, score: Score<'_>) {
        let Score { p, direct, ref seen, here: (here, head), steps, .. } = score;
        let prefetcher = &mut Prefetcher::new::<K>(here, head as isize + here.values, (steps, K::LINES));
        for (index, block) in here.blocks().iter().enumerate() {
            let keys = block.keys.wrapping_add(head);
            // SAFETY: the caller's promise; decoded rows are `stride` f32 values in scratch.
            unsafe {
                if block.seen().is_empty() {
                    if seen.start < (index + 1) * KV_BLOCK && index * KV_BLOCK < seen.end {
                        self.score_nothing(s, index);
                    }
                    continue;
                }
                // One call for both: it is compiled into this function.
                let rows = match direct {
                    true => (keys, p.kv.row_bytes as usize),
                    false => (self.decode(p, keys, index, &block.seen()), 4 * self.stride),
                };
                self.score::<S, K>(s, (index, block), rows, prefetcher);
            }
        }
    }

    /// Rows `seen` of the span's block `index` as f32, padded with zeros.
    ///
    /// # Safety
    /// `from` is the rows of one head of a block.
    unsafe fn decode(&self, p: &AttentionParams, from: *const u8, index: usize, seen: &Range<usize>) -> *const u8 {
        let to = self.decoded.wrapping_add(index * KV_BLOCK * self.stride);
        let Some(dtype) = DType::from_index(p.kv.dtype as u8) else { return to.cast() };
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
        to.cast()
    }

    /// Scores to weights `e^(score - max)`, 0 where a query does not see; moves max and sum on.
    ///
    /// # Safety
    /// The scores of the positions seen were written.
    #[inline(always)]
    unsafe fn weigh<S: Simd>(&mut self, s: S, cap: f32, base: usize, seen: &Range<usize>) {
        let (lowest, nothing) = (s.splat(-f32::MAX), s.splat(f32::NEG_INFINITY));
        // SAFETY: as many as the widest has lanes.
        let lanes = unsafe { s.load(LANE_NUMBERS.as_ptr()) };
        // Whole vectors around what is seen by some query.
        let (first, end) = (seen.start / S::LANES * S::LANES, seen.end.next_multiple_of(S::LANES));
        for (t, query) in self.state[..self.count].iter_mut().enumerate() {
            let scores = self.scores.wrapping_add(t * SPAN);
            let [from, to] = [query.from, query.to].map(|place| place.clamp(base, base + SPAN) - base);
            // Hidden positions are all in the block that ends what the query sees.
            let hidden = if query.to <= base + SPAN { query.hidden } else { 0 };
            let is_hidden = |i: usize| i + 1 < to && i + KV_BLOCK >= to && hidden >> (to - 2 - i) & 1 == 1;
            query.shrink = 1.0;
            // SAFETY: `scores` has `SPAN` values, a multiple of the lanes.
            unsafe {
                if hidden != 0 {
                    (from..to).filter(|i| is_hidden(*i)).for_each(|i| *scores.add(i) = f32::NEG_INFINITY);
                }
                let mut largest = nothing;
                for at in (first..end).step_by(S::LANES) {
                    let mut v = s.load(scores.add(at));
                    let edge = at < from || at + S::LANES > to;
                    if cap != 0.0 {
                        v = s.select_lt(v, lowest, v, soft_cap(s, v, cap));
                    }
                    if edge {
                        let place = s.add(lanes, s.splat(at as f32));
                        v = s.select_lt(place, s.splat(to as f32), v, nothing);
                        v = s.select_lt(place, s.splat(from as f32), nothing, v);
                    }
                    if edge || cap != 0.0 {
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
                    let mut packed = [0.0f32; SPAN];
                    for (next, i) in (from..).zip((from..to).filter(|i| !is_hidden(*i))) {
                        packed[next] = *scores.add(i);
                    }
                    sum = s.splat(0.0);
                    for at in (0..SPAN).step_by(S::LANES) {
                        sum = s.add(sum, s.load(packed.as_ptr().add(at)));
                    }
                }
                query.shrink = match query.max {
                    before if before == max => 1.0,
                    f32::NEG_INFINITY => 0.0,
                    before => (before - max).exp(),
                };
                query.sum = query.sum * query.shrink + s.sum(sum);
                query.max = max;
            }
        }
    }

    /// `results[t] = shrink[t] * results[t] + Σ weight[t][position] * value[position]`, while `next` is prefetched in so many
    /// steps. Where `whole`, nothing came before and nothing follows: the results are finished.
    ///
    /// # Safety
    /// As [`Self::visit`], with the weights written.
    #[inline(always)]
    unsafe fn mix<S: Simd, K: Keys>(&self, s: S, mix: Mix<'_>) {
        let Mix { p, direct, here: (here, head), steps, next: (next, next_head), whole, .. } = mix;
        let mut values = [std::ptr::null(); SPAN_BLOCKS];
        for (index, (to, block)) in values.iter_mut().zip(&here.blocks).enumerate() {
            let rows = block.keys.wrapping_offset(head as isize + here.values);
            // SAFETY: the caller's promise.
            *to = if direct { rows } else { unsafe { self.decode(p, rows, index, &block.seen()) } };
        }
        let row_bytes = if direct { p.kv.row_bytes as usize } else { 4 * self.stride };
        let passes = K::shape(self.d, 0).0.div_ceil(4 * S::LANES);
        let prefetcher = (steps * passes, K::LINES.div_ceil(passes));
        let prefetcher = &mut Prefetcher::new::<K>(next, next_head as isize, prefetcher);
        let (blocks, values) = (here.blocks(), (&values, row_bytes));
        let together = together::<S>();
        let mut t = 0;
        // SAFETY: the caller's promise, and `t` never passes `count`.
        unsafe {
            while t < self.count {
                match (self.count - t).min(together) {
                    4 => self.mix_some::<S, K, 4>(s, t, blocks, values, prefetcher, whole),
                    3 => self.mix_some::<S, K, 3>(s, t, blocks, values, prefetcher, whole),
                    2 => self.mix_some::<S, K, 2>(s, t, blocks, values, prefetcher, whole),
                    _ => self.mix_some::<S, K, 1>(s, t, blocks, values, prefetcher, whole),
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
        blocks: &[KeyBlock],
        values: (&[*const u8; SPAN_BLOCKS], usize),
        prefetcher: &mut Prefetcher,
        whole: bool,
    ) {
        let (width, _) = K::shape(self.stride, 0);
        let mut at = 0;
        // SAFETY: columns stay below `width`, a multiple of the lanes.
        unsafe {
            while at + 4 * S::LANES <= width {
                self.mix_columns::<S, K, N, 4>(s, (t, at), blocks, values, prefetcher, whole);
                at += 4 * S::LANES;
            }
            while at + 2 * S::LANES <= width {
                self.mix_columns::<S, K, N, 2>(s, (t, at), blocks, values, prefetcher, whole);
                at += 2 * S::LANES;
            }
            while at < width {
                self.mix_columns::<S, K, N, 1>(s, (t, at), blocks, values, prefetcher, whole);
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
        blocks: &[KeyBlock],
        (values, row_bytes): (&[*const u8; SPAN_BLOCKS], usize),
        prefetcher: &mut Prefetcher,
        whole: bool,
    ) {
        let (_, row_bytes) = K::shape(self.d, row_bytes);
        let mut sums = [[s.splat(0.0); C]; N];
        // SAFETY: queries, columns and positions are inside, by the caller's promise.
        unsafe {
            if !whole {
                for (i, sums) in sums.iter_mut().enumerate() {
                    let results = self.results.add((t + i) * self.stride + at);
                    let shrink = s.splat(self.state[t + i].shrink);
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = s.mul(s.load(results.add(j * S::LANES)), shrink);
                    }
                }
            }
            for (index, (block, values)) in blocks.iter().zip(values).enumerate() {
                let weights = self.scores.add(t * SPAN + index * KV_BLOCK);
                if block.seen().is_empty() {
                    continue;
                }
                let mut position = block.from;
                while position + 4 <= block.to {
                    prefetcher.step::<K>();
                    for i in 0..4 {
                        let (row, weights) = (values.add((position + i) * row_bytes), weights.add(position + i));
                        add_row::<S, K, N, C>(s, &mut sums, row, at, weights);
                    }
                    position += 4;
                }
                prefetcher.step::<K>();
                for position in position..block.to {
                    let (row, weights) = (values.add(position * row_bytes), weights.add(position));
                    add_row::<S, K, N, C>(s, &mut sums, row, at, weights);
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                let results = self.results.add((t + i) * self.stride + at);
                let factor = s.splat(if whole { self.state[t + i].inverse() } else { 1.0 });
                for (j, &sum) in sums.iter().enumerate() {
                    s.store(results.add(j * S::LANES), s.mul(sum, factor));
                }
            }
        }
    }

    /// A query's maximum, sum and weighted values so far.
    pub fn partial(&self, index: usize) -> (f32, f32, *const f32) {
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
        let factor = s.splat(self.state[index].inverse());
        for at in (0..self.stride).step_by(S::LANES) {
            // SAFETY: a row has `stride` values, a multiple of the lanes.
            unsafe { s.store(row.add(at), s.mul(s.load(row.add(at)), factor)) }
        }
        row
    }
}

/// What [`Tile::score_blocks`] takes.
pub(super) struct Score<'a> {
    pub tile: &'a Tile,
    pub p: &'a AttentionParams,
    /// Whether vectors are loaded from the cache as they are; else a block is decoded first.
    pub direct: bool,
    pub seen: Range<usize>,
    pub here: (&'a Span, usize),
    pub steps: usize,
}

/// What [`Tile::mix`] takes.
pub(super) struct Mix<'a> {
    pub tile: &'a Tile,
    pub p: &'a AttentionParams,
    pub direct: bool,
    pub here: (&'a Span, usize),
    pub steps: usize,
    pub next: (&'a Span, usize),
    pub whole: bool,
}

/// A step of attention, for keys and values that are read as `K` does it.
struct Of<T, K>(T, PhantomData<K>);

impl<K: Keys> Body for Of<Score<'_>, K> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: the same contract.
        unsafe { self.0.tile.score_blocks::<S, K>(s, self.0) }
    }
}

impl<K: Keys> Body for Of<Mix<'_>, K> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: the same contract.
        unsafe { self.0.tile.mix::<S, K>(s, self.0) }
    }
}

/// # Safety
/// As [`Tile::score_blocks`].
pub(super) unsafe fn score<S: Simd, K: Keys>(s: S, score: Score<'_>) {
    // SAFETY: the same contract.
    unsafe { s.call(Of::<_, K>(score, PhantomData)) }
}

/// # Safety
/// As [`Tile::mix`].
pub(super) unsafe fn mix<S: Simd, K: Keys>(s: S, mix: Mix<'_>) {
    // SAFETY: the same contract.
    unsafe { s.call(Of::<_, K>(mix, PhantomData)) }
}

/// [`Tile::weigh`] as a function of its own.
struct Weigh<'a> {
    tile: &'a mut Tile,
    cap: f32,
    base: usize,
    seen: Range<usize>,
}

impl Body for Weigh<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: the same contract.
        unsafe { self.tile.weigh(s, self.cap, self.base, &self.seen) }
    }
}

/// Queries that are computed together: as many as the registers hold sums of.
#[inline(always)]
pub(super) fn together<S: Simd>() -> usize {
    if S::REGISTERS >= 32 { 4 } else { 2 }
}

/// How often four positions of some blocks are computed together.
pub(super) fn steps(blocks: &[KeyBlock; SPAN_BLOCKS]) -> usize {
    blocks.iter().map(|block| block.seen().len().div_ceil(4)).sum()
}

/// `sums[i] += weight[i] * row` for `C` vectors of the row from `at` on; weights are `SPAN` apart.
///
/// # Safety
/// The row has them, and there are as many weights as sums.
#[inline(always)]
unsafe fn add_row<S: Simd, K: Keys, const N: usize, const C: usize>(
    s: S,
    sums: &mut [[S::V; C]; N],
    row: *const u8,
    at: usize,
    weights: *const f32,
) {
    let mut v = [s.splat(0.0); C];
    // SAFETY: the caller's promise.
    unsafe {
        for (j, v) in v.iter_mut().enumerate() {
            *v = K::load(s, row, at + j * S::LANES);
        }
        for (i, sums) in sums.iter_mut().enumerate() {
            let weight = s.splat(*weights.add(i * SPAN));
            for (sum, v) in sums.iter_mut().zip(v) {
                *sum = s.fma(weight, v, *sum);
            }
        }
    }
}
