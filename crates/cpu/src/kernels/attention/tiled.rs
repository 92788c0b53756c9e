//! Attention of many rows on AMX tiles.
//!
//! A unit of work is many queries of one KV head. A block of keys and values is brought into tiles once and meets
//! them all; what a query has so far (maximum, sum, weighted values) waits in memory meanwhile.
//!
//! Queries and keys are kept as two bf16 numbers each, so that scores have 16 bits: an error of a score grows
//! exponentially in its weight. Weights and values are rounded to bf16 like the operands of any product.

use super::tile::{Blocks8, Half, Keys, Single};
use super::{sees, serves};
use crate::context::{Context, SCRATCH_BYTES};
use crate::kernels::LeveledRow;
use crate::kernels::convert::quantize_part;
use crate::level::Level;
use crate::pool::Lane;
use crate::simd::math::{exp, soft_cap};
use crate::simd::tiles::{SIDE, STEP, TILE_BYTES, Tiles, round, transpose};
use crate::simd::{Avx512, Simd};
use akunu_dtype::DType;
use akunu_plan::op::{AttentionParams, OpKind, slots::attention};
use akunu_plan::record::{MAY_ROUND, Record, Y_IS_Q8};
use akunu_plan::steps::KV_BLOCK;
use std::arch::x86_64::*;
use std::ops::Range;

pub(in crate::kernels) static TILED: &[LeveledRow] = &[
    row("attention_tiled_f32", |r| serves_tiled(r, DType::F32), run::<Single>),
    row("attention_tiled_f16", |r| serves_tiled(r, DType::F16), run::<Half>),
    row("attention_tiled_q8_0", |r| serves_tiled(r, DType::Q8_0), run::<Blocks8>),
];

const fn row(name: &'static str, serves: fn(&Record) -> bool, run: crate::kernels::Kernel) -> LeveledRow {
    LeveledRow { name, op: OpKind::Attention, level: Level::Amx, serves, run }
}

/// Queries of a unit, and values of a head, at most.
const QUERIES: usize = 512;
const WIDTH: usize = 256;
/// Rows a step must be able to have: below this the other kernels are as fast, and exact.
const FEW: u32 = 16;
/// Units each worker gets, where there are rows enough: later rows see more, and this evens it out.
const UNITS: usize = 4;

fn serves_tiled(record: &Record, dtype: DType) -> bool {
    let p = record.params::<AttentionParams>();
    let d = p.head_dim as usize;
    serves(record, dtype)
        && record.flags & MAY_ROUND != 0
        && record.rows > FEW
        && d.is_multiple_of(STEP)
        && d <= WIDTH
        && (p.heads / p.kv_heads) as usize <= QUERIES
}

/// A worker's scratch memory.
#[repr(C, align(64))]
struct Scratch {
    /// `[query / 16][value / 32]` left tiles: rounded, and the rest.
    queries: [[u8; QUERIES * WIDTH * 2]; 2],
    /// `[query][value]`
    results: [f32; QUERIES * WIDTH],
    /// `[value / 32][position / 16]` right tiles: rounded, and the rest.
    keys: [[u8; KV_BLOCK * WIDTH * 2]; 2],
    /// `[value / 16][position / 32]` right tiles.
    values: [u8; KV_BLOCK * WIDTH * 2],
    /// `[query][position]` of 16 queries.
    scores: [[f32; KV_BLOCK]; SIDE],
    /// The same as `[position / 32]` left tiles.
    weights: [u8; 2 * TILE_BYTES],
    /// By query: the sum in 16 parts, the maximum, the positions seen.
    sums: [[f32; 16]; QUERIES],
    max: [f32; QUERIES],
    sees: [(usize, usize); QUERIES],
}

const _: () = assert!(size_of::<Scratch>() <= SCRATCH_BYTES);

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
unsafe fn run<K: Keys>(record: &Record, context: &Context<'_>, lane: Lane) {
    let p = record.params::<AttentionParams>();
    let count = context.count(record);
    let kv_heads = p.kv_heads as usize;
    let group = (p.heads / p.kv_heads) as usize;
    let parts = (UNITS * lane.count).div_ceil(kv_heads);
    let rows = count.div_ceil(parts).max(SIDE.div_ceil(group)).min(QUERIES / group);
    for unit in (lane.index..count.div_ceil(rows) * kv_heads).step_by(lane.count) {
        let (mut row, kv_head) = (unit / kv_heads * rows, unit % kv_heads);
        let end = count.min(row + rows);
        while row < end {
            // Rows of one sequence at a time: only they see the same keys.
            let sequence = context.row_vars(row).sequence;
            let same = (row..end).take_while(|&r| context.row_vars(r).sequence == sequence).count();
            // SAFETY: the caller's promise; rows of one sequence, as many as a unit can have.
            unsafe { attend::<K>(record, context, lane.index, (row, same), kv_head) }
            row += same;
        }
    }
}

/// Rows of one sequence times the heads of one KV head.
///
/// # Safety
/// As [`crate::kernels::Kernel`], at the AMX level; `rows` times the heads are at most `QUERIES`.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
unsafe fn attend<K: Keys>(
    record: &Record,
    context: &Context<'_>,
    worker: usize,
    (row, rows): (usize, usize),
    kv_head: usize,
) {
    let p = record.params::<AttentionParams>();
    let d = p.head_dim as usize;
    let group = (p.heads / p.kv_heads) as usize;
    let count = rows * group;
    let tiles = count.div_ceil(SIDE);
    let sequence = context.row_vars(row).sequence;
    let kv = context.operand(record, attention::KV);
    let own = record.args[attention::KV].is_none();
    // SAFETY: the scratch is this worker's; every part that is read has been written for this unit.
    // Rows, heads and values are the record's.
    unsafe {
        let s = Avx512::assume();
        let scratch = &mut *context.scratch(worker).cast::<Scratch>();
        for q in 0..tiles * SIDE {
            let seen = if q < count { sees(p, context.row_vars(row + q / group)) } else { 0..0 };
            scratch.sees[q] = (seen.start, seen.end);
            let head = kv_head * group + q % group;
            let from = (q < count)
                .then(|| context.row(record, attention::Q, row + q / group).cast::<f32>().cast_const().add(head * d));
            scratch.set_query(q, from, p.scale, d);
        }
        let steps = d / STEP;
        let device = Tiles::configure();
        let span = span(&scratch.sees[..count]);
        for index in span.start / KV_BLOCK..span.end.div_ceil(KV_BLOCK) {
            let base = index * KV_BLOCK;
            let (keys, values) = if own {
                let first = row - context.row_vars(row).position as usize + base;
                (context.row(record, attention::K, first), context.row(record, attention::V, first))
            } else {
                let Some(block) = context.kv_block(&p.kv, kv, sequence, index) else { continue };
                (block, block.wrapping_add(p.kv.value_offset as usize))
            };
            let head = kv_head * p.kv.head_bytes as usize;
            // Positions nobody sees may never have been written.
            let seen = span.start.max(base) - base..span.end.min(base + KV_BLOCK) - base;
            let stride = p.kv.row_bytes as usize;
            scratch.set_keys::<K>(s, keys.wrapping_add(head), stride, &seen, d);
            scratch.set_values::<K>(s, values.wrapping_add(head), stride, &seen, d);
            for tile in 0..tiles {
                let first = tile * SIDE;
                let seen = self::span(&scratch.sees[first..count.min(first + SIDE)]);
                if seen.end <= base || seen.start >= base + KV_BLOCK {
                    continue;
                }
                let query = |part: usize| scratch.queries[part].as_ptr().add(tile * steps * TILE_BYTES);
                let queries = (query(0), query(1));
                let keys = (scratch.keys[0].as_ptr(), scratch.keys[1].as_ptr());
                device.scores(queries, keys, steps, (&raw mut scratch.scores).cast());
                for i in 0..SIDE {
                    scratch.weigh(s, i, first + i, base, p.soft_cap, d);
                }
                let results = (scratch.results.as_mut_ptr().add(first * d), 4 * d);
                device.mix(scratch.weights.as_ptr(), scratch.values.as_ptr(), results, steps);
            }
        }
        for q in 0..count {
            let y = context.row(record, attention::Y, row + q / group);
            let at = (kv_head * group + q % group) * d;
            let result = scratch.finish(q, d);
            if record.flags & Y_IS_Q8 != 0 {
                quantize_part(s, result, y, p.heads as usize * d, at, d);
            } else {
                std::ptr::copy_nonoverlapping(result, y.cast::<f32>().add(at), d);
            }
        }
    }
}

/// Positions any of the queries sees.
fn span(queries: &[(usize, usize)]) -> Range<usize> {
    let from = queries.iter().map(|q| q.0).min().unwrap_or(0);
    from..queries.iter().map(|q| q.1).max().unwrap_or(0)
}

/// The upper 16 bits, and what they leave.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(v: __m512) -> (__m512, __m512) {
    let upper = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0xffff_0000_u32 as i32));
    let upper = _mm512_castsi512_ps(upper);
    (upper, _mm512_sub_ps(v, upper))
}

impl Scratch {
    /// Query `q` at its beginning: `d` values at `from`, or zeros.
    ///
    /// # Safety
    /// The values are there, `q < QUERIES` and `d <= WIDTH`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn set_query(&mut self, q: usize, from: Option<*const f32>, scale: f32, d: usize) {
        (self.max[q], self.sums[q]) = (f32::NEG_INFINITY, [0.0; 16]);
        self.results[q * d..][..d].fill(0.0);
        for step in 0..d / STEP {
            let at = (q / SIDE * (d / STEP) + step) * TILE_BYTES + q % SIDE * 64;
            // SAFETY: a step of the row, and a row of a tile.
            unsafe {
                let part = |at: usize| match from {
                    Some(from) => _mm512_mul_ps(_mm512_loadu_ps(from.add(step * STEP + at)), _mm512_set1_ps(scale)),
                    None => _mm512_setzero_ps(),
                };
                let ((a, a_rest), (b, b_rest)) = (split(part(0)), split(part(16)));
                _mm512_storeu_si512(self.queries[0].as_mut_ptr().add(at).cast(), round(a, b));
                _mm512_storeu_si512(self.queries[1].as_mut_ptr().add(at).cast(), round(a_rest, b_rest));
            }
        }
    }

    /// The keys of a block.
    ///
    /// # Safety
    /// Rows `seen`, `stride` bytes apart, have `d <= WIDTH` values.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn set_keys<K: Keys>(&mut self, s: Avx512, rows: *const u8, stride: usize, seen: &Range<usize>, d: usize) {
        for step in 0..d / STEP {
            for tile in 0..KV_BLOCK / SIDE {
                let (mut upper, mut rest) = ([_mm512_setzero_ps(); SIDE], [_mm512_setzero_ps(); SIDE]);
                for (i, (upper, rest)) in upper.iter_mut().zip(&mut rest).enumerate() {
                    let position = tile * SIDE + i;
                    if seen.contains(&position) {
                        let row = rows.wrapping_add(position * stride);
                        // SAFETY: a step of a row that was written.
                        let (a, b) = unsafe { (K::load(s, row, step * STEP), K::load(s, row, step * STEP + 16)) };
                        let ((a, a_rest), (b, b_rest)) = (split(a), split(b));
                        *upper = _mm512_castsi512_ps(round(a, b));
                        *rest = _mm512_castsi512_ps(round(a_rest, b_rest));
                    }
                }
                for (to, part) in self.keys.iter_mut().zip([upper, rest]) {
                    let to = &mut to[(step * (KV_BLOCK / SIDE) + tile) * TILE_BYTES..][..TILE_BYTES];
                    for (to, v) in to.chunks_exact_mut(64).zip(transpose(part)) {
                        // SAFETY: a row of a tile.
                        unsafe { _mm512_storeu_ps(to.as_mut_ptr().cast(), v) };
                    }
                }
            }
        }
    }

    /// The values of a block.
    ///
    /// # Safety
    /// As [`Self::set_keys`].
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn set_values<K: Keys>(&mut self, s: Avx512, rows: *const u8, stride: usize, seen: &Range<usize>, d: usize) {
        #[rustfmt::skip]
        let pairs = _mm512_set_epi16(
            31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
            23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0,
        );
        for tile in 0..d / SIDE {
            for pair in 0..KV_BLOCK / 2 {
                let part = |position: usize| {
                    if seen.contains(&position) {
                        // SAFETY: 16 values of a row that was written.
                        unsafe { K::load(s, rows.wrapping_add(position * stride), tile * SIDE) }
                    } else {
                        _mm512_setzero_ps()
                    }
                };
                let v = _mm512_permutexvar_epi16(pairs, round(part(2 * pair), part(2 * pair + 1)));
                let at = tile * 2 * TILE_BYTES + pair * 64;
                // SAFETY: a row of a tile.
                unsafe { _mm512_storeu_si512(self.values[at..][..64].as_mut_ptr().cast(), v) };
            }
        }
    }

    /// Scores `i` to weights `e^(score - max)` of query `q`, 0 where it does not see; moves what it has so far on.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    fn weigh(&mut self, s: Avx512, i: usize, q: usize, base: usize, cap: f32, d: usize) {
        let to = |tile: usize| tile * TILE_BYTES + i * 64;
        let inside = |position: usize| position.clamp(base, base + KV_BLOCK) - base;
        let (from, end) = (inside(self.sees[q].0), inside(self.sees[q].1));
        let low = |n: usize| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
        let mask = low(end) & !low(from);
        let lanes = |part: usize| (mask >> (16 * part)) as u16;
        let nothing = _mm512_set1_ps(f32::NEG_INFINITY);
        let mut v = [nothing; 4];
        for (part, v) in v.iter_mut().enumerate() {
            // SAFETY: 16 scores of the row.
            let mut score = unsafe { _mm512_loadu_ps(self.scores[i][16 * part..][..16].as_ptr()) };
            if cap != 0.0 {
                score = soft_cap(s, score, cap);
            }
            *v = _mm512_mask_mov_ps(nothing, lanes(part), score);
        }
        let largest = _mm512_max_ps(_mm512_max_ps(v[0], v[1]), _mm512_max_ps(v[2], v[3]));
        let max = _mm512_reduce_max_ps(largest).max(self.max[q]);
        if mask == 0 || max == f32::NEG_INFINITY {
            self.weights[to(0)..][..64].fill(0);
            self.weights[to(1)..][..64].fill(0);
            return;
        }
        // SAFETY: 16 values each of the query's sums, its results and a tile's row.
        unsafe {
            let mut sum = _mm512_loadu_ps(self.sums[q].as_ptr());
            if max > self.max[q] {
                let shrink = _mm512_set1_ps((self.max[q] - max).exp());
                sum = _mm512_mul_ps(sum, shrink);
                for values in self.results[q * d..][..d].chunks_exact_mut(16) {
                    let v = _mm512_mul_ps(_mm512_loadu_ps(values.as_ptr()), shrink);
                    _mm512_storeu_ps(values.as_mut_ptr(), v);
                }
                self.max[q] = max;
            }
            let max = _mm512_set1_ps(max);
            for (part, v) in v.iter_mut().enumerate() {
                *v = _mm512_maskz_mov_ps(lanes(part), exp(s, _mm512_sub_ps(*v, max)));
                sum = _mm512_add_ps(sum, *v);
            }
            _mm512_storeu_ps(self.sums[q].as_mut_ptr(), sum);
            _mm512_storeu_si512(self.weights[to(0)..][..64].as_mut_ptr().cast(), round(v[0], v[1]));
            _mm512_storeu_si512(self.weights[to(1)..][..64].as_mut_ptr().cast(), round(v[2], v[3]));
        }
    }

    /// The finished row of a query, `d` values: zeros where it saw nothing.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn finish(&mut self, q: usize, d: usize) -> *const f32 {
        // SAFETY: 16 values each of the query's sums and its results.
        unsafe {
            let sum = _mm512_reduce_add_ps(_mm512_loadu_ps(self.sums[q].as_ptr()));
            let factor = _mm512_set1_ps(if sum > 0.0 { 1.0 / sum } else { 0.0 });
            for values in self.results[q * d..][..d].chunks_exact_mut(16) {
                let v = _mm512_mul_ps(_mm512_loadu_ps(values.as_ptr()), factor);
                _mm512_storeu_ps(values.as_mut_ptr(), v);
            }
        }
        self.results[q * d..].as_ptr()
    }
}
