//! Element-wise sums, and rows that are picked.

use super::{Category, Plain, Target};
use crate::dispatch::{Dispatch, Extent};
use crate::params::params;
use crate::shaders::sources;
use akunu_plan::op::{ElementParams, OpKind, slots};
use akunu_plan::record::Addr;
use akunu_plan::record::{Record, Region, X_LAYOUT, Y_LAYOUT};
use std::mem::offset_of;

params! {
    /// Element-wise over rows.
    ElementwiseParams {
        rows: u32,
        dim: u32,
        /// Values from one row to the next.
        x_stride: u32,
        u_stride: u32,
        y_stride: u32,
        activation: u32,
        scale: f32,
    }
}

static ROWS: &[Plain] = &[
    Plain {
        name: "vector_add",
        source: "common/add.metal",
        op: Some(OpKind::Add),
        serves: |r, _| floats(r),
        encode: add,
        geometry: "256 threads; (dim / 256, rows)",
        chosen: "a sum that no product has taken in",
    },
    Plain {
        name: "gather_rows",
        source: "common/gather_rows.metal",
        op: Some(OpKind::GatherRows),
        serves: |r, _| floats(r),
        encode: gather,
        geometry: "256 threads; (dim / 256, outputs)",
        chosen: "always",
    },
];

pub(super) const CATEGORY: Category = Category {
    name: "common",
    sources: sources!["common/add.metal", "common/gather_rows.metal"],
    rows: || ROWS.iter().map(Plain::row).collect(),
    layouts,
};

/// Whether all activations are f32.
pub(super) fn floats(record: &Record) -> bool {
    record.flags & (X_LAYOUT | Y_LAYOUT) == 0
}

/// Values from one row of an operand to the next.
pub(super) fn stride(record: &Record, slot: usize) -> u32 {
    record.strides[slot] / 4
}

/// Threads of a kernel with a thread for every value.
pub(super) const THREADS: u32 = 256;

fn add(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::add::{A, B, Y};
    let p = record.params::<ElementParams>();
    let params = ElementwiseParams {
        dim: p.dim,
        x_stride: stride(record, A),
        u_stride: stride(record, B),
        y_stride: stride(record, Y),
        scale: p.scale,
        ..Default::default()
    };
    let dispatch = Dispatch::new(record, &*target.row.name)
        .operand(0, record, A)
        .operand(1, record, B)
        .operand(2, record, Y)
        .params(&params)
        .rows_at(offset_of!(ElementwiseParams, rows))
        .grid(Extent::Fixed(p.dim.div_ceil(THREADS)), Extent::Rows(1), Extent::Fixed(1))
        .threads([THREADS, 1, 1]);
    vec![dispatch]
}

fn gather(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::gather::{X, Y};
    let p = record.params::<ElementParams>();
    let params = ElementwiseParams {
        dim: p.dim,
        x_stride: stride(record, X),
        y_stride: stride(record, Y),
        ..Default::default()
    };
    let dispatch = Dispatch::new(record, &*target.row.name)
        .region(0, record.args[X])
        .operand(2, record, Y)
        .params(&params)
        .rows_at(offset_of!(ElementwiseParams, rows))
        .region(4, Addr::new(Region::STEPS, 0))
        .grid(Extent::Fixed(p.dim.div_ceil(THREADS)), Extent::Rows(1), Extent::Fixed(1))
        .threads([THREADS, 1, 1]);
    vec![dispatch]
}
