//! Number formats to floats.

use super::common::{THREADS, floats, stride};
use super::{Category, KernelRow, Plain, Target};
use crate::dispatch::{Dispatch, Extent};
use crate::formats::FORMATS;
use crate::params::params;
use crate::shaders::sources;
use akunu_plan::op::{ElementParams, OpKind, slots};
use akunu_plan::record::Record;
use std::mem::offset_of;

params! {
    /// Rows of floats, or of blocks.
    ConvertParams {
        rows: u32,
        dim: u32,
        /// Values from one row to the next.
        x_stride: u32,
        y_stride: u32,
        /// Bytes from one row of blocks to the next, and in each side plane.
        row_bytes: u32,
        side_bytes: u32,
    }
}

static ROWS: &[Plain] = &[
    Plain {
        name: "f32_to_f32",
        source: "convert/convert.metal",
        op: Some(OpKind::Convert),
        serves: |r, _| floats(r),
        encode: copy,
        geometry: "256 threads; (dim / 256, rows)",
        chosen: "always: products take f32",
    },
    tool("f32_to_f16", "convert/convert.metal"),
    tool("f16_to_f32", "convert/convert.metal"),
];

/// What no op of programs needs.
const fn tool(name: &'static str, source: &'static str) -> Plain {
    Plain {
        name,
        source,
        op: None,
        serves: |_, _| false,
        encode: |_, _| Vec::new(),
        geometry: "256 threads; (dim / 256, rows)",
        chosen: "by no op",
    }
}

pub(super) const CATEGORY: Category = Category {
    name: "convert",
    sources: sources!["convert/convert.metal", "convert/dequant.metal"],
    rows: || ROWS.iter().map(Plain::row).chain(dequantizers()).collect(),
    layouts,
};

/// A kernel for every format and both floats.
fn dequantizers() -> impl Iterator<Item = KernelRow> {
    let to = |(suffix, _): &(&'static str, &str)| {
        let (suffix, row) = (*suffix, tool("", "convert/dequant.metal"));
        ["f32", "f16"].map(|float| KernelRow {
            name: format!("dequant_{suffix}_to_{float}"),
            format: Some(suffix),
            geometry: "256 threads, 16 values each; (dim / 4096, rows)",
            ..row.row()
        })
    };
    FORMATS.iter().flat_map(to)
}

fn copy(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::convert::{X, Y};
    let dim = record.params::<ElementParams>().dim;
    let params = ConvertParams { dim, x_stride: stride(record, X), y_stride: stride(record, Y), ..Default::default() };
    let dispatch = Dispatch::new(record, &*target.row.name)
        .operand(0, record, X)
        .operand(2, record, Y)
        .params(&params)
        .rows_at(offset_of!(ConvertParams, rows))
        .grid(Extent::Fixed(dim.div_ceil(THREADS)), Extent::Rows(1), Extent::Fixed(1))
        .threads([THREADS, 1, 1]);
    vec![dispatch]
}
