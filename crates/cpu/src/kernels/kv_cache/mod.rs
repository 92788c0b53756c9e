//! Per-head norm and rotation of queries and keys; keys and values go into the KV cache, or stay where they are.

use super::{LeveledRow, levels};
use crate::context::{Context, SCRATCH_BYTES};
use crate::pool::Lane;
use crate::simd::{Simd, prefetch_row};
use akunu_dtype::{DType, PlanesMut};
use akunu_plan::op::{
    HeadParams, HeadsParams, OpKind, ROPE_INTERLEAVED, ROPE_NONE, ROPE_SPLIT_HALF, slots::head, slots::heads,
};
use akunu_plan::record::Record;
use akunu_plan::steps::KV_BLOCK;
use half::f16;

pub(super) static HEADS_ANY: &[LeveledRow] =
    levels!("heads_kv_any", OpKind::HeadNormRopeKvWrite, serves_any, body::<_, Any>);
pub(super) static HEADS_F32: &[LeveledRow] =
    levels!("heads_kv_f32", OpKind::HeadNormRopeKvWrite, |r| serves(r, DType::F32), body::<_, F32>);
pub(super) static HEADS_F16: &[LeveledRow] =
    levels!("heads_kv_f16", OpKind::HeadNormRopeKvWrite, |r| serves(r, DType::F16), body::<_, F16>);

pub(super) static HEAD: &[LeveledRow] = levels!("head", OpKind::HeadNormRope, serves_in_place, in_place);

/// Values of one head that fit a worker's scratch beside its rotation tables.
const MAX_HEAD: usize = 2048;
const _: () = assert!(3 * MAX_HEAD * 4 <= SCRATCH_BYTES);

fn serves_any(record: &Record) -> bool {
    let p = record.params::<HeadsParams>();
    let Some(dtype) = DType::from_index(p.kv.dtype as u8) else { return false };
    let format = dtype.format();
    matches!(p.style, ROPE_NONE | ROPE_INTERLEAVED | ROPE_SPLIT_HALF)
        && p.head_dim as usize <= MAX_HEAD
        && format.encode.is_some()
        && format.side_bytes == 0
}

fn serves_in_place(record: &Record) -> bool {
    let p = record.params::<HeadParams>();
    matches!(p.style, ROPE_NONE | ROPE_INTERLEAVED | ROPE_SPLIT_HALF) && p.head_dim as usize <= MAX_HEAD
}

fn serves(record: &Record, dtype: DType) -> bool {
    serves_any(record) && record.params::<HeadsParams>().kv.dtype == u32::from(dtype.index())
}

/// How keys and values are stored.
trait Stored {
    /// # Safety
    /// `from` has `n` values, `to` the bytes of `n` values of `dtype`.
    unsafe fn put<S: Simd>(s: S, dtype: DType, from: *const f32, to: *mut u8, n: usize);
}

struct F32;
struct F16;
/// Any format that can be encoded, by its row of the format table.
struct Any;

impl Stored for F32 {
    #[inline(always)]
    unsafe fn put<S: Simd>(_: S, _: DType, from: *const f32, to: *mut u8, n: usize) {
        // SAFETY: the caller's promise; as bytes there is no alignment to keep.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to, n * 4) }
    }
}

impl Stored for F16 {
    #[inline(always)]
    unsafe fn put<S: Simd>(s: S, _: DType, from: *const f32, to: *mut u8, n: usize) {
        let mut at = 0;
        // SAFETY: every access ends at or before `n`.
        unsafe {
            while at + S::LANES <= n {
                s.store_f16(to.add(2 * at), s.load(from.add(at)));
                at += S::LANES;
            }
            for i in at..n {
                to.add(2 * i).cast::<[u8; 2]>().write(f16::from_f32(*from.add(i)).to_le_bytes());
            }
        }
    }
}

impl Stored for Any {
    #[inline(always)]
    unsafe fn put<S: Simd>(_: S, dtype: DType, from: *const f32, to: *mut u8, n: usize) {
        let (Some(encode), Some(bytes)) = (dtype.format().encode, dtype.row_bytes(n)) else { return };
        // SAFETY: the caller's promise; this worker alone has this position of this head.
        let (values, data) =
            unsafe { (std::slice::from_raw_parts(from, n), std::slice::from_raw_parts_mut(to, bytes)) };
        encode(values, PlanesMut { data, ..PlanesMut::default() });
    }
}

/// Units are (row, head), query heads first, then key/value heads. Workers take whole KV heads where they can, as attention
/// does: then it finds in its cache what it wrote there.
#[inline(always)]
unsafe fn body<S: Simd, K: Stored>(s: S, record: &Record, context: &Context<'_>, lane: Lane) {
    let p = record.params::<HeadsParams>();
    let Some(dtype) = DType::from_index(p.kv.dtype as u8) else { return };
    let (q_heads, d) = (p.heads as usize, p.head_dim as usize);
    let one = HeadParams { heads: p.heads, head_dim: p.head_dim, pairs: p.pairs, style: p.style, eps: p.eps };
    let (count, kv_heads) = (context.count(record), p.kv_heads as usize);
    let whole = kv_heads.is_multiple_of(lane.count);
    let mine = |heads: usize| if whole { lane.share(heads, heads / kv_heads) } else { 0..heads };
    let (q_mine, kv_mine) = (mine(q_heads), mine(kv_heads));
    let per_row = q_mine.len() + kv_mine.len();
    let units = if whole { 0..count * per_row } else { lane.share(count * per_row, 1) };
    let head = context.scratch(lane.index).cast::<f32>();
    let cos = head.wrapping_add(MAX_HEAD);
    let sin = cos.wrapping_add(MAX_HEAD);
    let kv = context.operand(record, heads::KV);
    let mut tabled = usize::MAX;
    for unit in units {
        let (row, index) = (unit / per_row, unit % per_row);
        let next = |slot: usize, index: usize| {
            if row + 1 < count {
                prefetch_row(context.row(record, slot, row + 1).cast::<f32>().wrapping_add(index * d), d);
            }
        };
        // SAFETY: rows of q, k and v have their heads of `d` values, angles `2 * pairs`; scratch
        // parts have `MAX_HEAD >= d` values; KV rows are checked by `kv_block` and by `ready`.
        unsafe {
            if p.style != ROPE_NONE && tabled != row {
                tables(s, &one, context.row(record, heads::ANGLES, row).cast(), cos, sin);
                tabled = row;
            }
            if index < q_mine.len() {
                let index = q_mine.start + index;
                next(heads::Q, index);
                let q = context.row(record, heads::Q, row).cast::<f32>().add(index * d);
                turn(s, &one, norm_weight(record, context, heads::Q_NORM), q, q, (cos, sin));
                continue;
            }
            let index = kv_mine.start + index - q_mine.len();
            next(heads::K, index);
            next(heads::V, index);
            let vars = context.row_vars(row);
            let place = vars.place();
            let Some(block) = context.kv_block(&p.kv, kv, vars.sequence, place / KV_BLOCK) else { continue };
            let at = block.add(Context::kv_row(&p.kv, index, place));
            let k = context.row(record, heads::K, row).cast::<f32>().add(index * d);
            turn(s, &one, norm_weight(record, context, heads::K_NORM), k, head, (cos, sin));
            K::put(s, dtype, head, at, d);
            let v = context.row(record, heads::V, row).cast::<f32>().add(index * d);
            K::put(s, dtype, v, at.add(p.kv.value_offset as usize), d);
        }
    }
}

/// Units are (row, head).
#[inline(always)]
unsafe fn in_place<S: Simd>(s: S, record: &Record, context: &Context<'_>, lane: Lane) {
    let p = record.params::<HeadParams>();
    let (heads, d) = (p.heads as usize, p.head_dim as usize);
    let cos = context.scratch(lane.index).cast::<f32>();
    let sin = cos.wrapping_add(MAX_HEAD);
    let weight = norm_weight(record, context, head::NORM);
    let mut tabled = usize::MAX;
    for unit in lane.share(context.count(record) * heads, 1) {
        let (row, index) = (unit / heads, unit % heads);
        // SAFETY: as in `body`.
        unsafe {
            if p.style != ROPE_NONE && tabled != row {
                tables(s, p, context.row(record, head::ANGLES, row).cast(), cos, sin);
                tabled = row;
            }
            let x = context.row(record, head::X, row).cast::<f32>().add(index * d);
            turn(s, p, weight, x, x, (cos, sin));
        }
    }
}

fn norm_weight(record: &Record, context: &Context<'_>, slot: usize) -> Option<*const f32> {
    (!record.args[slot].is_none()).then(|| context.operand(record, slot).cast::<f32>().cast_const())
}

/// By lane, whether it is the second of a pair, and the sign of its sine.
static SECOND: [f32; 16] = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0];
static SIGN: [f32; 16] = [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0];

/// Angles `[pairs](cos, sin)` as two tables laid out like the values they turn. Where pairs are
/// neighbours a table has two entries per pair, and the sine carries the sign.
///
/// # Safety
/// `angles` has `2 * pairs` values; the tables have room for a head.
#[inline(always)]
unsafe fn tables<S: Simd>(s: S, p: &HeadParams, angles: *const f32, cos: *mut f32, sin: *mut f32) {
    let pairs = p.pairs as usize;
    // SAFETY: every access ends at or before `2 * pairs <= head_dim`; lanes are even in number, so pairs stay in one
    // vector, and at most 16.
    unsafe {
        if p.style != ROPE_INTERLEAVED {
            for i in 0..pairs {
                *cos.add(i) = *angles.add(2 * i);
                *sin.add(i) = *angles.add(2 * i + 1);
            }
            return;
        }
        let (second, sign, half) = (s.load(SECOND.as_ptr()), s.load(SIGN.as_ptr()), s.splat(0.5));
        for at in (0..2 * pairs).step_by(S::LANES) {
            let n = S::LANES.min(2 * pairs - at);
            let here = s.load_first(angles.add(at), n);
            let other = s.swap_pairs(here);
            s.store_first(cos.add(at), s.select_lt(second, half, here, other), n);
            s.store_first(sin.add(at), s.mul(s.select_lt(second, half, other, here), sign), n);
        }
    }
}

/// One head, normalized where there is a weight and rotated: `from` to `to`, which may be the same.
///
/// # Safety
/// Both have `head_dim` values and are the same or apart; the tables were filled for the row.
#[inline(always)]
unsafe fn turn<S: Simd>(
    s: S,
    p: &HeadParams,
    weight: Option<*const f32>,
    from: *const f32,
    to: *mut f32,
    (cos, sin): (*const f32, *const f32),
) {
    let d = p.head_dim as usize;
    // SAFETY: the norm weight has `head_dim` values; `2 * pairs <= head_dim`.
    unsafe {
        if let Some(weight) = weight {
            rms(s, from, to, weight, d, p.eps);
        } else if !std::ptr::eq(from, to) {
            std::ptr::copy_nonoverlapping(from, to, d);
        }
        match p.style {
            ROPE_INTERLEAVED => rotate_neighbours(s, to, cos, sin, 2 * p.pairs as usize),
            ROPE_SPLIT_HALF => rotate_halves(s, to, cos, sin, p.pairs as usize),
            _ => {}
        }
    }
}

/// `to = from / rms(from) * weight`
///
/// # Safety
/// All have `d` values.
#[inline(always)]
unsafe fn rms<S: Simd>(s: S, from: *const f32, to: *mut f32, weight: *const f32, d: usize, eps: f32) {
    let mut squares = s.splat(0.0);
    let mut at = 0;
    // SAFETY: every access ends at or before `d`.
    unsafe {
        while at < d {
            let n = S::LANES.min(d - at);
            let v = s.load_first(from.add(at), n);
            squares = s.fma(v, v, squares);
            at += n;
        }
        let factor = s.splat(1.0 / (s.sum(squares) / d as f32 + eps).sqrt());
        at = 0;
        while at < d {
            let n = S::LANES.min(d - at);
            let v = s.mul(s.load_first(from.add(at), n), factor);
            s.store_first(to.add(at), s.mul(v, s.load_first(weight.add(at), n)), n);
            at += n;
        }
    }
}

/// Values i and i + pairs turn together.
///
/// # Safety
/// `x` has `2 * pairs` values, the tables `pairs`.
#[inline(always)]
unsafe fn rotate_halves<S: Simd>(s: S, x: *mut f32, cos: *const f32, sin: *const f32, pairs: usize) {
    let mut at = 0;
    while at < pairs {
        let n = S::LANES.min(pairs - at);
        // SAFETY: `at + n <= pairs`.
        unsafe {
            let (a, b) = (s.load_first(x.add(at), n), s.load_first(x.add(pairs + at), n));
            let (c, w) = (s.load_first(cos.add(at), n), s.load_first(sin.add(at), n));
            s.store_first(x.add(at), s.sub(s.mul(a, c), s.mul(b, w)), n);
            s.store_first(x.add(pairs + at), s.fma(a, w, s.mul(b, c)), n);
        }
        at += n;
    }
}

/// Values 2i and 2i + 1 turn together.
///
/// # Safety
/// `x` and the tables have `len` values, an even number.
#[inline(always)]
unsafe fn rotate_neighbours<S: Simd>(s: S, x: *mut f32, cos: *const f32, sin: *const f32, len: usize) {
    let mut at = 0;
    while at < len {
        let n = S::LANES.min(len - at);
        // SAFETY: `at + n <= len`; lanes are even in number, so pairs stay in one vector.
        unsafe {
            let v = s.load_first(x.add(at), n);
            let turned = s.mul(s.swap_pairs(v), s.load_first(sin.add(at), n));
            s.store_first(x.add(at), s.fma(v, s.load_first(cos.add(at), n), turned), n);
        }
        at += n;
    }
}
