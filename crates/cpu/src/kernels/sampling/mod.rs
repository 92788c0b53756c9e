//! Choosing tokens: arg-max over logits, draws from them, and the step on to the next token.

mod sample;

use super::{LeveledRow, levels};
use crate::context::Context;
use crate::pool::Lane;
use crate::simd::Simd;
use akunu_plan::op::{ARGMAX_SLICE, ArgMaxParams, OpKind, slots};
use akunu_plan::record::Record;

pub(super) use sample::SAMPLE;

pub(super) static ARGMAX: &[LeveledRow] = levels!("argmax", OpKind::ArgMax, |_| true, argmax);
pub(super) static ADVANCE: &[LeveledRow] = levels!("advance", OpKind::Advance, |_| true, advance);

/// `y[o][c] = (max, index of max)` over the `c`-th slice of `x[o]`, the index as a number (exact:
/// vocabularies are far below 2^24). Ties go to the lower index; NaN counts as -inf.
#[inline(always)]
unsafe fn argmax<S: Simd>(s: S, record: &Record, context: &Context<'_>, lane: Lane) {
    use slots::argmax::{X, Y};
    let p = record.params::<ArgMaxParams>();
    let (n, slices) = (p.n as usize, p.slices as usize);
    for unit in lane.share(context.count(record) * slices, 1) {
        let (output, slice) = (unit / slices, unit % slices);
        let x = context.row(record, X, output).cast::<f32>().cast_const();
        let y = context.row(record, Y, output).cast::<f32>();
        let from = (slice * ARGMAX_SLICE).min(n);
        let to = if slice + 1 == slices { n } else { n.min(from + ARGMAX_SLICE) };
        // SAFETY: `x` has `n` values and `y` two per slice.
        unsafe {
            let (max, index) = first_largest(s, x.add(from), to - from);
            *y.add(2 * slice) = max;
            *y.add(2 * slice + 1) = (from + index) as f32;
        }
    }
}

/// The largest of `n` values and its first index.
///
/// # Safety
/// `x` has `n` values.
#[inline(always)]
unsafe fn first_largest<S: Simd>(s: S, x: *const f32, n: usize) -> (f32, usize) {
    let lowest = s.splat(f32::NEG_INFINITY);
    let mut most = [lowest; 4];
    let mut at = 0;
    let mut max = f32::NEG_INFINITY;
    // SAFETY: every load ends at or before `n`.
    unsafe {
        while at + 4 * S::LANES <= n {
            for (i, most) in most.iter_mut().enumerate() {
                // A NaN as the first operand leaves the second.
                *most = s.max(s.load(x.add(at + i * S::LANES)), *most);
            }
            at += 4 * S::LANES;
        }
        for i in at..n {
            let v = *x.add(i);
            max = if v > max { v } else { max };
        }
    }
    max = max.max(s.largest(s.max(s.max(most[0], most[1]), s.max(most[2], most[3]))));
    // SAFETY: `i < n`.
    let first = (0..n).find(|&i| unsafe { *x.add(i) } == max);
    (max, first.unwrap_or(0))
}

/// Takes the best slice of every output row as its token. Tiny, and alone in its step: worker 0 does it.
#[inline(always)]
unsafe fn advance<S: Simd>(_: S, record: &Record, context: &Context<'_>, lane: Lane) {
    if lane.index != 0 {
        return;
    }
    let slices = record.params::<ArgMaxParams>().slices as usize;
    let token = |output: usize| {
        let pairs = context.row(record, slots::advance::X, output).cast::<f32>().cast_const();
        let mut best = (f32::NEG_INFINITY, 0);
        for slice in 0..slices {
            // SAFETY: the row has two values per slice.
            let (max, index) = unsafe { (*pairs.add(2 * slice), *pairs.add(2 * slice + 1) as u32) };
            if slice == 0 || max > best.0 {
                best = (max, index);
            }
        }
        best.1
    };
    // SAFETY: a record with `Advance` waits for everything before it, and what follows waits for it;
    // only worker 0 is here.
    unsafe { context.advance(token) }
}
