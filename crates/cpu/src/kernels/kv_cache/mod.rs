//! Per-head norm and rotation of queries and keys; keys and values go into the KV cache, or stay where they are.

#[cfg(target_arch = "x86_64")]
pub(super) mod product;

use super::{LeveledRow, levels};
use crate::context::{Context, SCRATCH_BYTES};
use crate::share::Share;
use crate::simd::{Body, Simd, prefetch_row};
use akunu_dtype::{DType, PlanesMut};
use akunu_plan::op::{
    HeadParams, HeadsParams, KvParams, OpKind, ROPE_INTERLEAVED, ROPE_NONE, ROPE_SPLIT_HALF, slots::head, slots::heads,
};
use akunu_plan::record::Record;
use akunu_plan::steps::KV_BLOCK;
use half::f16;

pub(super) const HEADS: &[LeveledRow] = levels!("heads_kv", OpKind::HeadNormRopeKvWrite, serves, body);
pub(super) const HEAD: &[LeveledRow] = levels!("head", OpKind::HeadNormRope, serves_in_place, in_place);

/// Values of a head, at most, and heads that are turned at once: they fit a worker's scratch.
const MAX_HEAD: usize = 2048;
const TOGETHER: usize = 16;
const _: () = assert!(TOGETHER * MAX_HEAD * 4 <= SCRATCH_BYTES);

fn serves(record: &Record) -> bool {
    let p = record.params::<HeadsParams>();
    matches!(p.style, ROPE_NONE | ROPE_INTERLEAVED | ROPE_SPLIT_HALF)
        && p.head_dim as usize <= MAX_HEAD
        && can_store(&p.kv)
}

/// Whether keys and values can be written in the format of the cache.
fn can_store(kv: &KvParams) -> bool {
    let format = DType::from_index(kv.dtype as u8).map(DType::format);
    format.is_some_and(|f| f.encode.is_some() && f.side_bytes == 0)
}

fn serves_in_place(record: &Record) -> bool {
    let p = record.params::<HeadParams>();
    matches!(p.style, ROPE_NONE | ROPE_INTERLEAVED | ROPE_SPLIT_HALF) && p.head_dim as usize <= MAX_HEAD
}

/// Stores `n` values of a key or a value in the format of the cache.
///
/// # Safety
/// `from` has `n` values, `to` the bytes of `n` values of `dtype`, and this worker alone has these.
#[inline(always)]
unsafe fn put<S: Simd>(s: S, dtype: DType, from: *const f32, to: *mut u8, n: usize) {
    // SAFETY: the same contract: every access ends at or before `n`; bytes have no alignment to keep.
    unsafe {
        match dtype {
            DType::F32 => std::ptr::copy_nonoverlapping(from.cast::<u8>(), to, n * 4),
            DType::F16 => {
                let mut at = 0;
                while at + S::LANES <= n {
                    s.store_f16(to.add(2 * at), s.load(from.add(at)));
                    at += S::LANES;
                }
                for i in at..n {
                    to.add(2 * i).cast::<[u8; 2]>().write(f16::from_f32(*from.add(i)).to_le_bytes());
                }
            }
            _ => encode(dtype, std::slice::from_raw_parts(from, n), to),
        }
    }
}

/// Stores values in any format that can be encoded, by its row of the format table.
///
/// # Safety
/// `to` has the bytes of so many values.
unsafe fn encode(dtype: DType, values: &[f32], to: *mut u8) {
    let (Some(encode), Some(bytes)) = (dtype.format().encode, dtype.row_bytes(values.len())) else { return };
    // SAFETY: the caller's promise.
    encode(values, PlanesMut { data: unsafe { std::slice::from_raw_parts_mut(to, bytes) }, ..PlanesMut::default() });
}

/// Units are (row, head), query heads first, then key/value heads. Workers take whole KV heads where they can.
#[inline(always)]
unsafe fn body<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    let p = record.params::<HeadsParams>();
    let Some(dtype) = DType::from_index(p.kv.dtype as u8) else { return };
    let (q_heads, d) = (p.heads as usize, p.head_dim as usize);
    let one = p.each(p.heads);
    let (count, kv_heads) = (context.count(record), p.kv_heads as usize);
    let whole = share.kv_heads(kv_heads);
    let kv_mine = whole.clone().unwrap_or(0..kv_heads);
    let group = q_heads / kv_heads;
    let q_mine = kv_mine.start * group..kv_mine.end * group;
    let per_row = q_mine.len() + kv_mine.len();
    let units = if whole.is_some() { 0..count * per_row } else { share.of(count * per_row, 1) };
    let turned = context.scratch(share.index).cast::<f32>();
    let kv = context.operand(record, heads::KV);
    let [q_norm, k_norm] = [heads::Q_NORM, heads::K_NORM].map(|slot| norm_weight(record, context, slot));
    for row in units.start / per_row..units.end.div_ceil(per_row) {
        // This worker's heads of the row.
        let [from, to] = [units.start, units.end].map(|unit| unit.saturating_sub(row * per_row).min(per_row));
        let [q_from, q_to] = [from, to].map(|i| q_mine.start + i.min(q_mine.len()));
        let [kv_from, kv_to] = [from, to].map(|i| kv_mine.start + i.saturating_sub(q_mine.len()));
        let values =
            |slot: usize, row: usize, head: usize| context.row(record, slot, row).cast::<f32>().wrapping_add(head * d);
        if row + 1 < count {
            prefetch_row(values(heads::Q, row + 1, q_from), (q_to - q_from) * d);
            prefetch_row(values(heads::K, row + 1, kv_from), (kv_to - kv_from) * d);
            prefetch_row(values(heads::V, row + 1, kv_from), (kv_to - kv_from) * d);
        }
        // SAFETY: rows of q, k and v have their heads of `d` values, angles `2 * pairs`; the scratch has room for `TOGETHER`
        // heads of `MAX_HEAD >= d` values; KV rows are checked by `kv_block` and by `ready`.
        unsafe {
            let angles = context.row(record, heads::ANGLES, row).cast::<f32>().cast_const();
            let q = values(heads::Q, row, q_from);
            turn(s, &one, q_norm, (q, q), q_to - q_from, angles);
            if kv_from == kv_to {
                continue;
            }
            let vars = context.row_vars(row);
            let place = vars.place();
            let Some(block) = context.kv_block(&p.kv, kv, vars.sequence, place / KV_BLOCK) else { continue };
            for first in (kv_from..kv_to).step_by(TOGETHER) {
                let some = TOGETHER.min(kv_to - first);
                turn(s, &one, k_norm, (values(heads::K, row, first), turned), some, angles);
                for i in 0..some {
                    let at = block.add(Context::kv_row(&p.kv, first + i, place));
                    put(s, dtype, turned.add(i * d), at, d);
                    put(s, dtype, values(heads::V, row, first + i), at.add(p.kv.value_offset as usize), d);
                }
            }
        }
    }
}

/// Units are (row, head).
#[inline(always)]
unsafe fn in_place<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    let p = record.params::<HeadParams>();
    let (heads, d) = (p.heads as usize, p.head_dim as usize);
    let weight = norm_weight(record, context, head::NORM);
    for unit in share.of(context.count(record) * heads, 1) {
        let (row, index) = (unit / heads, unit % heads);
        // SAFETY: as in `body`.
        unsafe {
            let angles = context.row(record, head::ANGLES, row).cast::<f32>().cast_const();
            let x = context.row(record, head::X, row).cast::<f32>().add(index * d);
            turn(s, p, weight, (x, x), 1, angles);
        }
    }
}

fn norm_weight(record: &Record, context: &Context<'_>, slot: usize) -> Option<*const f32> {
    (!record.args[slot].is_none()).then(|| context.operand(record, slot).cast::<f32>().cast_const())
}

/// By lane, whether it is the second of a pair, and the sign of its sine.
static SECOND: [f32; 16] = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0];
static SIGN: [f32; 16] = [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0];

/// Some heads side by side, normalized where there is a weight and rotated by the row's angles `[pairs](cos, sin)`: `from` to
/// `to`, which may be the same.
///
/// # Safety
/// Both have `heads` heads of `head_dim` values and are the same or apart, `angles` has `2 * pairs <= head_dim`.
#[inline(always)]
unsafe fn turn<S: Simd>(
    s: S,
    p: &HeadParams,
    weight: Option<*const f32>,
    rows: (*const f32, *mut f32),
    heads: usize,
    angles: *const f32,
) {
    // SAFETY: the same contract.
    unsafe { s.call(Turn { p, weight, rows, heads, angles }) }
}

/// As [`turn`] has it.
struct Turn<'a> {
    p: &'a HeadParams,
    weight: Option<*const f32>,
    rows: (*const f32, *mut f32),
    heads: usize,
    angles: *const f32,
}

impl Body for Turn<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let Self { p, weight, rows, heads, angles } = self;
        // SAFETY: the same contract.
        unsafe { turn_here(s, p, weight, rows, heads, angles) }
    }
}

/// # Safety
/// As [`turn`].
#[inline(always)]
unsafe fn turn_here<S: Simd>(
    s: S,
    p: &HeadParams,
    weight: Option<*const f32>,
    (from, to): (*const f32, *mut f32),
    heads: usize,
    angles: *const f32,
) {
    let (d, pairs) = (p.head_dim as usize, p.pairs as usize);
    for first in (0..heads).step_by(TOGETHER) {
        let heads = TOGETHER.min(heads - first);
        let (from, to) = (from.wrapping_add(first * d), to.wrapping_add(first * d));
        // SAFETY: every access ends at or before `head_dim` or `2 * pairs`, the norm weight has `head_dim` values; lanes are
        // even in number, so pairs stay in one vector, and at most 16.
        unsafe {
            let mut factors = [1.0; TOGETHER];
            if weight.is_some() {
                for (head, factor) in factors[..heads].iter_mut().enumerate() {
                    *factor = inverse_rms(s, from.add(head * d), d, p.eps);
                }
            }
            let value = |head: usize, at: usize, n: usize| {
                let v = s.load_some(from.add(head * d + at), n);
                weight.map_or(v, |weight| s.mul(s.mul(v, s.splat(factors[head])), s.load_some(weight.add(at), n)))
            };
            let still = match p.style {
                // Values 2i and 2i + 1 turn together.
                ROPE_INTERLEAVED => {
                    let (second, sign, half) = (s.load(SECOND.as_ptr()), s.load(SIGN.as_ptr()), s.splat(0.5));
                    for at in (0..2 * pairs).step_by(S::LANES) {
                        let n = S::LANES.min(2 * pairs - at);
                        let here = s.load_some(angles.add(at), n);
                        let other = s.swap_pairs(here);
                        let cos = s.select_lt(second, half, here, other);
                        let sin = s.mul(s.select_lt(second, half, other, here), sign);
                        for head in 0..heads {
                            let v = value(head, at, n);
                            s.store_some(to.add(head * d + at), s.fma(v, cos, s.mul(s.swap_pairs(v), sin)), n);
                        }
                    }
                    2 * pairs
                }
                // Values i and i + pairs.
                ROPE_SPLIT_HALF => {
                    for at in (0..pairs).step_by(S::LANES) {
                        let n = S::LANES.min(pairs - at);
                        let first = n.min(S::LANES / 2);
                        let low = s.load_some(angles.add(2 * at), 2 * first);
                        let high = s.load_some(angles.add(2 * at + 2 * first), 2 * (n - first));
                        let [cos, sin] = s.unzip(low, high);
                        for head in 0..heads {
                            let to = to.add(head * d);
                            let (a, b) = (value(head, at, n), value(head, pairs + at, n));
                            s.store_some(to.add(at), s.sub(s.mul(a, cos), s.mul(b, sin)), n);
                            s.store_some(to.add(pairs + at), s.fma(a, sin, s.mul(b, cos)), n);
                        }
                    }
                    2 * pairs
                }
                _ => 0,
            };
            for at in (still..d).step_by(S::LANES) {
                let n = S::LANES.min(d - at);
                (0..heads).for_each(|head| s.store_some(to.add(head * d + at), value(head, at, n), n));
            }
        }
    }
}

/// # Safety
/// There are `d` values.
#[inline(always)]
unsafe fn inverse_rms<S: Simd>(s: S, from: *const f32, d: usize, eps: f32) -> f32 {
    let mut squares = s.splat(0.0);
    for at in (0..d).step_by(S::LANES) {
        // SAFETY: the access ends at or before `d`.
        let v = unsafe { s.load_some(from.add(at), S::LANES.min(d - at)) };
        squares = s.fma(v, v, squares);
    }
    1.0 / (s.sum(squares) / d as f32 + eps).sqrt()
}
