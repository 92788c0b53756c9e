//! Convolutions of sound.

use super::common::{THREADS, floats, stride};
use super::{Category, Plain, Target};
use crate::dispatch::{Dispatch, Extent};
use crate::params::params;
use crate::shaders::sources;
use akunu_plan::op::{OpKind, slots};
use akunu_plan::record::Record;
use std::mem::offset_of;

params! {
    /// `unfold`: frames, for a product to be a convolution.
    UnfoldParams {
        rows: u32,
        channels: u32,
        taps: u32,
        /// Frames from one row to the next.
        stride: u32,
        x_stride: u32,
        y_stride: u32,
    }
    /// `conv1d_f32` and `conv1d_f16`.
    Conv1DParams {
        in_frames: u32,
        out_frames: u32,
        in_channels: u32,
        out_channels: u32,
        taps: u32,
        stride: u32,
        padding: u32,
        activation: u32,
        has_bias: u32,
        /// Values from one frame to the next.
        x_stride: u32,
        y_stride: u32,
    }
    /// `pos_embed_add`.
    PosEmbedAddParams {
        dim: u32,
        /// The position of row 0.
        first: u32,
        x_stride: u32,
        y_stride: u32,
    }
}

static ROWS: &[Plain] = &[
    Plain {
        name: "unfold",
        source: "conv/unfold.metal",
        op: Some(OpKind::Unfold),
        serves: |r, _| floats(r),
        encode: unfold,
        geometry: "256 threads; (channels * taps / 256, rows)",
        chosen: "always",
    },
    direct("conv1d_f32", "128 threads; (output channels / 4, output frames / 4)"),
    direct("conv1d_f16", "128 threads; (output channels / 4, output frames / 4)"),
    direct("pos_embed_add", "256 threads; (dim / 256, rows)"),
];

/// A kernel that programs do not use: they unfold frames for a GEMM, and add what `Embed` gives.
const fn direct(name: &'static str, geometry: &'static str) -> Plain {
    Plain {
        name,
        source: "conv/conv1d.metal",
        op: None,
        serves: |_, _| false,
        encode: |_, _| Vec::new(),
        geometry,
        chosen: "by no op: dispatched directly",
    }
}

pub(super) const CATEGORY: Category = Category {
    name: "conv",
    sources: sources!["conv/conv1d.metal", "conv/unfold.metal"],
    rows: || ROWS.iter().map(Plain::row).collect(),
    layouts,
};

fn unfold(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::unfold::{X, Y};
    let p = record.params::<akunu_plan::op::UnfoldParams>();
    let params = UnfoldParams {
        rows: 0,
        channels: p.channels,
        taps: p.taps,
        stride: p.stride,
        x_stride: stride(record, X),
        y_stride: stride(record, Y),
    };
    let width = p.channels * p.taps;
    // A row takes as many frames as it moves on.
    let frames = record.rows as usize * p.stride as usize;
    let dispatch = Dispatch::new(record, &*target.row.name)
        .at(0, record.args[X], Some(record.strides[X] as usize * frames))
        .operand(2, record, Y)
        .params(&params)
        .rows_at(offset_of!(UnfoldParams, rows))
        .grid(Extent::Fixed(width.div_ceil(THREADS)), Extent::Rows(1), Extent::Fixed(1))
        .threads([THREADS, 1, 1]);
    vec![dispatch]
}
