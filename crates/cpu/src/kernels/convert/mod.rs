//! f32 activations to the int8 blocks of `akunu_plan::q8`.

use super::{LeveledRow, levels};
use crate::context::Context;
use crate::pool::Lane;
use crate::simd::Simd;
use akunu_plan::op::{ElementParams, OpKind, slots::quantize};
use akunu_plan::q8;
use akunu_plan::record::{Record, X_IS_Q8, Y_IS_Q8};

pub(super) static QUANTIZE: &[LeveledRow] = levels!("quantize", OpKind::Quantize, serves, body);

fn serves(record: &Record) -> bool {
    let p = record.params::<ElementParams>();
    record.flags & (X_IS_Q8 | Y_IS_Q8) == Y_IS_Q8 && (p.dim as usize).is_multiple_of(q8::BLOCK)
}

/// Values that stay together: one cache line of integers.
pub(super) const GRAIN: usize = 64;

#[inline(always)]
unsafe fn body<S: Simd>(s: S, record: &Record, context: &Context<'_>, lane: Lane) {
    let dim = record.params::<ElementParams>().dim as usize;
    let groups = dim.div_ceil(GRAIN);
    for unit in lane.share(context.count(record) * groups, 1) {
        let (row, from) = (unit / groups, unit % groups * GRAIN);
        let x = context.row(record, quantize::X, row).cast::<f32>().wrapping_add(from);
        let y = context.row(record, quantize::Y, row);
        // SAFETY: both rows are `dim` wide, a multiple of the block.
        unsafe { quantize_part(s, x, y, dim, from, GRAIN.min(dim - from)) }
    }
}

/// Quantizes `n` values into the places `from..from + n` of an int8 row of `dim`.
///
/// # Safety
/// `x` has `n` values, `y` is a row of `dim`; `from` and `n` are multiples of the block and inside.
#[inline(always)]
pub(super) unsafe fn quantize_part<S: Simd>(s: S, x: *const f32, y: *mut u8, dim: usize, from: usize, n: usize) {
    let q = y.wrapping_add(from).cast::<i8>();
    let scales = y.wrapping_add(q8::scales_offset(dim)).cast::<f32>().wrapping_add(from / q8::BLOCK);
    let sums = y.wrapping_add(q8::sums_offset(dim)).cast::<f32>().wrapping_add(from / q8::GROUP);
    for block in 0..n / q8::BLOCK {
        let at = block * q8::BLOCK;
        // SAFETY: block `block` of `n` values, with its one scale and two sums, lies inside the row.
        unsafe {
            let scale = s.peak32(x.add(at)) / 127.0;
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            let integers = s.quantize32(x.add(at), inverse, q.add(at));
            *scales.add(block) = scale;
            *sums.add(2 * block) = scale * integers.low as f32;
            *sums.add(2 * block + 1) = scale * integers.high as f32;
        }
    }
}
