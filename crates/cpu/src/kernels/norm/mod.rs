//! RMS and layer norms, with the residual add, to f32 or to the form products take.

use super::convert::{can_write, write_part};
use super::{LeveledRow, levels};
use crate::context::{Context, SCRATCH_BYTES};
use crate::share::Share;
use crate::simd::{Simd, prefetch_row};
use akunu_plan::op::{NORM_LAYER, NORM_RMS, NormParams, OpKind, slots::norm};
use akunu_plan::record::{Record, X_LAYOUT, Y_LAYOUT};

pub(super) const NORM: &[LeveledRow] = levels!("norm", OpKind::Norm, serves, body);

fn serves(record: &Record) -> bool {
    let p = record.params::<NormParams>();
    let dim = p.dim as usize;
    record.flags & X_LAYOUT == 0
        && matches!(p.kind, NORM_RMS | NORM_LAYER)
        && can_write(record, dim)
        && (record.flags & Y_LAYOUT == 0 || dim * 4 <= SCRATCH_BYTES)
}

/// Values of a row that stay together when a row is split: a cache line of int8 values.
const GRAIN: usize = 64;

/// `y[r] = residual[r] + scale * (normalize(x[r]) * weight + bias)`.
///
/// With fewer rows than workers a row is split: each worker takes the statistics of the whole row,
/// which costs less than meeting once more, and writes its part.
#[inline(always)]
unsafe fn body<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    let dim = record.params::<NormParams>().dim as usize;
    let rows = context.count(record);
    // In place nobody may write before all have read, so then a row has one worker.
    let in_place = record.args[norm::X] == record.args[norm::Y];
    let parts = if in_place || rows == 0 { 1 } else { (share.count / rows).max(1) };
    for unit in share.of(rows * parts, 1) {
        let (row, part) = (unit / parts, unit % parts);
        let columns = Share { index: part, count: parts }.of(dim, GRAIN);
        if row + 1 < rows {
            prefetch_row(context.row(record, norm::X, row + 1).cast(), dim);
        }
        // SAFETY: the caller's promise; `row` is a row and `columns` lie inside it.
        unsafe { normalize(s, record, context, share.index, row, columns) }
    }
}

/// Writes `columns` of one row.
///
/// # Safety
/// As [`super::Kernel`]; `row` is a row, `columns` lie in `0..dim` and are cut at the grain.
#[inline(always)]
unsafe fn normalize<S: Simd>(
    s: S,
    record: &Record,
    context: &Context<'_>,
    worker: usize,
    row: usize,
    columns: std::ops::Range<usize>,
) {
    let p = record.params::<NormParams>();
    let dim = p.dim as usize;
    let x = context.row(record, norm::X, row).cast::<f32>().cast_const();
    // SAFETY: `x` has `dim` values.
    let (mean, spread) = unsafe {
        if p.kind == NORM_LAYER {
            let mean = sum(s, x, dim) / dim as f32;
            (mean, centered_squares(s, x, dim, mean) / dim as f32)
        } else {
            (0.0, centered_squares(s, x, dim, 0.0) / dim as f32)
        }
    };
    let factor = 1.0 / (spread + p.eps).sqrt();
    let weight = context.operand(record, norm::WEIGHT).cast::<f32>().cast_const();
    let vector = |slot: usize, base: *mut u8| (!record.args[slot].is_none()).then_some(base.cast::<f32>().cast_const());
    let bias = vector(norm::BIAS, context.operand(record, norm::BIAS));
    let residual = vector(norm::RESIDUAL, context.row(record, norm::RESIDUAL, row));
    let converts = record.flags & Y_LAYOUT != 0;
    // An f32 row, or scratch with the same indices before it is converted.
    let out = if converts { context.scratch(worker) } else { context.row(record, norm::Y, row) }.cast::<f32>();
    let (minus_mean, factor, scale) = (s.splat(-mean), s.splat(factor), s.splat(p.scale));
    let mut at = columns.start;
    while at < columns.end {
        let n = S::LANES.min(columns.end - at);
        // SAFETY: `at + n <= dim`, the length of every operand's row and of the scratch.
        unsafe {
            let v = s.mul(s.add(get(s, x.add(at), n), minus_mean), factor);
            let w = get(s, weight.add(at), n);
            let v = match bias {
                Some(bias) => s.fma(v, w, get(s, bias.add(at), n)),
                None => s.mul(v, w),
            };
            let v = match residual {
                Some(residual) => s.fma(v, scale, get(s, residual.add(at), n)),
                None => s.mul(v, scale),
            };
            put(s, out.add(at), v, n);
        }
        at += n;
    }
    if converts {
        let part = (dim, columns.start, columns.len());
        // SAFETY: the columns were written above; they begin at a multiple of the grain.
        unsafe { write_part(s, record, context, (norm::Y, row), part, out.add(columns.start)) }
    }
}

/// # Safety
/// `n <= LANES` values are readable.
#[inline(always)]
unsafe fn get<S: Simd>(s: S, from: *const f32, n: usize) -> S::V {
    // SAFETY: the caller's promise.
    unsafe { if n == S::LANES { s.load(from) } else { s.load_first(from, n) } }
}

/// # Safety
/// `n <= LANES` values are writable.
#[inline(always)]
unsafe fn put<S: Simd>(s: S, to: *mut f32, v: S::V, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { if n == S::LANES { s.store(to, v) } else { s.store_first(to, v, n) } }
}

/// # Safety
/// `x` has `n` values.
#[inline(always)]
unsafe fn sum<S: Simd>(s: S, x: *const f32, n: usize) -> f32 {
    let mut total = [s.splat(0.0); 4];
    let mut at = 0;
    // SAFETY: every load ends at or before `n`.
    unsafe {
        while at + 4 * S::LANES <= n {
            for (i, total) in total.iter_mut().enumerate() {
                *total = s.add(*total, s.load(x.add(at + i * S::LANES)));
            }
            at += 4 * S::LANES;
        }
        while at < n {
            let part = S::LANES.min(n - at);
            total[0] = s.add(total[0], get(s, x.add(at), part));
            at += part;
        }
    }
    let [a, b, c, d] = s.sum4(total);
    (a + b) + (c + d)
}

/// `Σ (x - mean)²`
///
/// # Safety
/// `x` has `n` values.
#[inline(always)]
unsafe fn centered_squares<S: Simd>(s: S, x: *const f32, n: usize, mean: f32) -> f32 {
    let minus_mean = s.splat(-mean);
    let mut total = [s.splat(0.0); 4];
    let mut at = 0;
    // SAFETY: every load ends at or before `n`.
    unsafe {
        while at + 4 * S::LANES <= n {
            for (i, total) in total.iter_mut().enumerate() {
                let v = s.add(s.load(x.add(at + i * S::LANES)), minus_mean);
                *total = s.fma(v, v, *total);
            }
            at += 4 * S::LANES;
        }
        while at < n {
            let part = S::LANES.min(n - at);
            let v = s.add(get(s, x.add(at), part), minus_mean);
            if part == S::LANES {
                total[0] = s.fma(v, v, total[0]);
            } else {
                // Lanes past the end hold 0 - mean; only the real ones count.
                let mut lanes = [0.0f32; 16];
                s.store(lanes.as_mut_ptr(), s.mul(v, v));
                total[1] = s.add(total[1], s.load_first(lanes.as_ptr(), part));
            }
            at += part;
        }
    }
    let [a, b, c, d] = s.sum4(total);
    (a + b) + (c + d)
}
