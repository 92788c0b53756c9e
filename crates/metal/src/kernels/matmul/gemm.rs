//! Products of many rows, in programs that may round.

use crate::dispatch::{Dispatch, Extent};
use crate::kernels::common::{floats, stride};
use crate::kernels::weights::{self, Buffers, Weight};
use crate::kernels::{KernelRow, Plain, Target};
use crate::params::params;
use akunu_plan::op::{MatMulParams, OpKind, Per, slots};
use akunu_plan::record::{MAY_ROUND, Record};
use std::mem::offset_of;

params! {
    /// `gemm`, `simd_gemm` and `simd_gemm_small`; M, N and K first, as the original has them.
    GEMMParams {
        /// Rows of the activations and of the result.
        m: u32,
        /// Rows of the weights: columns of the result.
        n: u32,
        /// Columns of both.
        k: u32,
        /// Values from one row of the activations to the next.
        lda: u32,
        /// Bytes from one row of the weights to the next, and of their side planes.
        ldb: u32,
        side_bytes: u32,
        /// Values from one row of the result, and of the residual stream, to the next.
        ldc: u32,
        ldr: u32,
    }
}

/// Activation rows of the two tiles, and weight rows of both.
const ROWS: u32 = 32;
const FEW_ROWS: u32 = 8;
const COLUMNS: u32 = 64;
const THREADS: u32 = 128;
/// Up to here the small tile wastes less: two of them read the weights twice, and a large one multiplies half of it for nothing.
const MOST_SMALL: u32 = 16;

/// Buffers of the second matrix.
const UP: Buffers = [8, 9, 10];

/// Function constants, as the shaders number them.
const GEMM_K: u32 = 10;
const ACTIVATION: u32 = 20;
const HAS_BIAS: u32 = 21;
const HAS_RESIDUAL: u32 = 22;
const SCALE: u32 = 23;
const SOFT_CAP: u32 = 24;

static TABLE: &[Plain] = &[
    Plain {
        name: "simd_gemm_small",
        source: "matmul/simd_gemm.metal",
        op: Some(OpKind::MatMul),
        serves: |r, chip| chip.matrices && many(r) && r.rows <= MOST_SMALL,
        encode: small,
        geometry: "128 threads; (N / 64, rows / 8)",
        chosen: "prefill steps of up to 16 rows",
    },
    Plain {
        name: "simd_gemm",
        source: "matmul/simd_gemm.metal",
        op: Some(OpKind::MatMul),
        serves: |r, chip| chip.matrices && many(r),
        encode: both,
        geometry: "128 threads; (N / 64, rows / 32)",
        chosen: "prefill steps of more than 16 rows",
    },
    Plain {
        name: "simd_gemm_small_gated",
        source: "matmul/simd_gemm.metal",
        op: Some(OpKind::MatMulGated),
        serves: |r, chip| chip.matrices && many(r) && r.rows <= MOST_SMALL,
        encode: small,
        geometry: "128 threads; (N / 64, rows / 8)",
        chosen: "gate and up in prefill steps of up to 16 rows",
    },
    Plain {
        name: "simd_gemm_gated",
        source: "matmul/simd_gemm.metal",
        op: Some(OpKind::MatMulGated),
        serves: |r, chip| chip.matrices && many(r),
        encode: both,
        geometry: "128 threads; (N / 64, rows / 32)",
        chosen: "gate and up in prefill steps of more than 16 rows",
    },
    Plain {
        name: "gemm",
        source: "matmul/simd_gemm.metal",
        op: Some(OpKind::MatMul),
        serves: |r, _| many(r),
        encode: plain,
        geometry: "128 threads; (N / 64, rows / 32)",
        chosen: "prefill on a GPU without matrices of SIMD groups",
    },
    Plain {
        name: "gemm_gated",
        source: "matmul/simd_gemm.metal",
        op: Some(OpKind::MatMulGated),
        serves: |r, _| many(r),
        encode: plain,
        geometry: "128 threads; (N / 64, rows / 32)",
        chosen: "gate and up in prefill on a GPU without matrices of SIMD groups",
    },
];

pub(super) fn rows() -> impl Iterator<Item = KernelRow> {
    TABLE.iter().flat_map(Plain::rows)
}

/// Whether a product is of a program for many rows. Of outputs there are few, and maxima of logits are another kernel's.
fn many(record: &Record) -> bool {
    let maxima = record.kind() == Some(OpKind::MatMul) && !record.args[slots::matmul::MAXIMA].is_none();
    record.flags & MAY_ROUND != 0 && record.per() != Per::Output && floats(record) && !maxima
}

fn small(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    vec![product(record, target.row.name.clone(), FEW_ROWS)]
}

fn plain(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    vec![product(record, target.row.name.clone(), ROWS)]
}

/// A step is of as many rows as its prompt has left: both tiles are ready.
fn both(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    let few = target.row.name.replacen("simd_gemm", "simd_gemm_small", 1);
    vec![
        product(record, few, FEW_ROWS).when(1..=MOST_SMALL),
        product(record, target.row.name.clone(), ROWS).when(MOST_SMALL + 1..=u32::MAX),
    ]
}

fn product(record: &Record, name: String, rows: u32) -> Dispatch {
    use slots::matmul::{BIAS, RESIDUAL, W, X, Y};
    let p = record.params::<MatMulParams>();
    let gated = record.kind() == Some(OpKind::MatMulGated);
    let params = GEMMParams {
        m: 0,
        n: p.n,
        k: p.k,
        lda: stride(record, X),
        ldb: p.row_bytes,
        side_bytes: p.side_bytes,
        ldc: stride(record, Y),
        ldr: if gated { 0 } else { stride(record, RESIDUAL) },
    };
    let weight = |slot, nth| Weight::of(record, slot, nth, p.n, p.row_bytes, p.side_bytes);
    let dispatch = Dispatch::new(record, name)
        .operand(0, record, X)
        .operand(2, record, Y)
        .params(&params)
        .rows_at(offset_of!(GEMMParams, m))
        .constants(weights::constants(p.dtype, p.k))
        .constant(GEMM_K, p.k)
        .constant(ACTIVATION, p.activation)
        .grid(Extent::Fixed(p.n.div_ceil(COLUMNS)), Extent::Rows(rows), Extent::Fixed(1))
        .threads([THREADS, 1, 1]);
    let dispatch = weight(W, 0).bind(dispatch, weights::FIRST);
    if gated {
        return weight(slots::gated::U, 1).bind(dispatch, UP);
    }
    dispatch
        .at(6, record.args[BIAS], Some(4 * p.n as usize))
        .operand(7, record, RESIDUAL)
        .constant(HAS_BIAS, (!record.args[BIAS].is_none()).into())
        .constant(HAS_RESIDUAL, (!record.args[RESIDUAL].is_none()).into())
        .constant(SCALE, p.scale.to_bits())
        .constant(SOFT_CAP, p.soft_cap.to_bits())
}
