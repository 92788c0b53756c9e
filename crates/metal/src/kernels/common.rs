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
    /// `transpose`.
    TransposeParams {
        rows: u32,
        columns: u32,
        x_stride: u32,
        y_stride: u32,
    }
    /// `head_rearrange`.
    HeadRearrangeParams {
        rows: u32,
        heads: u32,
        head_dim: u32,
        x_stride: u32,
    }
    /// `qkv_split`.
    QKVSplitParams {
        q_dim: u32,
        kv_dim: u32,
        x_stride: u32,
        q_stride: u32,
        kv_stride: u32,
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
    Plain {
        name: "mean_rows",
        source: "common/mean_rows.metal",
        op: Some(OpKind::MeanRows),
        serves: |r, _| floats(r),
        encode: mean,
        geometry: "32 by 8 threads; (dim / 32, outputs)",
        chosen: "always",
    },
    alone("residual_add", "common/add.metal", "256 threads; (dim / 256, rows)", "no op: products and norms add it"),
    alone("bias_add", "common/add.metal", "256 threads; (dim / 256, rows)", "no op: products add it"),
    alone("transpose", "common/rearrange.metal", "32 by 8 threads; (columns / 32, rows / 32)", "no op"),
    alone("head_rearrange", "common/rearrange.metal", "64 threads; (head_dim / 64, rows, heads)", "no op"),
    alone(
        "qkv_split",
        "common/rearrange.metal",
        "256 threads; (dim / 256, rows)",
        "no op: queries, keys and values are products apart",
    ),
];

/// A kernel that no op of programs is run by.
pub(super) const fn alone(
    name: &'static str,
    source: &'static str,
    geometry: &'static str,
    chosen: &'static str,
) -> Plain {
    Plain { name, source, op: None, serves: |_, _| false, encode: |_, _| Vec::new(), geometry, chosen }
}

pub(super) const CATEGORY: Category = Category {
    name: "common",
    sources: sources![
        "common/add.metal",
        "common/gather_rows.metal",
        "common/mean_rows.metal",
        "common/rearrange.metal"
    ],
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

/// Columns of a threadgroup, and the threads that share one.
const COLUMNS: u32 = 32;
const PARTS: u32 = 8;

fn mean(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    let columns = record.params::<ElementParams>().dim.div_ceil(COLUMNS);
    let picked = gather(record, target).into_iter();
    let rows = (Extent::Rows(1), Extent::Fixed(1));
    picked.map(|d| d.grid(Extent::Fixed(columns), rows.0, rows.1).threads([COLUMNS, PARTS, 1])).collect()
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
