//! The product around the tiles: activations packed, columns split among workers, the epilogue.

use super::{DEPTH, STRIP, Strip};
use crate::context::{Context, SCRATCH_BYTES};
use crate::kernels::activation::gate;
use crate::kernels::convert::quantize_part;
use crate::kernels::matmul::avx512::{FEW, low_bits};
use crate::kernels::matmul::dots::Dots;
use crate::kernels::matmul::product::{self, Weights, finish};
use crate::pool::Lane;
use crate::simd::tiles::{SIDE, STEP, TILE_BYTES, Tiles, round, transpose};
use crate::simd::{Avx512, Simd};
use akunu_plan::op::{MatMulParams, slots};
use akunu_plan::q8;
use akunu_plan::record::{MAY_ROUND, Record, X_IS_Q8, Y_IS_Q8};
use std::arch::x86_64::*;

/// Columns in flight, of all weight operands together.
const GROUP: usize = 128;
/// Activation rows in flight, and the bytes they may take.
const ROWS: usize = 512;
const ACTS_BYTES: usize = 4 << 20;
/// Activation rows are multiplied two tiles at a time; missing ones are zeros.
const PAIR: usize = 2 * SIDE;
const PAIR_BYTES: usize = 2 * TILE_BYTES;
/// f32 values from one column's sums to the next: not a power of two, for the cache's sake.
const SUMS: usize = ROWS + SIDE;

/// A worker's scratch memory.
#[repr(C, align(64))]
struct Scratch {
    /// `[row / 16][k / 32]` tiles.
    acts: [u8; ACTS_BYTES],
    strip: [u8; STRIP * DEPTH * 2],
    /// `[weight operand][column][row]`.
    sums: [[f32; SUMS]; GROUP],
    /// `[weight operand][row][column]` of 16 rows.
    rows: [f32; SIDE * GROUP],
}

const _: () = assert!(size_of::<Scratch>() <= SCRATCH_BYTES);

/// More rows than weights are unpacked in registers for, activations that may be rounded, and rows that fit.
pub fn serves(record: &Record) -> bool {
    let k = record.params::<MatMulParams>().k as usize;
    product::serves(record)
        && record.rows as usize > FEW
        && record.flags & MAY_ROUND != 0
        && k.div_ceil(STEP) * PAIR_BYTES <= ACTS_BYTES
}

/// # Safety
/// As [`crate::kernels::Kernel`] says, at the AMX level.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub unsafe fn matmul(record: &Record, context: &Context<'_>, lane: Lane) {
    use slots::matmul::{BIAS, RESIDUAL, W, Y};
    let p = record.params::<MatMulParams>();
    let bias = context.operand(record, BIAS).cast::<f32>().cast_const();
    // SAFETY: the machine has the level; row operands have `n` values, of which this worker has those it finishes.
    unsafe {
        let s = Avx512::assume();
        run(record, context, lane, [Weights::of(record, context, W, 0)], |m, n, cols, [dots]| {
            let y = context.row(record, Y, m).cast::<f32>().add(n);
            let bias = (!record.args[BIAS].is_none()).then(|| bias.add(n));
            let residual = (!record.args[RESIDUAL].is_none())
                .then(|| context.row(record, RESIDUAL, m).cast::<f32>().cast_const().add(n));
            finish(s, p, dots, bias, residual, y, cols);
        });
    }
}

/// # Safety
/// As [`crate::kernels::Kernel`] says, at the AMX level.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub unsafe fn matmul_gated(record: &Record, context: &Context<'_>, lane: Lane) {
    use slots::gated::{U, W, Y};
    let p = record.params::<MatMulParams>();
    let quantizes = record.flags & Y_IS_Q8 != 0;
    let weights = [Weights::of(record, context, W, 0), Weights::of(record, context, U, 2)];
    // SAFETY: as in `matmul`; int8 rows are cut at whole blocks, because grain and group are multiples of one.
    unsafe {
        let s = Avx512::assume();
        run(record, context, lane, weights, |m, n, cols, [x, u]| {
            let y = context.row(record, Y, m);
            if quantizes {
                gate(s, p.activation, x, u, x, cols);
                quantize_part(s, x, y, p.n as usize, n, cols);
            } else {
                gate(s, p.activation, x, u, y.cast::<f32>().add(n), cols);
            }
        });
    }
}

/// Multiplies this worker's columns of every weight operand; `finish(row, column, columns, dot products)` takes them on.
///
/// # Safety
/// As [`crate::kernels::Kernel`] says, at the AMX level.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
unsafe fn run<const N: usize>(
    record: &Record,
    context: &Context<'_>,
    lane: Lane,
    weights: [Weights; N],
    finish: impl Fn(usize, usize, usize, [*mut f32; N]),
) {
    let Some(unpack) = context.kernel(record).strip() else { return };
    let p = record.params::<MatMulParams>();
    let (count, k) = (context.count(record), p.k as usize);
    let share = lane.share(p.n as usize, record.grain as usize);
    if count == 0 || share.is_empty() {
        return;
    }
    let depth = k.div_ceil(STEP);
    let scratch = context.scratch(lane.index).cast::<Scratch>();
    // SAFETY: the machine has AMX; the scratch is this worker's; rows, columns and values are the record's.
    unsafe {
        let tiles = Tiles::configure();
        let acts = (&raw mut (*scratch).acts).cast::<u8>();
        let strip = (&raw mut (*scratch).strip).cast::<u8>();
        let sums = (&raw mut (*scratch).sums).cast::<f32>();
        let most = (ACTS_BYTES / (depth * PAIR_BYTES) * PAIR).min(ROWS);
        for m0 in (0..count).step_by(most) {
            let rows = most.min(count - m0);
            pack(record, context, (m0, rows), acts);
            for n0 in share.clone().step_by(GROUP / N) {
                let cols = (GROUP / N).min(share.end - n0);
                for from in (0..k).step_by(DEPTH) {
                    let len = DEPTH.min(k - from);
                    let steps = len.div_ceil(STEP);
                    for (operand, weights) in weights.iter().enumerate() {
                        for n in (0..cols).step_by(STRIP) {
                            let of = part(weights, p, n0 + n, STRIP.min(cols - n));
                            unpack(&Strip { of: &of, k: from, len, out: strip });
                            let to = sums.add((operand * GROUP / N + n) * SUMS);
                            for m in (0..rows).step_by(PAIR) {
                                let acts = acts.add((m / SIDE * depth + from / STEP) * TILE_BYTES);
                                let to = (to.add(m), SUMS * 4);
                                let strip = (strip.cast_const(), steps * TILE_BYTES);
                                let acts = (acts.cast_const(), depth * TILE_BYTES);
                                tiles.multiply(strip, acts, to, steps, from == 0);
                            }
                        }
                    }
                }
                let tile = (&raw mut (*scratch).rows).cast::<f32>();
                for m in (0..rows).step_by(SIDE) {
                    for operand in 0..N {
                        for n in (0..cols).step_by(SIDE) {
                            let from = sums.add((operand * GROUP / N + n) * SUMS + m);
                            let v = transpose(std::array::from_fn(|i| _mm512_loadu_ps(from.add(i * SUMS))));
                            for (i, v) in v.into_iter().enumerate() {
                                _mm512_store_ps(tile.add((operand * SIDE + i) * (GROUP / N) + n), v);
                            }
                        }
                    }
                    for i in 0..SIDE.min(rows - m) {
                        let dots = std::array::from_fn(|operand| tile.add((operand * SIDE + i) * (GROUP / N)));
                        finish(m0 + m + i, n0, cols, dots);
                    }
                }
            }
        }
    }
}

/// Weight rows `n..n + cols`, for unpacking.
fn part(weights: &Weights, p: &MatMulParams, n: usize, cols: usize) -> Dots {
    let (stride, side) = (p.row_bytes as usize, p.side_bytes as usize);
    Dots {
        w: weights.data.wrapping_add(n * stride),
        w_scales: weights.scales.wrapping_add(n * side),
        w_biases: weights.biases.wrapping_add(n * side),
        w_stride: stride,
        w_side_stride: side,
        x: std::ptr::null(),
        x_stride: 0,
        rows: 0,
        cols,
        k: p.k as usize,
        out: std::ptr::null_mut(),
        out_stride: 0,
        dtype: p.dtype as u8,
    }
}

/// Packs activation rows `m0..m0 + rows` into tiles of pairs: `[k / 2][row][k % 2]`. Missing rows and values are zeros.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
unsafe fn pack(record: &Record, context: &Context<'_>, (m0, rows): (usize, usize), to: *mut u8) {
    let k = record.params::<MatMulParams>().k as usize;
    let quantized = record.flags & X_IS_Q8 != 0;
    let depth = k.div_ceil(STEP);
    for m in (0..rows.next_multiple_of(PAIR)).step_by(SIDE) {
        for step in 0..depth {
            // SAFETY: rows of the record, masked to the values they have; tiles of the scratch.
            unsafe {
                let v = std::array::from_fn(|i| {
                    if m + i >= rows {
                        return _mm512_setzero_ps();
                    }
                    let row = context.row(record, slots::matmul::X, m0 + m + i).cast_const();
                    let (low, high) = if quantized {
                        let q = _mm256_loadu_si256(row.add(step * STEP).cast());
                        let scale = _mm512_set1_ps(*row.add(q8::scales_offset(k)).cast::<f32>().add(step));
                        let float = |q| _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)), scale);
                        (float(_mm256_castsi256_si128(q)), float(_mm256_extracti128_si256::<1>(q)))
                    } else {
                        let exist = low_bits((k - step * STEP).min(STEP));
                        let row = row.cast::<f32>().add(step * STEP);
                        let high = _mm512_maskz_loadu_ps((exist >> 16) as u16, row.wrapping_add(16));
                        (_mm512_maskz_loadu_ps(exist as u16, row), high)
                    };
                    _mm512_castsi512_ps(round(low, high))
                });
                let to = to.add((m / SIDE * depth + step) * TILE_BYTES).cast::<f32>();
                for (i, v) in transpose(v).into_iter().enumerate() {
                    _mm512_store_ps(to.add(SIDE * i), v);
                }
            }
        }
    }
}
