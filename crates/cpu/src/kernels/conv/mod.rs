//! Convolutions over frames, as matrix products: the frames around each result in one row.

use super::convert::{can_write, write_part};
use super::{LeveledRow, levels};
use crate::context::{Context, SCRATCH_BYTES};
use crate::share::Share;
use crate::simd::Simd;
use akunu_plan::op::{OpKind, UnfoldParams, slots::unfold};
use akunu_plan::record::{Record, X_LAYOUT, Y_LAYOUT};

pub(super) const UNFOLD: &[LeveledRow] = levels!("unfold", OpKind::Unfold, serves, body);

fn serves(record: &Record) -> bool {
    let p = record.params::<UnfoldParams>();
    let width = p.channels as usize * p.taps as usize;
    let fits = width.checked_mul(4).is_some_and(|bytes| bytes <= SCRATCH_BYTES);
    record.flags & X_LAYOUT == 0 && (record.flags & Y_LAYOUT == 0 || fits && can_write(record, width))
}

/// Rows a worker takes at a time: neighbours read the same frames.
const GRAIN: usize = 16;

/// `y[r][c * taps + t] = x[r * stride + t - taps / 2][c]`, zero outside.
#[inline(always)]
unsafe fn body<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    let p = record.params::<UnfoldParams>();
    let (channels, taps, stride) = (p.channels as usize, p.taps as usize, p.stride as usize);
    let converts = record.flags & Y_LAYOUT != 0;
    let count = context.count(record);
    // `ready` has seen that results are as many as frames, or half as many.
    let frames = count * stride;
    for group in share.of(count.div_ceil(GRAIN), 1) {
        for row in group * GRAIN..count.min(group * GRAIN + GRAIN) {
            let y = match converts {
                true => context.scratch(share.index).cast::<f32>(),
                false => context.row(record, unfold::Y, row).cast(),
            };
            for t in 0..taps {
                let frame = (row * stride + t).wrapping_sub(taps / 2);
                // SAFETY: `y` has room for the `channels * taps` values of a row, and is this worker's alone; a frame has
                // `channels`.
                unsafe {
                    if frame < frames {
                        let x = context.row(record, unfold::X, frame).cast::<f32>();
                        (0..channels).for_each(|c| *y.add(c * taps + t) = *x.add(c));
                    } else {
                        (0..channels).for_each(|c| *y.add(c * taps + t) = 0.0);
                    }
                }
            }
            if converts {
                let dim = channels * taps;
                // SAFETY: a whole row.
                unsafe { write_part(s, record, context, (unfold::Y, row), (dim, 0, dim), y) }
            }
        }
    }
}
