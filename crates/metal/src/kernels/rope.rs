//! Rotated positions.

use super::common::{floats, stride};
use super::{Category, Plain, Target};
use crate::chip::Chip;
use crate::dispatch::{Dispatch, Extent};
use crate::params::params;
use crate::shaders::sources;
use akunu_plan::op::{HeadParams, OpKind, ROPE_INTERLEAVED, ROPE_SPLIT_HALF, RopeAnglesParams, slots};
use akunu_plan::record::{Addr, Record, Region};

params! {
    /// `rope_angles`.
    RoPEAnglesParams {
        pairs: u32,
        magnitude: f32,
        y_stride: u32,
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
    sources: sources!["rope/angles.metal", "rope/rope.metal"],
    rows: || ROWS.iter().map(Plain::row).collect(),
    layouts,
};

/// Threads of a SIMD group, and what keeps a core busy of them.
pub(super) const LANES: u32 = 32;
pub(super) const SIMDS: u32 = 8;

fn angles(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::rope_angles::{FREQUENCIES, Y};
    let p = record.params::<RopeAnglesParams>();
    let params = RoPEAnglesParams { pairs: p.pairs, magnitude: p.magnitude, y_stride: stride(record, Y) };
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
