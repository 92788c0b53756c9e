//! Rotation angles of rotary position embeddings, once per row for all layers that share them.

use super::{LeveledRow, levels};
use crate::context::Context;
use crate::share::Share;
use crate::simd::Simd;
use akunu_plan::op::{OpKind, RopeAnglesParams, slots::rope_angles};
use akunu_plan::record::Record;

pub(super) const ANGLES: &[LeveledRow] = levels!("rope_angles", OpKind::RopeAngles, |_| true, body);

/// Pairs that stay together: one cache line of results.
const GRAIN: usize = 8;

/// `y[r][i] = (cos, sin)(position(r) * frequency[i]) * magnitude(position(r))`.
///
/// The angle is the f32 product, as models were trained with; its cosine and sine are computed in
/// f64, because f32 loses them at large positions.
#[inline(always)]
unsafe fn body<S: Simd>(_: S, record: &Record, context: &Context<'_>, share: Share) {
    let p = record.params::<RopeAnglesParams>();
    let pairs = p.pairs as usize;
    let frequencies = context.operand(record, rope_angles::FREQUENCIES).cast::<f32>();
    let groups = pairs.div_ceil(GRAIN);
    for unit in share.of(context.count(record) * groups, 1) {
        let (row, from) = (unit / groups, unit % groups * GRAIN);
        let position = context.row_vars(row).position;
        let (position, magnitude) = (position as f32, p.magnitude_at(position));
        let y = context.row(record, rope_angles::Y, row).cast::<f32>();
        for i in from..pairs.min(from + GRAIN) {
            // SAFETY: `frequencies` has `pairs` values and a row of `y` twice as many.
            unsafe {
                let angle = f64::from(position * *frequencies.add(i));
                let (sin, cos) = angle.sin_cos();
                *y.add(2 * i) = cos as f32 * magnitude;
                *y.add(2 * i + 1) = sin as f32 * magnitude;
            }
        }
    }
}
