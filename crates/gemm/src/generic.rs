//! Portable dot products for every format, and the definition of the sum that the faster ones keep.
//!
//! With int8 activations a row is summed in four chains: the block `b` of 32 values belongs to
//! chain `b % 4`, and adds to it, each step one fused multiply-add,
//!   `float(Σ q·a) * (w_scale * a_scale)`, then `w_offset * a_sum`.
//! The integer part is exact. Where a format has one scale per 16 values (narrow), the block takes
//! two steps of each kind, first half first; where it has one per 32 (wide), one step, and
//! `a_sum` is the sum of the two group sums. The result is `(c0 + c1) + (c2 + c3)`. Neither the
//! other rows of a tile nor its shape enter, and SIMD kernels reach the same bits with their lanes.
//!
//! With f32 activations value `k` belongs to chain `k % 16`, and the chains are folded in halves.
//! Here the products are rounded before they are added, in the SIMD kernels they are not.

use super::gemm::Gemm;
use akunu_dtype::{DType, Format, GROUP, MAX_BLOCK, Planes, Unpacked, q8};

/// Activation rows that share one unpacking of a weight row.
const TILE: usize = 32;

/// Chains of the f32 sum.
pub const F32_CHAINS: usize = 16;

/// Chains of the int8 sum.
pub const Q8_CHAINS: usize = 4;

/// Values decoded at a time.
const CHUNK: usize = MAX_BLOCK;

/// Any format, f32 activations: each chunk of weights is decoded once for a tile of rows.
///
/// # Safety
/// As [`Gemm`] promises.
pub unsafe fn f32_any(d: &Gemm) {
    let Some(dtype) = DType::from_index(d.dtype) else { return };
    let f = dtype.format();
    let step = CHUNK / f.block * f.block;
    let mut w = [0.0f32; CHUNK];
    for n in 0..d.cols {
        for m0 in (0..d.rows).step_by(TILE) {
            let rows = TILE.min(d.rows - m0);
            let mut chains = [[0.0f32; F32_CHAINS]; TILE];
            for k in (0..d.k).step_by(step) {
                let len = step.min(d.k - k);
                // SAFETY: `k` and `len` are whole blocks within the row.
                (f.decode)(unsafe { planes(d, f, n, k, len) }, &mut w[..len]);
                for (m, chains) in chains[..rows].iter_mut().enumerate() {
                    // SAFETY: row `m0 + m` has `d.k` floats, and rows are aligned.
                    let x = unsafe { std::slice::from_raw_parts(f32_row(d, m0 + m).add(k), len) };
                    accumulate(chains, &w[..len], x);
                }
            }
            for (m, chains) in chains[..rows].iter().enumerate() {
                // SAFETY: `m0 + m` and `n` are within the tile.
                unsafe { *out(d, m0 + m, n) = fold(*chains) };
            }
        }
    }
}

/// Any format with a scale per 16 values, int8 activations.
///
/// # Safety
/// As [`Gemm`] promises.
pub unsafe fn q8_narrow(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { q8_any::<false>(d) }
}

/// Any format with a scale per 32 values, int8 activations.
///
/// # Safety
/// As [`Gemm`] promises.
pub unsafe fn q8_wide(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { q8_any::<true>(d) }
}

/// # Safety
/// As [`Gemm`] promises.
unsafe fn q8_any<const WIDE: bool>(d: &Gemm) {
    let Some(dtype) = DType::from_index(d.dtype) else { return };
    let f = dtype.format();
    let Some(unpack) = f.unpack else { return };
    let mut w = Unpacked::default();
    for n in 0..d.cols {
        for m0 in (0..d.rows).step_by(TILE) {
            let rows = TILE.min(d.rows - m0);
            let mut chains = [[0.0f32; Q8_CHAINS]; TILE];
            for k in (0..d.k).step_by(f.block) {
                // SAFETY: one whole block within the row.
                unpack(unsafe { planes(d, f, n, k, f.block) }, &mut w);
                for (m, chains) in chains[..rows].iter_mut().enumerate() {
                    // SAFETY: row `m0 + m` is a row of the int8 form.
                    let x = unsafe { q8_row(d, m0 + m) };
                    add_block::<WIDE>(chains, &w, f.block, &x, k);
                }
            }
            for (m, c) in chains[..rows].iter().enumerate() {
                // SAFETY: `m0 + m` and `n` are within the tile.
                unsafe { *out(d, m0 + m, n) = (c[0] + c[1]) + (c[2] + c[3]) };
            }
        }
    }
}

/// Adds one unpacked block of `block` values, which starts at value `k` of the row.
fn add_block<const WIDE: bool>(chains: &mut [f32; Q8_CHAINS], w: &Unpacked, block: usize, x: &q8::Row<'_>, k: usize) {
    let halves = x.q[k..k + block].as_chunks::<{ q8::BLOCK }>().0.iter().zip(w.q.as_chunks::<{ q8::BLOCK }>().0);
    for (i, (a, q)) in halves.enumerate() {
        let b = k / q8::BLOCK + i;
        let (a_scale, sums) = (x.scales[b], &x.sums[2 * b..2 * b + 2]);
        let (scale, offset) = (&w.scale[2 * i..2 * i + 2], &w.offset[2 * i..2 * i + 2]);
        let chain = &mut chains[b % Q8_CHAINS];
        let (first, second) = (dot(&a[..GROUP], &q[..GROUP]), dot(&a[GROUP..], &q[GROUP..]));
        if WIDE {
            *chain = ((first + second) as f32).mul_add(scale[0] * a_scale, *chain);
            *chain = offset[0].mul_add(sums[0] + sums[1], *chain);
        } else {
            *chain = (first as f32).mul_add(scale[0] * a_scale, *chain);
            *chain = (second as f32).mul_add(scale[1] * a_scale, *chain);
            *chain = offset[0].mul_add(sums[0], *chain);
            *chain = offset[1].mul_add(sums[1], *chain);
        }
    }
}

fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

fn accumulate(chains: &mut [f32; F32_CHAINS], w: &[f32], x: &[f32]) {
    let (w, w_rest) = w.as_chunks::<F32_CHAINS>();
    let (x, x_rest) = x.as_chunks::<F32_CHAINS>();
    for (w, x) in w.iter().zip(x) {
        for ((c, w), x) in chains.iter_mut().zip(w).zip(x) {
            *c += w * x;
        }
    }
    for ((c, w), x) in chains.iter_mut().zip(w_rest).zip(x_rest) {
        *c += w * x;
    }
}

/// The sum of the chains: the upper half onto the lower until one is left.
fn fold(mut c: [f32; F32_CHAINS]) -> f32 {
    let mut half = F32_CHAINS / 2;
    while half > 0 {
        for i in 0..half {
            c[i] += c[i + half];
        }
        half /= 2;
    }
    c[0]
}

/// The planes of `len` values from value `k` of weight row `n`.
///
/// # Safety
/// `d` keeps its promises for the format `f`; `k` and `len` are whole blocks within the row.
pub unsafe fn planes<'a>(d: &Gemm, f: &Format, n: usize, k: usize, len: usize) -> Planes<'a> {
    let (at, blocks) = (k / f.block, len / f.block);
    // SAFETY: whole blocks of row `n` in the data plane and, where there are side planes, in those.
    unsafe {
        let data = std::slice::from_raw_parts(d.w.add(n * d.w_stride + at * f.bytes), blocks * f.bytes);
        if f.side_bytes == 0 {
            return Planes { data, ..Planes::default() };
        }
        let side = n * d.w_side_stride + at * f.side_bytes;
        Planes {
            data,
            scales: std::slice::from_raw_parts(d.w_scales.add(side), blocks * f.side_bytes),
            biases: std::slice::from_raw_parts(d.w_biases.add(side), blocks * f.side_bytes),
        }
    }
}

/// Activation row `m` in the int8 form.
///
/// # Safety
/// `d` keeps its promises for int8 activations, and `m < d.rows`.
unsafe fn q8_row<'a>(d: &Gemm, m: usize) -> q8::Row<'a> {
    // SAFETY: the three runs of the row; it is 64-byte aligned and the runs before them are
    // multiples of 32 bytes, so the floats are aligned too.
    unsafe {
        let row = d.x.add(m * d.x_stride);
        q8::Row {
            q: std::slice::from_raw_parts(row.cast(), d.k),
            scales: std::slice::from_raw_parts(row.add(q8::scales_offset(d.k)).cast(), d.k / q8::BLOCK),
            sums: std::slice::from_raw_parts(row.add(q8::sums_offset(d.k)).cast(), d.k / q8::GROUP),
        }
    }
}

/// Activation row `m` of f32.
///
/// # Safety
/// `m < d.rows`.
unsafe fn f32_row(d: &Gemm, m: usize) -> *const f32 {
    // SAFETY: within the activations.
    unsafe { d.x.add(m * d.x_stride).cast() }
}

/// Where the product of activation row `m` and weight row `n` goes.
///
/// # Safety
/// `m < d.rows` and `n < d.cols`.
unsafe fn out(d: &Gemm, m: usize, n: usize) -> *mut f32 {
    // SAFETY: within the output tile.
    unsafe { d.out.add(m * d.out_stride + n) }
}
