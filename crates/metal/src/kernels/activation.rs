//! Activation functions and gates.

use super::common::{ElementwiseParams, THREADS, alone, floats, stride};
use super::{Category, Plain, Target};
use crate::dispatch::{Dispatch, Extent};
use crate::shaders::sources;
use akunu_plan::op::{Activation, ElementParams, OpKind, slots::gated_activation::*};
use akunu_plan::record::Record;
use std::mem::offset_of;

const fn gate(name: &'static str, serves: fn(&Record, &crate::chip::Chip) -> bool, chosen: &'static str) -> Plain {
    Plain {
        name,
        source: "activation/activation.metal",
        op: Some(OpKind::GatedActivation),
        serves,
        encode,
        geometry: "256 threads; (dim / 256, rows)",
        chosen,
    }
}

const fn plain(name: &'static str) -> Plain {
    let why = "no op: products apply activations to their results";
    alone(name, "activation/activation.metal", "256 threads; (dim / 256, rows)", why)
}

static ROWS: &[Plain] = &[
    plain("silu"),
    plain("gelu"),
    plain("gelu_erf"),
    gate("plain_gate", |r, _| is(r, Activation::None), "gates without an activation"),
    gate("silu_gate", |r, _| is(r, Activation::Silu), "gates by SiLU that no product has taken in"),
    gate("gelu_gate", |r, _| is(r, Activation::GeluTanh), "gates by GELU (tanh) that no product has taken in"),
    gate("gelu_erf_gate", |r, _| is(r, Activation::GeluErf), "gates by GELU (erf) that no product has taken in"),
];

pub(super) const CATEGORY: Category = Category {
    name: "activation",
    sources: sources!["activation/activation.metal"],
    rows: || ROWS.iter().map(Plain::row).collect(),
    layouts: Vec::new,
};

fn is(record: &Record, activation: Activation) -> bool {
    floats(record) && record.params::<ElementParams>().activation == activation as u32
}

fn encode(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    let p = record.params::<ElementParams>();
    let params = ElementwiseParams {
        dim: p.dim,
        x_stride: stride(record, X),
        u_stride: stride(record, U),
        y_stride: stride(record, Y),
        activation: p.activation,
        ..Default::default()
    };
    let dispatch = Dispatch::new(record, &*target.row.name)
        .operand(0, record, X)
        .operand(2, record, Y)
        .params(&params)
        .rows_at(offset_of!(ElementwiseParams, rows))
        .operand(4, record, U)
        .grid(Extent::Fixed(p.dim.div_ceil(THREADS)), Extent::Rows(1), Extent::Fixed(1))
        .threads([THREADS, 1, 1]);
    vec![dispatch]
}
