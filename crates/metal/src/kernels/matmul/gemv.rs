//! Products of few rows: every weight is read once for up to 16 of them, and all arithmetic is f32.

use crate::chip::Chip;
use crate::dispatch::{Dispatch, Extent};
use crate::kernels::common::{floats, stride};
use crate::kernels::weights::{Buffers, FIRST, Weight, constants};
use crate::kernels::{KernelRow, Plain, Target};
use crate::params::params;
use akunu_plan::op::{MAXIMA_SLICE, MatMulParams, OpKind, slots};
use akunu_plan::record::Record;
use std::mem::offset_of;

params! {
    /// All products of few rows.
    GEMVParams {
        rows: u32,
        n: u32,
        k: u32,
        /// Values from one row to the next; 0 where there is no residual stream.
        x_stride: u32,
        y_stride: u32,
        residual_stride: u32,
        row_bytes: u32,
        side_bytes: u32,
        activation: u32,
        scale: f32,
        /// 0: none.
        soft_cap: f32,
        has_bias: u32,
        /// 0 where no maxima are kept.
        maxima_stride: u32,
    }
}

/// Function constants, as the shaders number them.
const BATCH: u32 = 11;
const SIMDS: u32 = 17;

/// SIMD groups of a threadgroup, as the shaders have it.
const GROUPS: u32 = 4;
/// Results of a SIMD group, for a row alone and for several.
const RESULTS: u32 = 4;
const BATCHED_RESULTS: u32 = 2;
/// Rows that share a pass over the weights: pipelines are made for each of these numbers.
const BATCHES: [u32; 4] = [2, 4, 8, 16];

/// The matrix that is multiplied with the gate.
const SECOND: Buffers = [6, 7, 8];

const SOURCE: &str = "matmul/gemv.metal";
const WIDE_SOURCE: &str = "matmul/gemv_wide.metal";

static WIDE: Plain = Plain {
    name: "gemv_wide",
    source: WIDE_SOURCE,
    op: Some(OpKind::MatMul),
    serves: |r, chip| floats(r) && is_wide(r, chip),
    encode: wide,
    geometry: "256 threads for 256 results; (N / 256, 1); of several rows as gemv_batched",
    chosen: "wide_rows results or more: vocabularies",
};

static GEMV: Plain = Plain {
    name: "gemv",
    source: SOURCE,
    op: Some(OpKind::MatMul),
    serves: |r, _| floats(r),
    encode: plain,
    geometry: "128 threads; (N / 16, 1), or from large_k columns on (N / 4, 1)",
    chosen: "products in f32, of one row; gemv_batched for more",
};

static GATE: Plain = Plain {
    name: "gemv_gate",
    source: SOURCE,
    op: Some(OpKind::MatMulGated),
    serves: |r, _| floats(r),
    encode: gated,
    geometry: "128 threads; (N / 16, 1), or from large_k columns on (N / 4, 1)",
    chosen: "gate and up in f32, of one row; gemv_gate_batched for more",
};

/// What the others dispatch for more than one row.
const fn batched(name: &'static str) -> Plain {
    Plain {
        name,
        source: SOURCE,
        op: None,
        serves: |_, _| false,
        encode: |_, _| Vec::new(),
        geometry: "128 threads; (N / 8, rows / 16), or from large_k columns on (N / 2, rows / 16)",
        chosen: "2 rows or more, where the kernel of one row is chosen; specialized for 2, 4, 8 and 16",
    }
}

static BATCHED: Plain = batched("gemv_batched");
static GATE_BATCHED: Plain = batched("gemv_gate_batched");

static SLICE_MAXIMA: Plain = Plain {
    name: "slice_maxima",
    source: WIDE_SOURCE,
    op: None,
    serves: |_, _| false,
    encode: |_, _| Vec::new(),
    geometry: "256 threads; (N / 256, rows)",
    chosen: "logits of several rows, or of small vocabularies: gemv_wide keeps maxima itself",
};

pub(super) fn rows() -> impl Iterator<Item = KernelRow> {
    let formats = [&WIDE, &GEMV, &BATCHED, &GATE, &GATE_BATCHED];
    formats.into_iter().flat_map(Plain::rows).chain([SLICE_MAXIMA.row()])
}

fn is_wide(record: &Record, chip: &Chip) -> bool {
    record.params::<MatMulParams>().n >= chip.wide_rows
}

fn wide(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::matmul::MAXIMA;
    let of_256 = Extent::Fixed(record.params::<MatMulParams>().n.div_ceil(MAXIMA_SLICE as u32));
    let first = product(record, &target.row.name)
        .operand(8, record, MAXIMA)
        .when(1..=1)
        .grid(of_256, Extent::Rows(1), Extent::Fixed(1))
        .threads([MAXIMA_SLICE as u32, 1, 1]);
    let mut all = vec![first];
    all.extend(batches(record, &format!("gemv_batched_{}", target.row.format.unwrap_or_default()), 1));
    all.extend(maxima(record).map(|dispatch| dispatch.when(2..=u32::MAX)));
    all
}

fn plain(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    let simds = simds(record, target.chip);
    let mut all = vec![alone(record, &target.row.name, simds)];
    all.extend(batches(record, &format!("gemv_batched_{}", target.row.format.unwrap_or_default()), simds));
    all.extend(maxima(record));
    all
}

fn gated(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    let simds = simds(record, target.chip);
    let mut all = vec![alone(record, &target.row.name, simds)];
    all.extend(batches(record, &format!("gemv_gate_batched_{}", target.row.format.unwrap_or_default()), simds));
    all
}

/// SIMD groups that share a row of weights: from the shape alone, so that it is the same for every number of rows.
fn simds(record: &Record, chip: &Chip) -> u32 {
    if record.params::<MatMulParams>().k >= chip.large_k { GROUPS } else { 1 }
}

/// One row.
fn alone(record: &Record, name: &str, simds: u32) -> Dispatch {
    of_groups(product(record, name), record, RESULTS, simds).when(1..=1)
}

/// More rows, up to as many as the record has.
fn batches(record: &Record, name: &str, simds: u32) -> Vec<Dispatch> {
    let mut all = Vec::new();
    let mut from = 2;
    for batch in BATCHES.into_iter().filter(|batch| batch / 2 < record.rows) {
        let most = BATCHES[BATCHES.len() - 1];
        let last = if batch == most { u32::MAX } else { batch };
        let mut dispatch = of_groups(product(record, name), record, BATCHED_RESULTS, simds).constant(BATCH, batch);
        dispatch.threadgroups[1] = Extent::Rows(most);
        all.push(dispatch.when(from..=last));
        from = batch + 1;
    }
    all
}

fn of_groups(dispatch: Dispatch, record: &Record, results: u32, simds: u32) -> Dispatch {
    let each = results * GROUPS / simds;
    let across = Extent::Fixed(record.params::<MatMulParams>().n.div_ceil(each));
    dispatch.constant(SIMDS, simds).grid(across, Extent::Rows(1), Extent::Fixed(1)).threads([32 * GROUPS, 1, 1])
}

fn params_of(record: &Record) -> GEMVParams {
    use slots::matmul::*;
    let p = record.params::<MatMulParams>();
    let mut params = GEMVParams {
        rows: 0,
        n: p.n,
        k: p.k,
        x_stride: stride(record, X),
        y_stride: stride(record, Y),
        row_bytes: p.row_bytes,
        side_bytes: p.side_bytes,
        activation: p.activation,
        scale: p.scale,
        soft_cap: p.soft_cap,
        ..Default::default()
    };
    if record.kind() == Some(OpKind::MatMul) {
        params.residual_stride = stride(record, RESIDUAL);
        params.has_bias = (!record.args[BIAS].is_none()).into();
        params.maxima_stride = stride(record, MAXIMA);
    }
    params
}

/// A product of either kind, but for its grid.
fn product(record: &Record, name: &str) -> Dispatch {
    use slots::matmul::{BIAS, RESIDUAL, W, X, Y};
    let p = record.params::<MatMulParams>();
    let weight = |slot, nth| Weight::of(record, slot, nth, p.n, p.row_bytes, p.side_bytes);
    let dispatch = Dispatch::new(record, name)
        .constants(constants(p.dtype, p.k))
        .operand(0, record, X)
        .operand(2, record, Y)
        .params(&params_of(record))
        .rows_at(offset_of!(GEMVParams, rows));
    let dispatch = weight(W, 0).bind(dispatch, FIRST);
    match record.kind() {
        Some(OpKind::MatMulGated) => weight(slots::gated::U, 1).bind(dispatch, SECOND),
        _ => dispatch.region(6, record.args[BIAS]).operand(7, record, RESIDUAL),
    }
}

/// Maxima of results that are there already, where the op has them.
fn maxima(record: &Record) -> Option<Dispatch> {
    use slots::matmul::{MAXIMA, Y};
    let slices = Extent::Fixed(record.params::<MatMulParams>().n.div_ceil(MAXIMA_SLICE as u32));
    (!record.args[MAXIMA].is_none()).then(|| {
        Dispatch::new(record, SLICE_MAXIMA.name)
            .operand(2, record, Y)
            .params(&params_of(record))
            .rows_at(offset_of!(GEMVParams, rows))
            .operand(8, record, MAXIMA)
            .grid(slices, Extent::Rows(1), Extent::Fixed(1))
            .threads([MAXIMA_SLICE as u32, 1, 1])
            .after_barrier()
    })
}
