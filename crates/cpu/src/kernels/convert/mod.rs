//! f32 activations to the forms that products take them in: the int8 blocks of `akunu_dtype::q8`, the bf16 tiles of
//! `akunu_dtype::tiles`.

use super::{LeveledRow, levels};
use crate::context::Context;
use crate::share::Share;
use crate::simd::{Body, Q8Blocks, Simd};
use akunu_dtype::{q8, tiles};
use akunu_plan::op::{ElementParams, OpKind, slots::convert};
use akunu_plan::record::{Record, X_LAYOUT, Y_IS_BF16, Y_IS_Q8, Y_LAYOUT};

pub(super) const CONVERT: &[LeveledRow] = levels!("convert", OpKind::Convert, serves, body);

fn serves(record: &Record) -> bool {
    let dim = record.params::<ElementParams>().dim as usize;
    record.flags & X_LAYOUT == 0 && record.flags & Y_LAYOUT != 0 && can_write(record, dim)
}

/// Whether rows of `dim` values have the form of the record's result: int8 rows are whole blocks.
pub(super) fn can_write(record: &Record, dim: usize) -> bool {
    record.flags & Y_IS_Q8 == 0 || dim.is_multiple_of(q8::BLOCK)
}

/// Values that stay together: one cache line of integers.
pub(super) const GRAIN: usize = 64;

#[inline(always)]
unsafe fn body<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    let dim = record.params::<ElementParams>().dim as usize;
    let groups = dim.div_ceil(GRAIN);
    for unit in share.of(context.count(record) * groups, 1) {
        let (row, from) = (unit / groups, unit % groups * GRAIN);
        let x = context.row(record, convert::X, row).cast::<f32>().wrapping_add(from);
        // SAFETY: both rows are `dim` wide.
        unsafe { write_part(s, record, context, (convert::Y, row), (dim, from, GRAIN.min(dim - from)), x) }
    }
}

/// Writes `n` values into the places `from..from + n` of a result's row of `dim`, in the result's form.
///
/// # Safety
/// `x` has `n` values, the row is a row of the result; `from` is a multiple of 32, and `n` too or it ends the row. Int8
/// rows are whole blocks.
#[inline(always)]
pub(super) unsafe fn write_part<S: Simd>(
    s: S,
    record: &Record,
    context: &Context<'_>,
    (slot, row): (usize, usize),
    (dim, from, n): (usize, usize, usize),
    x: *const f32,
) {
    // SAFETY: the caller's promise, for each form.
    unsafe {
        if record.flags & Y_IS_Q8 != 0 {
            s.call(Quantize { x, y: context.row(record, slot, row), dim, from, n });
        } else if record.flags & Y_IS_BF16 != 0 {
            s.call(Round { x, y: context.operand(record, slot), row, dim, from, n });
        } else {
            std::ptr::copy_nonoverlapping(x, context.row(record, slot, row).cast::<f32>().add(from), n);
        }
    }
}

/// Rounds `n` values into the places `from..from + n` of a row of bf16 tiles, and zeros to the end of its last tile. As
/// [`write_part`] promises; `y` is the buffer's first byte.
struct Round {
    x: *const f32,
    y: *mut u8,
    row: usize,
    dim: usize,
    from: usize,
    n: usize,
}

impl Body for Round {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let Self { x, y, row, dim, from, n } = self;
        for at in (0..n).step_by(tiles::VALUES) {
            let to = y.wrapping_add(tiles::offset(row, from + at, dim)).cast::<u16>();
            let rest = n - at;
            // SAFETY: 32 values of x, or those that are left and zeros; 64 bytes of the row's tile.
            unsafe {
                if rest >= tiles::VALUES {
                    s.round32(x.add(at), to);
                } else {
                    let mut last = [0.0; tiles::VALUES];
                    std::ptr::copy_nonoverlapping(x.add(at), last.as_mut_ptr(), rest);
                    s.round32(last.as_ptr(), to);
                }
            }
        }
    }
}

/// Quantizes `n` values into the places `from..from + n` of an int8 row of `dim`: `x` has `n` values, `y` is a row of `dim`; `from`
/// and `n` are multiples of the block and inside.
struct Quantize {
    x: *const f32,
    y: *mut u8,
    dim: usize,
    from: usize,
    n: usize,
}

impl Body for Quantize {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let Self { x, y, dim, from, n } = self;
        let to = Q8Blocks {
            q: y.wrapping_add(from).cast(),
            scales: y.wrapping_add(q8::scales_offset(dim)).cast::<f32>().wrapping_add(from / q8::BLOCK),
            sums: y.wrapping_add(q8::sums_offset(dim)).cast::<f32>().wrapping_add(from / q8::GROUP),
        };
        // SAFETY: the blocks of `n` values, with their scales and sums, lie inside the row.
        unsafe { s.quantize(x, to, n / q8::BLOCK) }
    }
}
