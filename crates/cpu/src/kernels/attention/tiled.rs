//! Attention of many rows on AMX tiles.
//!
//! A unit of work is many queries of one KV head. A block of keys and values is brought into tiles once and meets
//! them all; what a query has so far (start, sum, weighted values) waits in memory meanwhile. Scores, weights and results
//! stand with 16 queries side by side in a register, so that nothing is ever summed or compared across lanes. While the
//! scores of 16 queries become weights, the matrix unit scores the 16 after them and mixes values for the 16 before.
//!
//! Queries and keys are kept as two bf16 numbers each, so that scores have 16 bits: an error of a score grows
//! exponentially in its weight. Weights and values are rounded to bf16 like the operands of any product.

use super::keys::{Blocks8, Half, Keys, Single};
use super::softmax::{Meanwhile, Queries, cap};
use super::{WIDEST, sees, serves};
use crate::context::{Context, SCRATCH_BYTES};
use crate::kernels::LeveledRow;
use crate::kernels::convert::write_part;
use crate::level::Level;
use crate::share::Share;
use crate::simd::bf16::round;
use crate::simd::tiles::{Mix, SIDE, STEP, Scores, TILE_BYTES, Tiles, transpose};
use crate::simd::{Avx512, Simd, prefetch_far, prefetch_row};
use akunu_dtype::DType;
use akunu_plan::op::{AttentionParams, OpKind, slots::attention};
use akunu_plan::record::{MAY_ROUND, Record};
use akunu_plan::steps::KV_BLOCK;
use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;
use std::ops::Range;

pub(in crate::kernels) const TILED: &[LeveledRow] = &[
    row("attention_tiled_f32", |r| serves_tiled(r, DType::F32), run::<Single>),
    row("attention_tiled_f16", |r| serves_tiled(r, DType::F16), run::<Half<0>>),
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
/// Bytes of the next block's keys, and of its values, that are prefetched beside 16 queries.
const NEXT: usize = 1024;
/// Units each worker gets, where there are rows enough: later rows see more, and this evens it out.
const UNITS: usize = 4;

fn serves_tiled(record: &Record, dtype: DType) -> bool {
    let p = record.params::<AttentionParams>();
    let d = p.head_dim as usize;
    serves(record)
        && p.kv.dtype == u32::from(dtype.index())
        && d.is_multiple_of(WIDEST)
        && record.flags & MAY_ROUND != 0
        && record.rows > FEW
        && d.is_multiple_of(STEP)
        && d <= WIDTH
        && (p.heads / p.kv_heads) as usize <= QUERIES
}

/// A worker's scratch memory.
#[repr(C, align(64))]
struct Scratch {
    /// `[query / 16][value / 32]` right tiles: rounded, and the rest.
    queries: [[u8; QUERIES * WIDTH * 2]; 2],
    /// `[query / 16][value][query % 16]`
    results: [f32; QUERIES * WIDTH],
    /// `[position / 16][value / 32]` left tiles: rounded, and the rest.
    keys: [[u8; KV_BLOCK * WIDTH * 2]; 2],
    /// `[value / 16][position / 32]` left tiles.
    values: [u8; KV_BLOCK * WIDTH * 2],
    /// `[position][query]` of 16 queries, and of the 16 after them.
    scores: [[[f32; SIDE]; KV_BLOCK]; 2],
    /// The same as `[position / 32]` right tiles, and those of the 16 before them.
    weights: [[u8; 2 * TILE_BYTES]; 2],
    /// `[query][value]` of 16 queries that are done.
    rows: [f32; SIDE * WIDTH],
    /// By query: the sum of its weights, what is added to its scores, the positions it sees.
    sums: [f32; QUERIES],
    start: [f32; QUERIES],
    from: [i32; QUERIES],
    end: [i32; QUERIES],
}

const _: () = assert!(size_of::<Scratch>() <= SCRATCH_BYTES);

/// No start.
static NONE: [f32; SIDE] = [0.0; SIDE];

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
unsafe fn run<K: Keys>(record: &Record, context: &Context<'_>, share: Share) {
    let p = record.params::<AttentionParams>();
    let count = context.count(record);
    let kv_heads = p.kv_heads as usize;
    let group = (p.heads / p.kv_heads) as usize;
    let parts = (UNITS * share.count).div_ceil(kv_heads);
    let rows = count.div_ceil(parts).max(SIDE.div_ceil(group)).min(QUERIES / group);
    let units = count.div_ceil(rows) * kv_heads;
    // Later rows see more: the longest units first, so that the last ones taken are short.
    for unit in context.steal(record, share, units).map(|i| units - 1 - i) {
        let (mut row, kv_head) = (unit / kv_heads * rows, unit % kv_heads);
        let end = count.min(row + rows);
        while row < end {
            // Rows of one sequence at a time: only they see the same keys.
            let sequence = context.row_vars(row).sequence;
            let same = (row..end).take_while(|&r| context.row_vars(r).sequence == sequence).count();
            // SAFETY: the caller's promise; rows of one sequence, as many as a unit can have.
            unsafe { attend(record, context, share.index, (row, same), kv_head, Fill::of::<K>()) }
            row += same;
        }
    }
}

/// How the keys and the values of a block become tiles.
#[derive(Clone, Copy)]
struct Fill {
    keys: FillFn,
    values: FillFn,
}

type FillFn = unsafe fn(&mut Scratch, Avx512, *const u8, usize, &Range<usize>, usize);

impl Fill {
    fn of<K: Keys>() -> Self {
        Self { keys: Scratch::set_keys::<K>, values: Scratch::set_values::<K> }
    }
}

/// Rows of one sequence times the heads of one KV head.
///
/// # Safety
/// As [`crate::kernels::Kernel`], at the AMX level; `rows` times the heads are at most `QUERIES`.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
unsafe fn attend(
    record: &Record,
    context: &Context<'_>,
    worker: usize,
    (row, rows): (usize, usize),
    kv_head: usize,
    fill: Fill,
) {
    let p = record.params::<AttentionParams>();
    let d = p.head_dim as usize;
    let group = (p.heads / p.kv_heads) as usize;
    let count = rows * group;
    let tiles = count.div_ceil(SIDE);
    let sequence = context.row_vars(row).sequence;
    let kv = context.operand(record, attention::KV);
    let own = record.args[attention::KV].is_none();
    let Some(s) = Avx512::detect() else { return };
    // SAFETY: the scratch is this worker's; every part that is read has been written for this unit.
    // Rows, heads and values are the record's.
    unsafe {
        let scratch = &mut *context.scratch(worker).cast::<Scratch>();
        // Capped scores are of base e until they are capped.
        let scale = if p.soft_cap == 0.0 { p.scale * LOG2_E } else { p.scale };
        for tile in 0..tiles {
            let query = |q: usize| {
                let head = kv_head * group + q % group;
                let row = context.row(record, attention::Q, row + q / group).cast::<f32>().cast_const();
                (q < count).then(|| row.add(head * d))
            };
            (0..SIDE).filter_map(|i| query((tile + 1) * SIDE + i)).for_each(|next| prefetch_row(next, d));
            scratch.set_queries(tile, std::array::from_fn(|i| query(tile * SIDE + i)), scale, d);
        }
        for q in 0..tiles * SIDE {
            let seen = if q < count { sees(p, context.row_vars(row + q / group)) } else { 0..0 };
            (scratch.from[q], scratch.end[q]) = (seen.start as i32, seen.end as i32);
        }
        let of_tile = |tile: usize| scratch.seen(count.min(tile * SIDE)..count.min((tile + 1) * SIDE));
        let seen_by: [_; QUERIES / SIDE] = std::array::from_fn(of_tile);
        let steps = d / STEP;
        let device = Tiles::configure();
        let (span, _) = scratch.seen(0..count);
        let head = kv_head * p.kv.head_bytes as usize;
        let rows_of = |index: usize| {
            let (keys, values) = if own {
                let first = row - context.row_vars(row).position as usize + index * KV_BLOCK;
                (context.row(record, attention::K, first), context.row(record, attention::V, first))
            } else {
                let block = context.kv_block(&p.kv, kv, sequence, index)?;
                (block, block.wrapping_add(p.kv.value_offset as usize))
            };
            Some([keys, values].map(|rows| rows.wrapping_add(head).cast_const()))
        };
        let indices = span.start / KV_BLOCK..span.end.div_ceil(KV_BLOCK);
        for index in indices.clone() {
            let base = index * KV_BLOCK;
            let Some([keys, values]) = rows_of(index) else { continue };
            let next = if own || index + 1 == indices.end { None } else { rows_of(index + 1) };
            // Positions nobody sees may never have been written.
            let seen = span.start.max(base) - base..span.end.min(base + KV_BLOCK) - base;
            let stride = p.kv.row_bytes as usize;
            (fill.keys)(scratch, s, keys, stride, &seen, d);
            (fill.values)(scratch, s, values, stride, &seen, d);
            let scratch = &raw mut *scratch;
            let score = move |tile: usize, turn: usize| Scores {
                queries: [0, 1]
                    .map(|part| (&raw const (*scratch).queries[part]).cast::<u8>().add(tile * steps * TILE_BYTES)),
                keys: [0, 1].map(|part| (&raw const (*scratch).keys[part]).cast()),
                // Scores are capped before they have a start.
                start: if p.soft_cap == 0.0 {
                    (&raw const (*scratch).start).cast::<f32>().add(tile * SIDE)
                } else {
                    NONE.as_ptr()
                },
                scores: (&raw mut (*scratch).scores[turn % 2]).cast(),
            };
            let mix = move |tile: usize, turn: usize| Mix {
                weights: (&raw const (*scratch).weights[turn % 2]).cast(),
                values: (&raw const (*scratch).values).cast(),
                results: (&raw mut (*scratch).results).cast::<f32>().add(tile * SIDE * d),
            };
            let block = base..base + KV_BLOCK;
            let mut looking = (0..tiles).filter(|&tile| {
                let (any, _) = &seen_by[tile];
                any.start < block.end && block.start < any.end
            });
            // The queries whose values are to be mixed, those whose scores are there, and those to be scored.
            let (mut before, mut now, mut after) = (None, None, looking.next());
            for turn in 0.. {
                // A part of the next block each time: all at once would wait for each other.
                let part = turn * NEXT..(turn * NEXT + NEXT).min(KV_BLOCK * stride);
                for rows in next.iter().flatten() {
                    part.clone().step_by(64).for_each(|at| prefetch_far(rows.wrapping_add(at)));
                }
                let meanwhile = Meanwhile {
                    tiles: &device,
                    steps,
                    scores: after.map(|tile| score(tile, turn + 1)),
                    mix: before.map(|tile| mix(tile, turn + 1)),
                };
                let Some(tile) = now else {
                    meanwhile.run(&mut || {});
                    (before, now, after) = (None, after, looking.next());
                    if now.is_none() {
                        break;
                    }
                    continue;
                };
                let scores = &mut (*scratch).scores[turn % 2];
                let weights = &mut (*scratch).weights[turn % 2];
                let (_, all) = &seen_by[tile];
                let queries = Scratch::queries(scratch, tile, d);
                if p.soft_cap != 0.0 {
                    cap(s, scores, p.soft_cap, queries.start);
                }
                if all.start <= block.start && all.end >= block.end && (tile + 1) * SIDE <= count {
                    queries.weigh::<true>(base, scores, weights, meanwhile);
                } else {
                    queries.weigh::<false>(base, scores, weights, meanwhile);
                }
                (before, now, after) = (now, after, looking.next());
            }
        }
        for q in 0..count {
            if q % SIDE == 0 {
                scratch.finish(q / SIDE, d);
            }
            let part = (p.heads as usize * d, (kv_head * group + q % group) * d, d);
            let result = scratch.rows[q % SIDE * d..][..d].as_ptr();
            write_part(s, record, context, (attention::Y, row + q / group), part, result);
        }
    }
}

/// The upper 16 bits, and what they leave.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(v: __m512) -> (__m512, __m512) {
    let upper = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0xffff_0000_u32 as i32));
    let upper = _mm512_castsi512_ps(upper);
    (upper, _mm512_sub_ps(v, upper))
}

/// Two rows of 16 values as bf16, those of a column side by side.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pairs(even: __m512, odd: __m512) -> __m512i {
    #[rustfmt::skip]
    let side_by_side = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
        23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0,
    );
    _mm512_permutexvar_epi16(side_by_side, round(even, odd))
}

impl Scratch {
    /// Positions any of some queries sees, and those all of them see.
    fn seen(&self, queries: Range<usize>) -> (Range<usize>, Range<usize>) {
        let (from, end) = (&self.from[queries.clone()], &self.end[queries]);
        let ends = |v: &[i32]| {
            let least = v.iter().copied().min().unwrap_or(0);
            (least as usize, v.iter().copied().max().unwrap_or(0) as usize)
        };
        let ((first, last_from), (first_end, last)) = (ends(from), ends(end));
        (first..last, last_from..first_end)
    }

    /// 16 queries at their beginning: `d` values each, or zeros.
    ///
    /// # Safety
    /// The values are there, the tile is one of `QUERIES / 16` and `d <= WIDTH`.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn set_queries(&mut self, tile: usize, from: [Option<*const f32>; SIDE], scale: f32, d: usize) {
        let queries = tile * SIDE..(tile + 1) * SIDE;
        self.start[queries.clone()].fill(0.0);
        self.sums[queries].fill(0.0);
        self.results[tile * SIDE * d..][..SIDE * d].fill(0.0);
        for step in 0..d / STEP {
            let (mut upper, mut rest) = ([_mm512_setzero_ps(); SIDE], [_mm512_setzero_ps(); SIDE]);
            for (i, from) in from.iter().enumerate() {
                let Some(from) = from else { continue };
                // SAFETY: a step of the row.
                let part = |at: usize| unsafe {
                    _mm512_mul_ps(_mm512_loadu_ps(from.add(step * STEP + at)), _mm512_set1_ps(scale))
                };
                let ((a, a_rest), (b, b_rest)) = (split(part(0)), split(part(16)));
                upper[i] = _mm512_castsi512_ps(round(a, b));
                rest[i] = _mm512_castsi512_ps(round(a_rest, b_rest));
            }
            for (to, part) in self.queries.iter_mut().zip([upper, rest]) {
                set_tile(&mut to[(tile * (d / STEP) + step) * TILE_BYTES..], transpose(part));
            }
        }
    }

    /// The keys of a block.
    ///
    /// # Safety
    /// Rows `seen`, `stride` bytes apart, have `d <= WIDTH` values, and the machine has the AMX level.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn set_keys<K: Keys>(&mut self, s: Avx512, rows: *const u8, stride: usize, seen: &Range<usize>, d: usize) {
        for position in 0..KV_BLOCK {
            let row = rows.wrapping_add(position * stride);
            for step in 0..d / STEP {
                let (mut upper, mut rest) = (_mm512_setzero_si512(), _mm512_setzero_si512());
                if seen.contains(&position) {
                    // SAFETY: a step of a row that was written.
                    let (a, b) = unsafe { (K::load(s, row, step * STEP), K::load(s, row, step * STEP + 16)) };
                    let ((a, a_rest), (b, b_rest)) = (split(a), split(b));
                    (upper, rest) = (round(a, b), round(a_rest, b_rest));
                }
                let at = (position / SIDE * (d / STEP) + step) * TILE_BYTES + position % SIDE * 64;
                for (to, part) in self.keys.iter_mut().zip([upper, rest]) {
                    // SAFETY: a row of a tile.
                    unsafe { _mm512_storeu_si512(to[at..][..64].as_mut_ptr().cast(), part) };
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
        for tile in 0..d / SIDE {
            for half in 0..KV_BLOCK / STEP {
                let part = |position: usize| {
                    if seen.contains(&position) {
                        // SAFETY: 16 values of a row that was written.
                        unsafe { K::load(s, rows.wrapping_add(position * stride), tile * SIDE) }
                    } else {
                        _mm512_setzero_ps()
                    }
                };
                let v = std::array::from_fn(|i| {
                    let position = half * STEP + 2 * i;
                    _mm512_castsi512_ps(pairs(part(position), part(position + 1)))
                });
                set_tile(&mut self.values[(tile * (KV_BLOCK / STEP) + half) * TILE_BYTES..], transpose(v));
            }
        }
    }

    /// What 16 queries have so far, `d` values each.
    ///
    /// # Safety
    /// Nobody else has it.
    unsafe fn queries<'a>(this: *mut Self, tile: usize, d: usize) -> Queries<'a> {
        // SAFETY: the caller's promise; the queries are some of `QUERIES`, with `d <= WIDTH`.
        unsafe {
            Queries {
                from: &*(&raw const (*this).from).cast::<[i32; SIDE]>().add(tile),
                end: &*(&raw const (*this).end).cast::<[i32; SIDE]>().add(tile),
                sums: &mut *(&raw mut (*this).sums).cast::<[f32; SIDE]>().add(tile),
                start: &mut *(&raw mut (*this).start).cast::<[f32; SIDE]>().add(tile),
                results: std::slice::from_raw_parts_mut(
                    (&raw mut (*this).results).cast::<f32>().add(tile * SIDE * d),
                    SIDE * d,
                ),
            }
        }
    }

    /// The finished rows of 16 queries: zeros where one saw nothing.
    #[target_feature(enable = "avx512f")]
    fn finish(&mut self, tile: usize, d: usize) {
        // SAFETY: 16 numbers each of the queries' sums, their results and rows.
        unsafe {
            let sum = _mm512_loadu_ps(self.sums[tile * SIDE..][..SIDE].as_ptr());
            let some = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(sum, _mm512_setzero_ps());
            let factor = _mm512_maskz_div_ps(some, _mm512_set1_ps(1.0), sum);
            for at in (0..d).step_by(SIDE) {
                let values = self.results[(tile * d + at) * SIDE..][..SIDE * SIDE].as_ptr();
                let v = std::array::from_fn(|i| _mm512_mul_ps(_mm512_loadu_ps(values.add(SIDE * i)), factor));
                for (query, v) in transpose(v).into_iter().enumerate() {
                    _mm512_storeu_ps(self.rows[query * d + at..][..SIDE].as_mut_ptr(), v);
                }
            }
        }
    }
}

/// Writes the rows of a tile.
#[inline]
#[target_feature(enable = "avx512f")]
fn set_tile(to: &mut [u8], rows: [__m512; SIDE]) {
    for (to, row) in to[..TILE_BYTES].chunks_exact_mut(64).zip(rows) {
        // SAFETY: 64 bytes.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr().cast(), row) };
    }
}
