//! Products with what follows them.

use super::common::{floats, stride};
use super::rope::{LANES, SIMDS, shared};
use super::weights::{FIRST, Weight, constants};
use super::{Category, KernelRow, Target};
use crate::dispatch::{Dispatch, Extent};
use crate::formats::FORMATS;
use crate::params::{Word, Words, params};
use crate::shaders::sources;
use akunu_plan::op::{KvParams, Makes, MatMulHeadsParams, OpKind, ROPE_NONE, slots::matmul_heads::*};
use akunu_plan::record::{Addr, Record, Region};

params! {
    /// `gemv_*_head_rmsnorm`, and what `gemv_*_kv_write` does before it writes.
    GEMVHeadNormParams {
        head_dim: u32,
        /// Columns of the weight, and bytes of its rows.
        k: u32,
        row_bytes: u32,
        side_bytes: u32,
        x_stride: u32,
        y_stride: u32,
        angles_stride: u32,
        pairs: u32,
        style: u32,
        has_bias: u32,
        has_norm: u32,
        eps: f32,
    }
    /// `gemv_*_kv_write`.
    GEMVKVParams {
        product: GEMVHeadNormParams,
        kv: KvParams,
        are_values: u32,
    }
}

impl Word for GEMVHeadNormParams {
    const METAL: &'static str = "GEMVHeadNormParams";
    fn put(self, to: &mut Vec<u8>) {
        to.extend(self.bytes());
    }
}

pub(super) const CATEGORY: Category =
    Category { name: "fused", sources: sources!["fused/gemv_heads.metal"], rows, layouts };

const SOURCE: &str = "fused/gemv_heads.metal";
const GEOMETRY: &str = "256 threads; (heads, rows)";

fn rows() -> Vec<KernelRow> {
    let of_format = |&(suffix, _): &(&'static str, &str)| {
        let queries = KernelRow {
            name: format!("gemv_{suffix}_head_rmsnorm"),
            source: SOURCE,
            op: Some(OpKind::MatMulHeads),
            format: Some(suffix),
            serves: |r, _| makes(r, Makes::Queries),
            encode: head_rmsnorm,
            geometry: GEOMETRY,
            chosen: "queries that a product finishes",
        };
        let stored = KernelRow {
            name: format!("gemv_{suffix}_kv_write"),
            serves: |r, _| makes(r, Makes::Keys) || makes(r, Makes::Values),
            encode: kv_write,
            chosen: "keys and values that a product finishes",
            ..queries
        };
        (queries, stored)
    };
    FORMATS.iter().map(of_format).flat_map(|(queries, stored)| [queries, stored]).collect()
}

/// Whether its heads are these, and one fits threadgroup memory.
fn makes(record: &Record, what: Makes) -> bool {
    let p = record.params::<MatMulHeadsParams>();
    floats(record) && p.makes == what as u32 && shared(1, p.head.head_dim) <= 32 << 10
}

fn product(record: &Record) -> GEMVHeadNormParams {
    let p = record.params::<MatMulHeadsParams>();
    // Values are stored as they are.
    let turns = p.makes != Makes::Values as u32;
    GEMVHeadNormParams {
        head_dim: p.head.head_dim,
        k: p.product.k,
        row_bytes: p.product.row_bytes,
        side_bytes: p.product.side_bytes,
        x_stride: stride(record, X),
        y_stride: stride(record, Y),
        angles_stride: stride(record, ANGLES),
        pairs: p.head.pairs,
        style: if turns { p.head.style } else { ROPE_NONE },
        has_bias: (!record.args[BIAS].is_none()).into(),
        has_norm: (turns && !record.args[NORM].is_none()).into(),
        eps: p.head.eps,
    }
}

fn dispatch(record: &Record, target: &Target<'_>) -> Dispatch {
    let p = record.params::<MatMulHeadsParams>();
    let dispatch = Dispatch::new(record, &*target.row.name)
        .constants(constants(p.product.dtype, p.product.k))
        .operand(0, record, X)
        .region(6, record.args[BIAS])
        .region(7, record.args[NORM])
        .operand(8, record, ANGLES)
        .threadgroup_memory(&[shared(1, p.head.head_dim)])
        .grid(Extent::Fixed(p.head.heads), Extent::Rows(1), Extent::Fixed(1))
        .threads([SIMDS * LANES, 1, 1]);
    Weight::of(record, W, 0, p.product.n, p.product.row_bytes, p.product.side_bytes).bind(dispatch, FIRST)
}

fn head_rmsnorm(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    vec![dispatch(record, target).operand(2, record, Y).params(&product(record))]
}

fn kv_write(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    let p = record.params::<MatMulHeadsParams>();
    let are_values = (p.makes == Makes::Values as u32).into();
    let params = GEMVKVParams { product: product(record), kv: p.kv, are_values };
    let dispatch = dispatch(record, target).region(2, record.args[KV]).params(&params);
    vec![dispatch.region(9, Addr::new(Region::STEPS, 0))]
}
