//! Many activation rows: weights are unpacked once per panel, to bytes that eight weight rows
//! interleave by four values, and multiplied from there.
//!
//! A panel is 512 values of up to 32 weight rows. Lanes are weight rows, a broadcast of four
//! activation bytes multiplies them all, and eight products make a block's integer sum for eight
//! weight rows with no adding across lanes. `vpmaddubsw` wants one side unsigned: the weights where
//! the format's integers are; where they are biased, the activations, copied with 128 added, and
//! sums begin at what that adds, `-128 * Σ q`; signed ones give their sign to the activations.
//! Each chain of a row has its own running sum, kept in memory between panels.

use super::{BLOCKS, Kind, STEPS, UNIT, Weights, transposed};
use crate::kernels::matmul::dots::{Dots, ROWS, RowPtrs, q8_row};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Values of a panel.
const PANEL: usize = 512;
const PANEL_BLOCKS: usize = PANEL / 32;
/// Weight rows of a panel, and of a register.
const COLS: usize = 32;
const LANES: usize = 8;
/// Activation rows that share an unpacked panel.
const TILE: usize = 128;
/// Activation rows in the innermost loop.
const INNER: usize = 4;
/// Chains of a sum, as in `generic`.
const CHAINS: usize = 4;

/// A panel and the sums that it adds to.
#[repr(C, align(64))]
struct Scratch {
    /// Four values of each weight row.
    w: [[[[i8; 4]; COLS]; 8]; PANEL_BLOCKS],
    /// `-128 * Σ q`, scales and offsets, of first and second halves (of the block, if wide).
    start: [[[i32; COLS]; 2]; PANEL_BLOCKS],
    scale: [[[f32; COLS]; 2]; PANEL_BLOCKS],
    offset: [[[f32; COLS]; 2]; PANEL_BLOCKS],
    /// Activations, plus 128 if the weights are signed here.
    x: [[u8; PANEL]; TILE],
    sum: [[[f32; COLS]; CHAINS]; TILE],
}

/// Unpacks `blocks` blocks from value `k` of the weight rows from `n` to four rows of the scratch.
type Unpack<'a> = &'a dyn Fn(*mut Scratch, usize, usize, usize, usize);

// The ways to multiply.
const UNSIGNED: u8 = 0;
const BIASED: u8 = 1;
const SIGNED: u8 = 2;

/// # Safety
/// As `Dots` promises.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn panel<W: Weights>(w: &W, d: &Dots) {
    // SAFETY: the same contract; what calls it names rows of the tile and of the scratch.
    let unpack = |s: *mut Scratch, n0: usize, n: usize, k: usize, blocks: usize| unsafe {
        unpack(w, &RowPtrs::new(d, (n0 + n).min(d.cols - 1)), s, n, k, blocks);
    };
    let tiles = match (W::KIND, W::RUN, W::WIDE, W::OFFSETS) {
        (Kind::Unsigned, 8, true, _) => tiles::<UNSIGNED, 8, true, true>,
        (Kind::Unsigned, 4, true, _) => tiles::<UNSIGNED, 4, true, true>,
        (Kind::Unsigned, _, true, _) => tiles::<UNSIGNED, 2, true, true>,
        (Kind::Unsigned, _, false, _) => tiles::<UNSIGNED, 4, false, true>,
        (Kind::Biased(_), 8, true, _) => tiles::<BIASED, 8, true, false>,
        (Kind::Biased(_), _, true, _) => tiles::<BIASED, 4, true, false>,
        (Kind::Biased(_), 4, false, _) => tiles::<BIASED, 4, false, false>,
        (Kind::Biased(_), _, false, _) => tiles::<BIASED, 2, false, false>,
        (Kind::Signed, _, true, true) => tiles::<SIGNED, 1, true, true>,
        (Kind::Signed, _, true, false) => tiles::<SIGNED, 1, true, false>,
        (Kind::Signed, _, false, true) => tiles::<SIGNED, 1, false, true>,
        (Kind::Signed, _, false, false) => tiles::<SIGNED, 1, false, false>,
    };
    // SAFETY: the same contract.
    unsafe { tiles(&unpack, d) }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tiles<const KIND: u8, const RUN: usize, const WIDE: bool, const OFFSETS: bool>(unpack: Unpack<'_>, d: &Dots) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    for m0 in (0..d.rows).step_by(TILE) {
        let rows = TILE.min(d.rows - m0);
        for n0 in (0..d.cols).step_by(COLS) {
            let cols = COLS.min(d.cols - n0);
            // SAFETY: the part of the tile that begins at (m0, n0); every part of the scratch that
            // is read has been written for this panel.
            unsafe {
                (&raw mut (*s).sum).cast::<u8>().write_bytes(0, rows * size_of::<[[f32; COLS]; CHAINS]>());
                for k in (0..d.k).step_by(PANEL) {
                    let blocks = (PANEL / 32).min((d.k - k) / 32);
                    for n in (0..cols.next_multiple_of(LANES)).step_by(ROWS) {
                        unpack(s, n0, n, k, blocks);
                    }
                    for m in 0..rows {
                        copy::<KIND>(d, s, m, m0 + m, k, blocks);
                    }
                    for n in (0..cols).step_by(LANES) {
                        let whole = rows / INNER * INNER;
                        for m in (0..whole).step_by(INNER) {
                            multiply::<KIND, RUN, WIDE, OFFSETS, INNER>(d, s, m, m0, n, k, blocks);
                        }
                        for m in whole..rows {
                            multiply::<KIND, RUN, WIDE, OFFSETS, 1>(d, s, m, m0, n, k, blocks);
                        }
                    }
                }
                for m in 0..rows {
                    store(d, &(*s).sum[m], m0 + m, n0, cols);
                }
            }
        }
    }
}

/// Unpacks `blocks` blocks from value `k` of four weight rows to rows `n..n + 4` of the panel.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn unpack<W: Weights>(w: &W, weights: &RowPtrs, s: *mut Scratch, n: usize, k: usize, blocks: usize) {
    // SAFETY: steps of existing blocks; a step writes the two blocks that begin at its first.
    unsafe {
        for unit in (0..blocks).step_by(STEPS * BLOCKS) {
            let exist = blocks - unit;
            let head = w.head(weights, k + unit * 32, exist.min(STEPS * BLOCKS));
            for i in 0..STEPS.min(exist.div_ceil(BLOCKS)) {
                // The count is a constant where it can be.
                let step = if W::VALUES == UNIT || exist - i * BLOCKS >= BLOCKS {
                    w.step(weights, k + unit * 32, i, BLOCKS, &head)
                } else {
                    w.step(weights, k + unit * 32, i, 1, &head)
                };
                let at = unit + i * BLOCKS;
                let bias = _mm256_set1_epi8(W::KIND.bias() as i8);
                let mut start = [_mm256_setzero_si256(); 2];
                for (h, v) in [step.q.map(|q| q.0), step.q.map(|q| q.1)].into_iter().enumerate() {
                    for (j, v) in transposed(v.map(|v| _mm256_sub_epi8(v, bias))).into_iter().enumerate() {
                        let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), v);
                        start[h] = _mm256_add_epi32(start[h], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
                        let to = (&raw mut (*s).w[at][4 * h + j][n]).cast::<i32>();
                        scatter::<{ 8 * COLS }>(to, v);
                    }
                }
                if W::WIDE {
                    start[0] = _mm256_add_epi32(start[0], start[1]);
                }
                for h in 0..if W::WIDE { 1 } else { 2 } {
                    let start = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32::<7>(start[h]));
                    scatter::<{ 2 * COLS }>(&raw mut (*s).start[at][h][n], start);
                    let scale = _mm256_castps_si256(step.scale[h]);
                    scatter::<{ 2 * COLS }>((&raw mut (*s).scale[at][h][n]).cast(), scale);
                    if W::OFFSETS {
                        let offset = _mm256_castps_si256(step.offset[h]);
                        scatter::<{ 2 * COLS }>((&raw mut (*s).offset[at][h][n]).cast(), offset);
                    }
                }
            }
        }
    }
}

/// Stores the halves of `v`, one per block, `STRIDE` words apart.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn scatter<const STRIDE: usize>(to: *mut i32, v: __m256i) {
    // SAFETY: two blocks from `to` are within the scratch.
    unsafe {
        _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(v));
        _mm_storeu_si128(to.add(STRIDE).cast(), _mm256_extracti128_si256::<1>(v));
    }
}

/// Copies a panel of activation row `row` to row `m` of the scratch.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn copy<const KIND: u8>(d: &Dots, s: *mut Scratch, m: usize, row: usize, k: usize, blocks: usize) {
    // SAFETY: blocks of the row, and of the panel.
    unsafe {
        let (q, ..) = q8_row(d, row);
        let more = _mm256_set1_epi8(if KIND == BIASED { -128 } else { 0 });
        for i in (0..32 * blocks).step_by(32) {
            let v = _mm256_xor_si256(_mm256_loadu_si256(q.add(k + i).cast()), more);
            _mm256_store_si256((&raw mut (*s).x[m][i]).cast(), v);
        }
    }
}

/// Adds the products of the panel's weight rows `n..n + 8` with rows `m..m + M` of the tile.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply<const KIND: u8, const RUN: usize, const WIDE: bool, const OFFSETS: bool, const M: usize>(
    d: &Dots,
    s: *mut Scratch,
    m: usize,
    m0: usize,
    n: usize,
    k: usize,
    blocks: usize,
) {
    // SAFETY: blocks of the panel, rows of the tile.
    unsafe {
        let x: [*const u8; M] = std::array::from_fn(|i| (&raw const (*s).x[m + i]).cast());
        let side: [(*const f32, *const f32); M] = std::array::from_fn(|i| {
            let (_, scales, sums) = q8_row(d, m0 + m + i);
            (scales.add(k / 32), sums.add(k / 16))
        });
        let ones = _mm256_set1_epi16(1);
        for chain in 0..CHAINS.min(blocks) {
            let at = |i: usize| &raw mut (*s).sum[m + i][chain][n];
            let mut sum: [__m256; M] = std::array::from_fn(|i| _mm256_load_ps(at(i)));
            for b in (chain..blocks).step_by(CHAINS) {
                let parts = if WIDE { 1 } else { 2 };
                let quads = 8 / parts;
                for t in 0..parts {
                    let start = match KIND {
                        BIASED => _mm256_load_si256((&raw const (*s).start[b][t][n]).cast()),
                        _ => _mm256_setzero_si256(),
                    };
                    let mut v = [start; M];
                    for run in (t * quads..(t + 1) * quads).step_by(RUN) {
                        let mut pairs = [_mm256_setzero_si256(); M];
                        for q in run..run + RUN {
                            let w = _mm256_load_si256((&raw const (*s).w[b][q][n]).cast());
                            for (pairs, x) in pairs.iter_mut().zip(x) {
                                let a = _mm256_set1_epi32(x.add(32 * b + 4 * q).cast::<i32>().read());
                                *pairs = _mm256_add_epi16(*pairs, product::<KIND>(w, a));
                            }
                        }
                        for (v, pairs) in v.iter_mut().zip(pairs) {
                            *v = _mm256_add_epi32(*v, _mm256_madd_epi16(pairs, ones));
                        }
                    }
                    let scale = _mm256_load_ps(&raw const (*s).scale[b][t][n]);
                    for ((sum, v), side) in sum.iter_mut().zip(v).zip(side) {
                        let scale = _mm256_mul_ps(scale, _mm256_set1_ps(*side.0.add(b)));
                        *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(v), scale, *sum);
                    }
                }
                if OFFSETS {
                    let offset = |t: usize| _mm256_load_ps(&raw const (*s).offset[b][t][n]);
                    for (sum, side) in sum.iter_mut().zip(side) {
                        let sums = [0, 1].map(|t| _mm256_set1_ps(*side.1.add(2 * b + t)));
                        if WIDE {
                            *sum = _mm256_fmadd_ps(offset(0), _mm256_add_ps(sums[0], sums[1]), *sum);
                        } else {
                            *sum = _mm256_fmadd_ps(offset(0), sums[0], *sum);
                            *sum = _mm256_fmadd_ps(offset(1), sums[1], *sum);
                        }
                    }
                }
            }
            for (i, sum) in sum.into_iter().enumerate() {
                _mm256_store_ps(at(i), sum);
            }
        }
    }
}

/// Products of 32 pairs of bytes, added in pairs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn product<const KIND: u8>(w: __m256i, a: __m256i) -> __m256i {
    match KIND {
        UNSIGNED => _mm256_maddubs_epi16(w, a),
        BIASED => _mm256_maddubs_epi16(a, w),
        _ => _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)),
    }
}

/// Writes the first `cols` sums of a row to row `m` of the tile, from column `n`.
unsafe fn store(d: &Dots, sum: &[[f32; COLS]; CHAINS], m: usize, n: usize, cols: usize) {
    for i in 0..cols {
        let sum = (sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]);
        // SAFETY: a product of the tile.
        unsafe { *d.out.add(m * d.out_stride + n + i) = sum };
    }
}
