//! Norms of rows.

use super::common::{alone, floats, stride};
use super::rope::{LANES, SIMDS};
use super::{Category, Plain, Target};
use crate::dispatch::{Dispatch, Extent};
use crate::params::params;
use crate::shaders::sources;
use akunu_plan::op::{HeadParams, NORM_LAYER, NORM_RMS, NormParams, OpKind, ROPE_NONE, slots};
use akunu_plan::record::Record;
use std::mem::offset_of;

params! {
    /// `rmsnorm` and `residual_rmsnorm`.
    RMSNormParams {
        rows: u32,
        dim: u32,
        x_stride: u32,
        y_stride: u32,
        residual_stride: u32,
        eps: f32,
        scale: f32,
    }
    /// `layernorm`.
    LayerNormParams {
        rows: u32,
        dim: u32,
        x_stride: u32,
        y_stride: u32,
        residual_stride: u32,
        eps: f32,
        scale: f32,
        has_bias: u32,
    }
    /// `head_rmsnorm`.
    HeadNormParams {
        heads: u32,
        head_dim: u32,
        x_stride: u32,
        has_weight: u32,
        eps: f32,
    }
}

static ROWS: &[Plain] = &[
    Plain {
        name: "rmsnorm",
        source: "norm/norm.metal",
        op: Some(OpKind::Norm),
        serves: |r, _| is(r, NORM_RMS) && r.args[slots::norm::RESIDUAL].is_none(),
        encode: rmsnorm,
        geometry: "norm_threads; a threadgroup for every row",
        chosen: "RMS norms",
    },
    Plain {
        name: "residual_rmsnorm",
        source: "norm/norm.metal",
        op: Some(OpKind::Norm),
        serves: |r, _| is(r, NORM_RMS),
        encode: rmsnorm,
        geometry: "norm_threads; a threadgroup for every row",
        chosen: "RMS norms whose result is added to the residual stream",
    },
    Plain {
        name: "layernorm",
        source: "norm/norm.metal",
        op: Some(OpKind::Norm),
        serves: |r, _| is(r, NORM_LAYER),
        encode: layernorm,
        geometry: "norm_threads; a threadgroup for every row",
        chosen: "layer norms",
    },
    alone(
        "rmsnorm_gemma",
        "norm/norm.metal",
        "norm_threads; a threadgroup for every row",
        "no op: weights get their 1 when they are loaded",
    ),
    Plain {
        name: "head_rmsnorm",
        source: "norm/head_norm.metal",
        op: Some(OpKind::HeadNormRope),
        serves: |r, _| floats(r) && r.params::<HeadParams>().style == ROPE_NONE,
        encode: head_rmsnorm,
        geometry: "a SIMD group for every head, 8 a threadgroup; (heads / 8, rows)",
        chosen: "heads in place that do not rotate",
    },
];

pub(super) const CATEGORY: Category = Category {
    name: "norm",
    sources: sources!["norm/head_norm.metal", "norm/norm.metal"],
    rows: || ROWS.iter().map(Plain::row).collect(),
    layouts,
};

fn is(record: &Record, kind: u32) -> bool {
    floats(record) && record.params::<NormParams>().kind == kind
}

fn rmsnorm(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::norm::*;
    let p = record.params::<NormParams>();
    let params = RMSNormParams {
        rows: 0,
        dim: p.dim,
        x_stride: stride(record, X),
        y_stride: stride(record, Y),
        residual_stride: stride(record, RESIDUAL),
        eps: p.eps,
        scale: p.scale,
    };
    let dispatch = of_rows(record, target).params(&params).rows_at(offset_of!(RMSNormParams, rows));
    vec![dispatch.operand(4, record, RESIDUAL)]
}

fn layernorm(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::norm::*;
    let p = record.params::<NormParams>();
    let params = LayerNormParams {
        rows: 0,
        dim: p.dim,
        x_stride: stride(record, X),
        y_stride: stride(record, Y),
        residual_stride: stride(record, RESIDUAL),
        eps: p.eps,
        scale: p.scale,
        has_bias: (!record.args[BIAS].is_none()).into(),
    };
    let dispatch = of_rows(record, target).params(&params).rows_at(offset_of!(LayerNormParams, rows));
    vec![dispatch.operand(4, record, RESIDUAL).region(5, record.args[BIAS])]
}

/// A threadgroup for every row.
fn of_rows(record: &Record, target: &Target<'_>) -> Dispatch {
    use slots::norm::*;
    Dispatch::new(record, &*target.row.name)
        .operand(0, record, X)
        .region(1, record.args[WEIGHT])
        .operand(2, record, Y)
        .grid(Extent::Rows(1), Extent::Fixed(1), Extent::Fixed(1))
        .threads([target.chip.norm_threads, 1, 1])
}

fn head_rmsnorm(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::head::{NORM, X};
    let p = record.params::<HeadParams>();
    let params = HeadNormParams {
        heads: p.heads,
        head_dim: p.head_dim,
        x_stride: stride(record, X),
        has_weight: (!record.args[NORM].is_none()).into(),
        eps: p.eps,
    };
    let simds = SIMDS.min(p.heads);
    let dispatch = Dispatch::new(record, &*target.row.name)
        .region(1, record.args[NORM])
        .operand(2, record, X)
        .params(&params)
        .grid(Extent::Fixed(p.heads.div_ceil(simds)), Extent::Rows(1), Extent::Fixed(1))
        .threads([simds * LANES, 1, 1]);
    vec![dispatch]
}
