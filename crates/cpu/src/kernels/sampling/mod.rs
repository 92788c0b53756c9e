//! Choosing tokens: rules over logits, draws from them, arg-max, and the step on to the next token.

mod sample;
mod suppress;

use super::{LeveledRow, levels};
use crate::context::Context;
use crate::share::Share;
use crate::simd::Simd;
use akunu_plan::op::{MAXIMA_SLICE, NONE_DRAWN, OpKind, TokenParams, slots};
use akunu_plan::record::Record;
use akunu_plan::rules::Chosen;

pub(super) use sample::SAMPLE;
pub(super) use suppress::SUPPRESS;

pub(super) const ADVANCE: &[LeveledRow] = levels!("advance", OpKind::Advance, |_| true, advance);

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
/// the largest maximum. Tiny, and alone in its step: share 0 does it.
#[inline(always)]
unsafe fn advance<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    use slots::advance::{DRAWN, MAXIMA, TOTAL, X};
    if share.index != 0 {
        return;
    }
    let n = record.params::<TokenParams>().n as usize;
    let choice = |output: usize| {
        let row = |slot: usize| context.row(record, slot, output).cast::<f32>().cast_const();
        // SAFETY: a row has `n` logits, a maximum for every slice of them, and one value of the others where they are there;
        // tokens are below `n`.
        unsafe {
            let value = |slot: usize| if record.args[slot].is_none() { None } else { Some(*row(slot)) };
            let token = match value(DRAWN) {
                Some(drawn) if drawn != NONE_DRAWN => (drawn as usize).min(n - 1),
                _ => {
                    let from = first_largest(s, row(MAXIMA), n.div_ceil(MAXIMA_SLICE)) * MAXIMA_SLICE;
                    from + first_largest(s, row(X).add(from), MAXIMA_SLICE.min(n - from))
                }
            };
            Chosen { token: token as u32, logit: *row(X).add(token), total: value(TOTAL).unwrap_or(0.0) }
        }
    };
    // SAFETY: a record with `Advance` waits for everything before it, and is the last of its step;
    // only share 0 of these rows is here.
    unsafe { context.advance(choice) }
}
