//! Heads on their way out of the product that makes them: normalized, rotated, and where they belong.

use super::{can_store, norm_weight, put, turn};
use crate::context::Context;
use crate::simd::Simd;
use akunu_dtype::DType;
use akunu_dtype::tiles::HEADS;
use akunu_plan::op::{
    Makes, MatMulHeadsParams, ROPE_INTERLEAVED, ROPE_NONE, ROPE_SPLIT_HALF, slots::matmul_heads as slots,
};
use akunu_plan::record::Record;
use akunu_plan::steps::KV_BLOCK;

/// Whether heads of a record can be finished.
pub fn serves(record: &Record) -> bool {
    let p = record.params::<MatMulHeadsParams>();
    HEADS.is_multiple_of(p.head.head_dim as usize)
        && p.product.is_plain()
        && matches!(p.head.style, ROPE_NONE | ROPE_INTERLEAVED | ROPE_SPLIT_HALF)
        && (p.makes == Makes::Queries as u32 || can_store(&p.kv))
}

/// The heads of a record.
pub struct Heads<'a> {
    record: &'a Record,
    context: &'a Context<'a>,
    norm: Option<*const f32>,
    dtype: DType,
}

impl<'a> Heads<'a> {
    pub fn of(record: &'a Record, context: &'a Context<'a>) -> Option<Self> {
        let dtype = DType::from_index(record.params::<MatMulHeadsParams>().kv.dtype as u8)?;
        Some(Self { record, context, norm: norm_weight(record, context, slots::NORM), dtype })
    }

    /// Finishes columns `n..n + cols` of row `m`, which are whole heads.
    ///
    /// # Safety
    /// `values` has `cols` of them, and may be written over. The record is one that [`serves`] has seen, and `ready`.
    #[inline(always)]
    pub unsafe fn finish<S: Simd>(&self, s: S, m: usize, (n, cols): (usize, usize), values: *mut f32) {
        let Self { record, context, norm, dtype } = *self;
        let p = record.params::<MatMulHeadsParams>();
        let d = p.head.head_dim as usize;
        // SAFETY: rows of the result and of the angles are the record's; KV rows are checked by `kv_block` and by `ready`.
        unsafe {
            let angles = context.row(record, slots::ANGLES, m).cast::<f32>().cast_const();
            if p.makes == Makes::Queries as u32 {
                let y = context.row(record, slots::Y, m).cast::<f32>().add(n);
                return turn(s, &p.head, norm, (values, y), cols / d, angles);
            }
            let vars = context.row_vars(m);
            let (place, kv) = (vars.place(), context.operand(record, slots::KV));
            let Some(block) = context.kv_block(&p.kv, kv, vars.sequence, place / KV_BLOCK) else { return };
            let half = if p.makes == Makes::Keys as u32 { 0 } else { p.kv.value_offset as usize };
            if p.makes == Makes::Keys as u32 {
                turn(s, &p.head, norm, (values, values), cols / d, angles);
            }
            for at in (0..cols).step_by(d) {
                let to = block.add(Context::kv_row(&p.kv, (n + at) / d, place) + half);
                put(s, dtype, values.add(at), to, d);
            }
        }
    }
}
