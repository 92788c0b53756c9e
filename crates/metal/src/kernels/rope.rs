//! Rotated positions.

use super::common::{floats, stride};
use super::kv_cache::KV_FORMATS;
use super::{Category, KernelRow, Plain, Target};
use crate::chip::Chip;
use crate::dispatch::{Dispatch, Extent};
use crate::params::{Word, Words, params};
use crate::shaders::sources;
use akunu_plan::op::*;
use akunu_plan::record::{Addr, Record, Region};
use std::mem::offset_of;

params! {
    /// `rope_angles`.
    RoPEAnglesParams {
        pairs: u32,
        magnitude: f32,
        y_stride: u32,
        /// The magnitude grows with the position: by `slope * ln(1 + floor(position / period))`, and not at all with 0.
        slope: f32,
        period: f32,
    }
    /// `rope` and `rope_neox`.
    RoPEParams {
        heads: u32,
        head_dim: u32,
        /// Pairs that rotate.
        pairs: u32,
        has_norm: u32,
        eps: f32,
        /// Values from one row to the next.
        x_stride: u32,
        angles_stride: u32,
    }
    /// What happens to heads that go into the KV cache.
    RoPEQKVWriteParams {
        heads: u32,
        kv_heads: u32,
        head_dim: u32,
        pairs: u32,
        eps: f32,
        q_stride: u32,
        k_stride: u32,
        v_stride: u32,
        angles_stride: u32,
    }
    /// `rope_kv_write` and its kin.
    RoPEQKVCacheParams {
        rope: RoPEQKVWriteParams,
        kv: KvParams,
        has_q_norm: u32,
        has_k_norm: u32,
    }
}

const _: () = assert!(offset_of!(RoPEQKVWriteParams, angles_stride) == 32 && size_of::<RoPEQKVWriteParams>() == 48);

impl Word for RoPEQKVWriteParams {
    const METAL: &'static str = "RoPEQKVWriteParams";
    fn put(self, to: &mut Vec<u8>) {
        to.extend(self.bytes());
    }
}

static ROWS: &[Plain] = &[
    Plain {
        name: "rope_angles",
        source: "rope/angles.metal",
        op: Some(OpKind::RopeAngles),
        serves: |r, _| floats(r),
        encode: angles,
        geometry: "32 threads; (pairs / 32, rows)",
        chosen: "always",
    },
    in_place("rope", |r, _| turns(r, ROPE_INTERLEAVED), "heads in place whose neighbours rotate"),
    in_place("rope_neox", |r, _| turns(r, ROPE_SPLIT_HALF), "heads in place whose halves rotate"),
];

/// Kernels of one body, without their KV formats: what they serve.
#[rustfmt::skip]
static WRITES: &[(&str, Serves, &str)] = &[
    ("rope_kv_write", |r, _| r.rows == 1 && writes(r, ROPE_INTERLEAVED, false), "one row whose neighbours rotate"),
    ("rope_kv_write_batch", |r, _| writes(r, ROPE_INTERLEAVED, false), "rows whose neighbours rotate"),
    ("rope_neox_kv_write", |r, _| r.rows == 1 && writes(r, ROPE_SPLIT_HALF, false), "one row whose halves rotate"),
    ("rope_neox_kv_write_batch", |r, _| writes(r, ROPE_SPLIT_HALF, false), "rows whose halves rotate"),
    ("head_norm_rope_kv_write", |r, _| r.rows == 1 && writes(r, ROPE_INTERLEAVED, true), "one row with head norms whose neighbours rotate"),
    ("head_norm_rope_kv_write_batch", |r, _| writes(r, ROPE_INTERLEAVED, true), "rows with head norms whose neighbours rotate"),
    ("head_norm_rope_neox_kv_write", |r, _| r.rows == 1 && writes(r, ROPE_SPLIT_HALF, true), "one row with head norms whose halves rotate"),
    ("head_norm_rope_neox_kv_write_batch", |r, _| writes(r, ROPE_SPLIT_HALF, true), "rows with head norms whose halves rotate"),
    ("head_norm_kv_write", |r, _| r.rows == 1 && writes(r, ROPE_NONE, true), "one row that does not rotate"),
    ("head_norm_kv_write_batch", |r, _| writes(r, ROPE_NONE, true), "rows that do not rotate"),
];

type Serves = fn(&Record, &Chip) -> bool;

fn write_rows() -> impl Iterator<Item = KernelRow> {
    let row = |&(name, serves, chosen): &(&str, Serves, &'static str), format: &'static str| KernelRow {
        name: format!("{name}_{format}"),
        source: "rope/rope_kv_write.metal",
        op: Some(OpKind::HeadNormRopeKvWrite),
        format: Some(format),
        serves,
        encode: heads_write,
        geometry: match name.ends_with("_batch") {
            false => "a SIMD group; (heads + 2 kv_heads, rows)",
            true => "a SIMD group for every head, 8 a threadgroup; ((heads + 2 kv_heads) / 8, rows)",
        },
        chosen,
    };
    WRITES.iter().flat_map(move |write| KV_FORMATS.map(|format| row(write, format)))
}

const fn in_place(name: &'static str, serves: fn(&Record, &Chip) -> bool, chosen: &'static str) -> Plain {
    Plain {
        name,
        source: "rope/rope.metal",
        op: Some(OpKind::HeadNormRope),
        serves,
        encode: heads_in_place,
        geometry: "a SIMD group for every head, 8 a threadgroup; (heads / 8, rows)",
        chosen,
    }
}

pub(super) const CATEGORY: Category = Category {
    name: "rope",
    sources: sources!["rope/angles.metal", "rope/rope.metal", "rope/rope_kv_write.metal"],
    rows: || ROWS.iter().map(Plain::row).chain(write_rows()).collect(),
    layouts,
};

/// Threads of a SIMD group, and what keeps a core busy of them.
pub(super) const LANES: u32 = 32;
pub(super) const SIMDS: u32 = 8;

fn angles(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::rope_angles::{FREQUENCIES, Y};
    let p = record.params::<RopeAnglesParams>();
    let params = RoPEAnglesParams {
        pairs: p.pairs,
        magnitude: p.magnitude,
        y_stride: stride(record, Y),
        slope: p.slope,
        period: p.period,
    };
    let dispatch = Dispatch::new(record, &*target.row.name)
        .region(1, record.args[FREQUENCIES])
        .operand(2, record, Y)
        .params(&params)
        .region(4, Addr::new(Region::STEPS, 0))
        .grid(Extent::Fixed(p.pairs.div_ceil(LANES)), Extent::Rows(1), Extent::Fixed(1))
        .threads([LANES, 1, 1]);
    vec![dispatch]
}

/// Whether values rotate so, and a head's floats fit threadgroup memory with those of other SIMD groups.
fn turns(record: &Record, style: u32) -> bool {
    let p = record.params::<HeadParams>();
    floats(record) && p.style == style && fits(p.head_dim)
}

/// Whether the heads of all SIMD groups of a threadgroup fit its memory.
pub(super) fn fits(head_dim: u32) -> bool {
    head_dim <= (32 << 10) / 4 / SIMDS
}

/// Bytes of so many heads.
pub(super) fn shared(heads: u32, head_dim: u32) -> usize {
    (heads as usize * head_dim as usize * 4).next_multiple_of(16)
}

fn heads_in_place(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::head::{ANGLES, NORM, X};
    let p = record.params::<HeadParams>();
    let params = RoPEParams {
        heads: p.heads,
        head_dim: p.head_dim,
        pairs: p.pairs,
        has_norm: (!record.args[NORM].is_none()).into(),
        eps: p.eps,
        x_stride: stride(record, X),
        angles_stride: stride(record, ANGLES),
    };
    let simds = SIMDS.min(p.heads);
    let dispatch = Dispatch::new(record, &*target.row.name)
        .region(1, record.args[NORM])
        .operand(2, record, X)
        .params(&params)
        .operand(4, record, ANGLES)
        .threadgroup_memory(&[shared(simds, p.head_dim)])
        .grid(Extent::Fixed(p.heads.div_ceil(simds)), Extent::Rows(1), Extent::Fixed(1))
        .threads([simds * LANES, 1, 1]);
    vec![dispatch]
}

/// Whether values rotate so, some heads have norms or none has, and they fit threadgroup memory. Without a rotation one kernel is for
/// heads with and without norms.
fn writes(record: &Record, style: u32, normed: bool) -> bool {
    use slots::heads::{K_NORM, Q_NORM};
    let p = record.params::<HeadsParams>();
    let norms = [Q_NORM, K_NORM].iter().any(|slot| !record.args[*slot].is_none());
    floats(record) && p.style == style && (norms == normed || style == ROPE_NONE) && fits(p.head_dim)
}

fn heads_write(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::heads::*;
    let p = record.params::<HeadsParams>();
    let has = |slot: usize| u32::from(!record.args[slot].is_none());
    let rope = RoPEQKVWriteParams {
        heads: p.heads,
        kv_heads: p.kv_heads,
        head_dim: p.head_dim,
        pairs: p.pairs,
        eps: p.eps,
        q_stride: stride(record, Q),
        k_stride: stride(record, K),
        v_stride: stride(record, V),
        angles_stride: stride(record, ANGLES),
    };
    let params = RoPEQKVCacheParams { rope, kv: p.kv, has_q_norm: has(Q_NORM), has_k_norm: has(K_NORM) };
    // As the kernel was instantiated.
    let simds = if record.rows == 1 { 1 } else { SIMDS };
    let dispatch = Dispatch::new(record, &*target.row.name)
        .operand(0, record, K)
        .region(1, record.args[Q_NORM])
        .operand(2, record, Q)
        .params(&params)
        .region(4, Addr::new(Region::STEPS, 0))
        .operand(5, record, V)
        .region(6, record.args[K_NORM])
        .operand(7, record, ANGLES)
        .region(8, record.args[KV])
        .threadgroup_memory(&[shared(simds, p.head_dim)])
        .grid(Extent::Fixed((p.heads + 2 * p.kv_heads).div_ceil(simds)), Extent::Rows(1), Extent::Fixed(1))
        .threads([simds * LANES, 1, 1]);
    vec![dispatch]
}
