//! Element-wise sums, row gathers and means of rows.

use super::{LeveledRow, levels};
use crate::context::Context;
use crate::share::Share;
use crate::simd::Simd;
use akunu_plan::op::{ElementParams, OpKind, slots};
use akunu_plan::record::{Record, X_LAYOUT, Y_LAYOUT};

pub(super) const ADD: &[LeveledRow] = levels!("add", OpKind::Add, all_f32, add);
pub(super) const GATHER_ROWS: &[LeveledRow] = levels!("gather_rows", OpKind::GatherRows, all_f32, gather_rows);
pub(super) const MEAN_ROWS: &[LeveledRow] = levels!("mean_rows", OpKind::MeanRows, all_f32, mean_rows);

fn all_f32(record: &Record) -> bool {
    record.flags & (X_LAYOUT | Y_LAYOUT) == 0
}

/// Values of a row that stay together.
const GRAIN: usize = 256;

/// `y = a + scale * b`
#[inline(always)]
unsafe fn add<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    use slots::add::{A, B, Y};
    let p = record.params::<ElementParams>();
    let dim = p.dim as usize;
    let groups = dim.div_ceil(GRAIN);
    let scale = s.splat(p.scale);
    for unit in share.of(context.count(record) * groups, 1) {
        let (row, from) = (unit / groups, unit % groups * GRAIN);
        let [a, b, y] = [A, B, Y].map(|slot| context.row(record, slot, row).cast::<f32>());
        let mut at = from;
        let end = dim.min(from + GRAIN);
        while at < end {
            let n = S::LANES.min(end - at);
            // SAFETY: `at + n <= dim`, the length of all three rows; this worker alone has them.
            unsafe {
                let v = s.fma(s.load_first(b.add(at), n), scale, s.load_first(a.add(at), n));
                s.store_first(y.add(at), v, n);
            }
            at += n;
        }
    }
}

/// `y[o] = x[output_row(o)]`
#[inline(always)]
unsafe fn gather_rows<S: Simd>(_: S, record: &Record, context: &Context<'_>, share: Share) {
    use slots::gather::{X, Y};
    let dim = record.params::<ElementParams>().dim as usize;
    let groups = dim.div_ceil(GRAIN);
    for unit in share.of(context.count(record) * groups, 1) {
        let (output, from) = (unit / groups, unit % groups * GRAIN);
        let n = GRAIN.min(dim - from);
        let x = context.row(record, X, context.output_row(output)).cast::<f32>().wrapping_add(from);
        let y = context.row(record, Y, output).cast::<f32>().wrapping_add(from);
        // SAFETY: both rows are `dim` long; `ready` has checked that the buffers do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(x, y, n) }
    }
}

/// `y[o] =` mean of `x` over the rows of the sequence of `output_row(o)`
#[inline(always)]
unsafe fn mean_rows<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    use slots::gather::{X, Y};
    let dim = record.params::<ElementParams>().dim as usize;
    let groups = dim.div_ceil(S::LANES);
    for unit in share.of(context.count(record) * groups, 1) {
        let (output, from) = (unit / groups, unit % groups * S::LANES);
        let n = S::LANES.min(dim - from);
        let row = context.output_row(output);
        let vars = context.row_vars(row);
        let first = row - vars.position as usize;
        let mut sum = s.splat(0.0);
        for row in first..first + vars.length as usize {
            let x = context.row(record, X, row).cast::<f32>().wrapping_add(from);
            // SAFETY: a sequence's rows are rows of the step (see `check_texts`) of `dim` values.
            sum = s.add(sum, unsafe { s.load_first(x, n) });
        }
        let y = context.row(record, Y, output).cast::<f32>().wrapping_add(from);
        let mean = s.mul(sum, s.splat(1.0 / vars.length as f32));
        // SAFETY: a row of `y` has `dim` values, of which this worker alone has these `n`.
        unsafe { s.store_first(y, mean, n) }
    }
}
