//! The weights of one attention head, for those who want to know where it looks.

use super::keys::{Half, Keys, Single};
use super::{WIDEST, sees};
use crate::context::{Context, SCRATCH_BYTES};
use crate::kernels::{LeveledRow, levels};
use crate::share::Share;
use crate::simd::Simd;
use crate::simd::math::exp;
use akunu_dtype::{DType, Planes};
use akunu_plan::op::{AttentionWeightsParams, OpKind, slots::weights};
use akunu_plan::record::Record;
use akunu_plan::steps::KV_BLOCK;

pub(in crate::kernels) const ANY: &[LeveledRow] =
    levels!("attention_weights_any", OpKind::AttentionWeights, serves_any, body::<_, Single, true>);
pub(in crate::kernels) const F16: &[LeveledRow] =
    levels!("attention_weights_f16", OpKind::AttentionWeights, serves_f16, body::<_, Half<0>, false>);

/// A decoded key, padded, fits a worker's scratch.
fn serves_any(record: &Record) -> bool {
    let a = record.params::<AttentionWeightsParams>().attention;
    let Some(dtype) = DType::from_index(a.kv.dtype as u8) else { return false };
    dtype.format().side_bytes == 0 && 4 * (a.head_dim as usize).next_multiple_of(WIDEST) <= SCRATCH_BYTES
}

fn serves_f16(record: &Record) -> bool {
    let a = record.params::<AttentionWeightsParams>().attention;
    serves_any(record) && a.kv.dtype == u32::from(DType::F16.index()) && (a.head_dim as usize).is_multiple_of(WIDEST)
}

/// `y[r][at..at + positions] = softmax(scale * q · Kᵀ)`; 0 where the row does not see. A key is decoded first if `DECODES`.
#[inline(always)]
unsafe fn body<S: Simd, K: Keys, const DECODES: bool>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    let p = record.params::<AttentionWeightsParams>();
    let a = &p.attention;
    let Some(dtype) = DType::from_index(a.kv.dtype as u8) else { return };
    let (d, positions) = (a.head_dim as usize, p.positions as usize);
    let head_bytes = (p.head / (a.heads / a.kv_heads)) as usize * a.kv.head_bytes as usize;
    let bytes = dtype.row_bytes(d).unwrap_or(0);
    let kv = context.operand(record, weights::KV);
    let decoded = context.scratch(share.index).cast::<f32>();
    for row in share.of(context.count(record), 1) {
        let vars = context.row_vars(row);
        let seen = sees(a, vars);
        let seen = seen.start.min(positions)..seen.end.min(positions);
        let y = context.row(record, weights::Y, row).cast::<f32>().wrapping_add(p.at as usize);
        // SAFETY: a row of `y` has `at + positions` values and one of `q` all heads of `d`; this worker alone has the
        // row. Keys are rows of blocks that `kv_block` checked, of `bytes` each; the scratch has room for a padded one.
        unsafe {
            let q = context.row(record, weights::Q, row).cast::<f32>().add(p.head as usize * d);
            let mut max = f32::NEG_INFINITY;
            for position in 0..positions {
                let block = match seen.contains(&position) {
                    true => context.kv_block(&a.kv, kv, vars.sequence, position / KV_BLOCK),
                    false => None,
                };
                let Some(block) = block else {
                    *y.add(position) = f32::NEG_INFINITY;
                    continue;
                };
                let mut key = block.add(head_bytes + position % KV_BLOCK * a.kv.row_bytes as usize).cast_const();
                if DECODES {
                    let values = std::slice::from_raw_parts_mut(decoded, d);
                    let data = std::slice::from_raw_parts(key, bytes);
                    (dtype.format().decode)(Planes { data, ..Planes::default() }, values);
                    key = decoded.cast();
                }
                let (mut sum, mut at) = (s.splat(0.0), 0);
                while at + S::LANES <= d {
                    sum = s.fma(s.load(q.add(at)), K::load(s, key, at), sum);
                    at += S::LANES;
                }
                // Only decoded keys can have a rest: direct ones are whole vectors.
                let rest: f32 = (at..d).map(|i| *q.add(i) * *key.cast::<f32>().add(i)).sum();
                let score = (s.sum(sum) + rest) * a.scale;
                *y.add(position) = score;
                max = max.max(score);
            }
            let max = if max.is_finite() { max } else { 0.0 };
            let mut total = 0.0;
            let mut at = 0;
            while at < positions {
                let n = S::LANES.min(positions - at);
                let v = exp(s, s.sub(s.load_first(y.add(at), n), s.splat(max)));
                s.store_first(y.add(at), v, n);
                at += n;
            }
            for position in 0..positions {
                let seen = seen.contains(&position);
                *y.add(position) = if seen { *y.add(position) } else { 0.0 };
                total += *y.add(position);
            }
            let inverse = if total > 0.0 { 1.0 / total } else { 0.0 };
            (0..positions).for_each(|i| *y.add(i) *= inverse);
        }
    }
}
