//! Choosing tokens: draws from logits, arg-max over them, and the step on to the next token.

mod sample;

use super::{LeveledRow, levels};
use crate::context::Context;
use crate::pool::Lane;
use crate::simd::Simd;
use akunu_plan::op::{MAXIMA_SLICE, NONE_DRAWN, OpKind, TokenParams, slots};
use akunu_plan::record::Record;

pub(super) use sample::SAMPLE;

pub(super) static ADVANCE: &[LeveledRow] = levels!("advance", OpKind::Advance, |_| true, advance);

/// The largest of `n` values, NaN aside.
///
/// # Safety
/// `x` has `n` values.
#[inline(always)]
pub(super) unsafe fn largest<S: Simd>(s: S, x: *const f32, n: usize) -> f32 {
    let mut most = [s.splat(f32::NEG_INFINITY); 4];
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
            max = max.max(*x.add(i));
        }
    }
    max.max(s.largest(s.max(s.max(most[0], most[1]), s.max(most[2], most[3]))))
}

/// The first index of the largest of `n` values.
///
/// # Safety
/// `x` has `n` values.
#[inline(always)]
unsafe fn first_largest<S: Simd>(s: S, x: *const f32, n: usize) -> usize {
    // SAFETY: `i < n`.
    unsafe {
        let max = largest(s, x, n);
        (0..n).find(|&i| *x.add(i) == max).unwrap_or(0)
    }
}

/// Takes the token of every output row: what was drawn, or the first of the largest logits, which is in the first slice with
/// the largest maximum. Tiny, and alone in its step: lane 0 does it.
#[inline(always)]
unsafe fn advance<S: Simd>(s: S, record: &Record, context: &Context<'_>, lane: Lane) {
    use slots::advance::{DRAWN, MAXIMA, X};
    if lane.index != 0 {
        return;
    }
    let n = record.params::<TokenParams>().n as usize;
    let token = |output: usize| {
        let row = |slot: usize| context.row(record, slot, output).cast::<f32>().cast_const();
        // SAFETY: a row has `n` logits, a maximum for every slice of them, and one token where there are draws.
        unsafe {
            if !record.args[DRAWN].is_none() && *row(DRAWN) != NONE_DRAWN {
                return *row(DRAWN) as u32;
            }
            let from = first_largest(s, row(MAXIMA), n.div_ceil(MAXIMA_SLICE)) * MAXIMA_SLICE;
            (from + first_largest(s, row(X).add(from), MAXIMA_SLICE.min(n - from))) as u32
        }
    };
    // SAFETY: a record with `Advance` waits for everything before it, and what follows waits for it;
    // only lane 0 is here.
    unsafe { context.advance(token) }
}
