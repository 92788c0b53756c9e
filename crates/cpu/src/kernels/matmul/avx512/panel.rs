//! Many activation rows: weights are unpacked once per panel, to signed bytes that 16 weight rows
//! interleave by four values, and multiplied from there.
//!
//! A panel is 512 values of up to 32 weight rows. Lanes are weight rows, a broadcast of four
//! activation bytes multiplies them all, and eight `vpdpbusd` make a block's integer sum for 16
//! weight rows with no adding across lanes. `vpdpbusd` wants one side unsigned: here it is the
//! activations, copied with 128 added; sums begin at what that adds, `-128 * Σ q`.
//! Each chain of a row has its own running sum, kept in memory between panels.

use super::{BLOCKS, PAIR, STEP, Weights, low_bits, transposed};
use crate::kernels::matmul::dots::{Dots, ROWS, RowPtrs, q8_row};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Values of a panel.
const PANEL: usize = 512;
const PANEL_BLOCKS: usize = PANEL / 32;
/// Weight rows of a panel.
const COLS: usize = 32;
/// Panels side by side whose sums wait together.
const PANELS: usize = 2;
/// Activation rows that share an unpacked panel.
const TILE: usize = 128;
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
    /// Activations plus 128.
    x: [[u8; PANEL]; TILE],
    sum: [[[[f32; COLS]; CHAINS]; TILE]; PANELS],
}

/// Unpacks `blocks` blocks from value `k` of the weight rows from `n0 + n` to rows `n..n + 4` of the
/// scratch, given as `(scratch, n0, n, k, blocks)`.
type Unpack<'a> = &'a dyn Fn(*mut Scratch, usize, usize, usize, usize);

/// # Safety
/// As `Dots` promises.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn panel<W: Weights>(w: &W, d: &Dots) {
    // SAFETY: the same contract; what calls it names rows of the tile and of the scratch.
    let unpack = |s: *mut Scratch, n0: usize, n: usize, k: usize, blocks: usize| unsafe {
        unpack(w, &RowPtrs::new(d, (n0 + n).min(d.cols - 1)), s, n, k, blocks);
    };
    // SAFETY: the same contract. What remains does not depend on the format.
    unsafe {
        match (W::WIDE, W::OFFSETS) {
            (true, true) => tiles::<true, true>(&unpack, d),
            (true, false) => tiles::<true, false>(&unpack, d),
            (false, true) => tiles::<false, true>(&unpack, d),
            (false, false) => tiles::<false, false>(&unpack, d),
        }
    }
}

#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn tiles<const WIDE: bool, const OFFSETS: bool>(unpack: Unpack<'_>, d: &Dots) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    for m0 in (0..d.rows).step_by(TILE) {
        let rows = TILE.min(d.rows - m0);
        for n0 in (0..d.cols).step_by(PANELS * COLS) {
            let end = d.cols.min(n0 + PANELS * COLS);
            // SAFETY: rows and columns of the tile; every part of the scratch that is read has been
            // written for this panel.
            unsafe {
                for p in 0..PANELS {
                    (&raw mut (*s).sum[p]).cast::<[[f32; COLS]; CHAINS]>().write_bytes(0, rows);
                }
                for k in (0..d.k).step_by(PANEL) {
                    let blocks = PANEL_BLOCKS.min((d.k - k) / 32);
                    for m in 0..rows {
                        shift(d, s, m, m0 + m, k, blocks);
                    }
                    for (p, n) in (n0..end).step_by(COLS).enumerate() {
                        if end - n > COLS / 2 {
                            columns::<WIDE, OFFSETS, 2>(unpack, d, s, (m0, rows), (n, p), (k, blocks));
                        } else {
                            columns::<WIDE, OFFSETS, 1>(unpack, d, s, (m0, rows), (n, p), (k, blocks));
                        }
                    }
                }
                for (p, n) in (n0..end).step_by(COLS).enumerate() {
                    for m in 0..rows {
                        store(d, &raw const (*s).sum[p][m], m0 + m, n, COLS.min(end - n));
                    }
                }
            }
        }
    }
}

/// Unpacks the panel at value `k` of `16 * H` weight rows from `n0`, and adds its products with
/// activation rows `m0..m0 + rows` to the sums `p`.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn columns<const WIDE: bool, const OFFSETS: bool, const H: usize>(
    unpack: Unpack<'_>,
    d: &Dots,
    s: *mut Scratch,
    (m0, rows): (usize, usize),
    (n0, p): (usize, usize),
    (k, blocks): (usize, usize),
) {
    // SAFETY: rows and columns of the tile, blocks of the rows.
    unsafe {
        for n in (0..16 * H).step_by(ROWS) {
            unpack(s, n0, n, k, blocks);
        }
        let mut m = 0;
        while m < rows {
            // As many rows at a time as the registers have room for.
            m += match rows - m {
                1 => multiply::<WIDE, OFFSETS, H, 1>(d, s, m, m0, p, k, blocks),
                2 | 3 => multiply::<WIDE, OFFSETS, H, 2>(d, s, m, m0, p, k, blocks),
                4 | 5 => multiply::<WIDE, OFFSETS, H, 4>(d, s, m, m0, p, k, blocks),
                _ => multiply::<WIDE, OFFSETS, H, 6>(d, s, m, m0, p, k, blocks),
            };
        }
    }
}

/// Unpacks `blocks` blocks from value `k` of four weight rows to rows `n..n + 4` of the panel.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn unpack<W: Weights>(w: &W, weights: &RowPtrs, s: *mut Scratch, n: usize, k: usize, blocks: usize) {
    // SAFETY: steps of existing blocks; a step writes the four blocks that begin at its first.
    unsafe {
        for pair in (0..blocks).step_by(2 * BLOCKS) {
            let exist = blocks - pair;
            let head = w.head(weights, k + pair * 32, exist.min(2 * BLOCKS));
            for half in 0..2.min(exist.div_ceil(BLOCKS)) {
                let have = (exist - half * BLOCKS).min(BLOCKS);
                // The count is a constant where it can be.
                let step = if W::VALUES == PAIR || have == BLOCKS {
                    w.step(weights, k + pair * 32, half, BLOCKS, &head)
                } else {
                    w.step(weights, k + pair * 32, half, have, &head)
                };
                let at = pair + half * BLOCKS;
                let bias = _mm512_set1_epi8(W::BIAS as i8);
                let ones = _mm512_set1_epi8(1);
                let mut start = [_mm512_setzero_si512(); 2];
                for (h, v) in [step.q.map(|q| q.0), step.q.map(|q| q.1)].into_iter().enumerate() {
                    for (i, v) in transposed(v.map(|v| _mm512_sub_epi8(v, bias))).into_iter().enumerate() {
                        start[h] = _mm512_dpbusd_epi32(start[h], ones, v);
                        let to = (&raw mut (*s).w[at][4 * h + i][n]).cast::<i32>();
                        scatter::<{ 8 * COLS }>(to, v);
                    }
                }
                if W::WIDE {
                    start[0] = _mm512_add_epi32(start[0], start[1]);
                }
                for h in 0..if W::WIDE { 1 } else { 2 } {
                    let start = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32::<7>(start[h]));
                    scatter::<{ 2 * COLS }>(&raw mut (*s).start[at][h][n], start);
                    let scale = _mm512_castps_si512(step.scale[h]);
                    scatter::<{ 2 * COLS }>((&raw mut (*s).scale[at][h][n]).cast(), scale);
                    if W::OFFSETS {
                        let offset = _mm512_castps_si512(step.offset[h]);
                        scatter::<{ 2 * COLS }>((&raw mut (*s).offset[at][h][n]).cast(), offset);
                    }
                }
            }
        }
    }
}

/// Stores the quarters of `v`, one per block, `STRIDE` words apart.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn scatter<const STRIDE: usize>(to: *mut i32, v: __m512i) {
    // SAFETY: four blocks from `to` are within the scratch.
    unsafe {
        _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(v));
        _mm_storeu_si128(to.add(STRIDE).cast(), _mm512_extracti32x4_epi32::<1>(v));
        _mm_storeu_si128(to.add(2 * STRIDE).cast(), _mm512_extracti32x4_epi32::<2>(v));
        _mm_storeu_si128(to.add(3 * STRIDE).cast(), _mm512_extracti32x4_epi32::<3>(v));
    }
}

/// Copies a panel of activation row `row`, with 128 added, to row `m` of the scratch.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn shift(d: &Dots, s: *mut Scratch, m: usize, row: usize, k: usize, blocks: usize) {
    // SAFETY: the masked load stays within the row, the store within the panel.
    unsafe {
        let (q, ..) = q8_row(d, row);
        for i in (0..32 * blocks).step_by(64) {
            // Rows are far apart, and a panel has only a few lines of each.
            _mm_prefetch::<_MM_HINT_T0>(q.wrapping_add(8 * d.x_stride + k + i).cast());
            let v = _mm512_maskz_loadu_epi8(low_bits(32 * blocks - i), q.add(k + i).cast());
            let v = _mm512_xor_si512(v, _mm512_set1_epi8(-128));
            _mm512_storeu_si512((&raw mut (*s).x[m][i]).cast(), v);
        }
    }
}

/// Adds the panel's products with activation rows `m..m + M` of the tile to the sums `p`; returns `M`.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn multiply<const WIDE: bool, const OFFSETS: bool, const H: usize, const M: usize>(
    d: &Dots,
    s: *mut Scratch,
    m: usize,
    m0: usize,
    p: usize,
    k: usize,
    blocks: usize,
) -> usize {
    // SAFETY: blocks of the panel, rows of the tile.
    unsafe {
        let x: [*const u8; M] = std::array::from_fn(|i| (&raw const (*s).x[m + i]).cast());
        let side: [(*const f32, *const f32); M] = std::array::from_fn(|i| {
            let (_, scales, sums) = q8_row(d, m0 + m + i);
            (scales.add(k / 32), sums.add(k / 16))
        });
        for chain in 0..CHAINS.min(blocks) {
            let at = |i: usize, h: usize| &raw mut (*s).sum[p][m + i][chain][16 * h];
            let mut sum: [[__m512; H]; M] = std::array::from_fn(|i| std::array::from_fn(|h| _mm512_load_ps(at(i, h))));
            for b in (chain..blocks).step_by(CHAINS) {
                let load = |t: usize, h: usize| _mm512_load_si512((&raw const (*s).start[b][t][16 * h]).cast());
                let scale = |t: usize, h: usize| _mm512_load_ps(&raw const (*s).scale[b][t][16 * h]);
                let offset = |t: usize, h: usize| _mm512_load_ps(&raw const (*s).offset[b][t][16 * h]);
                let parts = if WIDE { 1 } else { 2 };
                let quads = 8 / parts;
                for t in 0..parts {
                    let mut v: [[__m512i; H]; M] = [std::array::from_fn(|h| load(t, h)); M];
                    for q in t * quads..(t + 1) * quads {
                        let w: [__m512i; H] =
                            std::array::from_fn(|h| _mm512_load_si512((&raw const (*s).w[b][q][16 * h]).cast()));
                        for (v, x) in v.iter_mut().zip(x) {
                            let a = _mm512_set1_epi32(x.add(32 * b + 4 * q).cast::<i32>().read());
                            for (v, w) in v.iter_mut().zip(w) {
                                *v = _mm512_dpbusd_epi32(*v, a, w);
                            }
                        }
                    }
                    for ((sum, v), side) in sum.iter_mut().zip(v).zip(side) {
                        let a_scale = _mm512_set1_ps(*side.0.add(b));
                        for (h, (sum, v)) in sum.iter_mut().zip(v).enumerate() {
                            let scale = _mm512_mul_ps(scale(t, h), a_scale);
                            *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(v), scale, *sum);
                        }
                    }
                }
                if OFFSETS {
                    for (sum, side) in sum.iter_mut().zip(side) {
                        let sums = [0, 1].map(|t| _mm512_set1_ps(*side.1.add(2 * b + t)));
                        for (h, sum) in sum.iter_mut().enumerate() {
                            if WIDE {
                                *sum = _mm512_fmadd_ps(offset(0, h), _mm512_add_ps(sums[0], sums[1]), *sum);
                            } else {
                                *sum = _mm512_fmadd_ps(offset(0, h), sums[0], *sum);
                                *sum = _mm512_fmadd_ps(offset(1, h), sums[1], *sum);
                            }
                        }
                    }
                }
            }
            for (i, sum) in sum.into_iter().enumerate() {
                for (h, sum) in sum.into_iter().enumerate() {
                    _mm512_store_ps(at(i, h), sum);
                }
            }
        }
    }
    M
}

/// Writes the first `cols` sums of a row to row `m` of the tile, from column `n`.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn store(d: &Dots, sum: *const [[f32; COLS]; CHAINS], m: usize, n: usize, cols: usize) {
    // SAFETY: the mask keeps the stores within the tile.
    unsafe {
        for h in 0..cols.div_ceil(16) {
            let chain = |c: usize| _mm512_load_ps((&raw const (*sum)[c][16 * h]).cast());
            let sum = _mm512_add_ps(_mm512_add_ps(chain(0), chain(1)), _mm512_add_ps(chain(2), chain(3)));
            let exist = low_bits(cols - 16 * h) as u16;
            _mm512_mask_storeu_ps(d.out.add(m * d.out_stride + n + 16 * h), exist, sum);
        }
    }
}

const _: () = assert!(PANEL.is_multiple_of(PAIR) && PAIR == 2 * STEP);
