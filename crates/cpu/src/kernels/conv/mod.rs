//! Convolutions over frames, as matrix products: the frames around each result in one row.

use super::{LeveledRow, levels};
use crate::context::Context;
use crate::pool::Lane;
use crate::simd::Simd;
use akunu_plan::op::{OpKind, UnfoldParams, slots::unfold};
use akunu_plan::record::Record;

pub(super) static UNFOLD: &[LeveledRow] = levels!("unfold", OpKind::Unfold, |_| true, body);

/// Rows a worker takes at a time: neighbours read the same frames.
const GRAIN: usize = 16;

/// `y[r][c * taps + t] = x[r * stride + t - taps / 2][c]`, zero outside.
#[inline(always)]
unsafe fn body<S: Simd>(_: S, record: &Record, context: &Context<'_>, lane: Lane) {
    let p = record.params::<UnfoldParams>();
    let (channels, taps, stride) = (p.channels as usize, p.taps as usize, p.stride as usize);
    let count = context.count(record);
    // `ready` has seen that results are as many as frames, or half as many.
    let frames = count * stride;
    for group in lane.share(count.div_ceil(GRAIN), 1) {
        for row in group * GRAIN..count.min(group * GRAIN + GRAIN) {
            let y = context.row(record, unfold::Y, row).cast::<f32>();
            for t in 0..taps {
                let frame = (row * stride + t).wrapping_sub(taps / 2);
                // SAFETY: a row of `y` has `channels * taps` values, which this worker alone has; a frame has `channels`.
                unsafe {
                    if frame < frames {
                        let x = context.row(record, unfold::X, frame).cast::<f32>();
                        (0..channels).for_each(|c| *y.add(c * taps + t) = *x.add(c));
                    } else {
                        (0..channels).for_each(|c| *y.add(c * taps + t) = 0.0);
                    }
                }
            }
        }
    }
}
