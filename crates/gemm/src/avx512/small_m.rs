//! Small-M GEMM: the weights are read once, unpacked, and multiplied with every row.
//!
//! Transposing four rows' integers puts four values of a (block, row) into lane `4 * block + row`;
//! activations spread the same way, each four values to the lanes of all rows, then need no adding
//! across lanes. They are spread once for all weight rows, a panel at a time: as many values as
//! stay in L1 for that many activation rows.

use super::gemv::{acts, chains, prefetch};
use super::{BLOCKS, Form, PAIR, SMALL_M, STEP, Step, low_bits, transposed};
use crate::gemm::{Gemm, ROWS, RowPtrs};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Steps of a panel times activation rows.
const SPREAD: usize = 32;
/// Weight rows whose sums wait while a panel is multiplied.
const COLS: usize = 64;

/// The next weight rows are prefetched at most so many bytes ahead.
const FAR: usize = 16 << 10;

/// A step of one activation row, in the lanes of four weight rows.
#[repr(C, align(64))]
struct Spread {
    /// Four values of each block: of the first halves, then of the second.
    q: [[i32; 16]; 8],
    /// What takes the bias off again, scales and group sums, of first and second halves. If wide,
    /// the first have what belongs to the block.
    start: [[i32; 16]; 2],
    scale: [f32; 16],
    sums: [[f32; 16]; 2],
}

#[repr(C, align(64))]
struct Scratch {
    x: [Spread; SPREAD],
    sum: [[[f32; 16]; COLS / ROWS]; SMALL_M],
}

/// # Safety
/// As `Gemm` promises, with `1 <= d.rows <= SMALL_M`.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn small_m(form: &Form<'_>, d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { if form.wide { walk::<true>(form, d) } else { walk::<false>(form, d) } }
}

/// # Safety
/// As [`small_m`].
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn walk<const WIDE: bool>(form: &Form<'_>, d: &Gemm) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    let mut room = MaybeUninit::<[Step; 2]>::uninit();
    let steps = room.as_mut_ptr().cast::<Step>();
    // Whole pairs of steps.
    let panel = SPREAD / d.rows / 2 * PAIR;
    // What is next in the walk over the weights: the next panel, or the next rows if there is one.
    let ahead = if panel < d.k { panel / STEP * form.step_bytes } else { (ROWS * d.w_stride).min(FAR) };
    for n0 in (0..d.cols).step_by(COLS) {
        let cols = COLS.min(d.cols - n0);
        // SAFETY: steps stay within the rows, results within the tile; what is read of the scratch
        // has been written for this panel.
        unsafe {
            (&raw mut (*s).sum).cast::<u8>().write_bytes(0, size_of::<[[[f32; 16]; COLS / ROWS]; SMALL_M]>());
            for k0 in (0..d.k).step_by(panel) {
                let end = d.k.min(k0 + panel);
                for m in 0..d.rows {
                    for (i, k) in (k0..end).step_by(STEP).enumerate() {
                        spread::<WIDE>(d, &mut (*s).x[i * d.rows + m], m, k, BLOCKS.min((end - k) / 32), form.bias);
                    }
                }
                for n in (0..cols).step_by(ROWS) {
                    let p = RowPtrs::new(d, n0 + n, 1);
                    for k in (k0..end).step_by(PAIR) {
                        let x = (&raw const (*s).x).cast::<Spread>().add((k - k0) / STEP * d.rows);
                        let sum = (&raw mut (*s).sum[0][n / ROWS]).cast::<f32>();
                        prefetch(&p, k, ahead, form.step_bytes);
                        let blocks = ((end - k) / 32).min(2 * BLOCKS);
                        (form.unpack)(&p, k, blocks, steps);
                        for half in 0..blocks.div_ceil(BLOCKS) {
                            add::<WIDE>(&*steps.add(half), x.add(half * d.rows), sum, d.rows, form.offsets);
                        }
                    }
                }
            }
            for m in 0..d.rows {
                for n in (0..cols).step_by(ROWS) {
                    let sum = _mm512_load_ps((&raw const (*s).sum[m][n / ROWS]).cast());
                    let exist = low_bits((cols - n).min(ROWS)) as u8;
                    _mm_mask_storeu_ps(d.out.add(m * d.out_stride + n0 + n), exist, chains(sum));
                }
            }
        }
    }
}

/// Spreads the step at value `k` of activation row `m`, of which `blocks` blocks exist.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn spread<const WIDE: bool>(d: &Gemm, to: &mut Spread, m: usize, k: usize, blocks: usize, bias: u8) {
    // SAFETY: the caller's blocks; stores to arrays of 16.
    unsafe {
        let a = acts(d, m, k, blocks);
        let bias = _mm512_set1_epi8(bias as i8);
        let zero = _mm512_setzero_si512();
        let mut start = [zero; 2];
        for (h, v) in [a.lo, a.hi].into_iter().enumerate() {
            let quads = [
                _mm512_shuffle_epi32::<0b00_00_00_00>(v),
                _mm512_shuffle_epi32::<0b01_01_01_01>(v),
                _mm512_shuffle_epi32::<0b10_10_10_10>(v),
                _mm512_shuffle_epi32::<0b11_11_11_11>(v),
            ];
            for (i, v) in quads.into_iter().enumerate() {
                _mm512_store_si512(to.q[4 * h + i].as_mut_ptr().cast(), v);
                start[h] = _mm512_dpbusd_epi32(start[h], bias, v);
            }
        }
        if WIDE {
            start[0] = _mm512_add_epi32(start[0], start[1]);
        }
        for (to, start) in to.start.iter_mut().zip(start) {
            _mm512_store_si512(to.as_mut_ptr().cast(), _mm512_sub_epi32(zero, start));
        }
        let sums = if WIDE { [_mm512_add_ps(a.sums[0], a.sums[1]); 2] } else { a.sums };
        for (to, sums) in to.sums.iter_mut().zip(sums) {
            _mm512_store_ps(to.as_mut_ptr(), sums);
        }
        _mm512_store_ps(to.scale.as_mut_ptr(), a.scale);
    }
}

/// Adds a step's products with `rows` activation rows to their sums, `COLS / ROWS` registers apart.
///
/// # Safety
/// The caller has the AVX-512 level; there are as many steps at `x` and sums at `sum`.
#[inline(always)]
unsafe fn add<const WIDE: bool>(w: &Step, x: *const Spread, sum: *mut f32, rows: usize, offsets: bool) {
    // SAFETY: the same contract.
    unsafe {
        let q = [w.q[0].0, w.q[1].0, w.q[2].0, w.q[3].0];
        let lo = transposed(q);
        let q = [w.q[0].1, w.q[1].1, w.q[2].1, w.q[3].1];
        let hi = transposed(q);
        for m in 0..rows {
            multiply::<WIDE>(w, &lo, &hi, &*x.add(m), sum.add(m * COLS / ROWS * 16), offsets);
        }
    }
}

/// Adds the products of one activation row.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn multiply<const WIDE: bool>(
    w: &Step,
    lo: &[__m512i; 4],
    hi: &[__m512i; 4],
    x: &Spread,
    at: *mut f32,
    offsets: bool,
) {
    // SAFETY: loads from arrays of 16, and the caller's sum.
    unsafe {
        let load = |v: &[i32; 16]| _mm512_load_si512(v.as_ptr().cast());
        let float = |v: &[f32; 16]| _mm512_load_ps(v.as_ptr());
        let mut sum = _mm512_load_ps(at);
        let scale = float(&x.scale);
        // Two chains of four, also where they are added after all, for the latency.
        let mut v = [load(&x.start[0]), if WIDE { _mm512_setzero_si512() } else { load(&x.start[1]) }];
        for i in 0..4 {
            v[0] = _mm512_dpbusd_epi32(v[0], lo[i], load(&x.q[i]));
            v[1] = _mm512_dpbusd_epi32(v[1], hi[i], load(&x.q[4 + i]));
        }
        let second = if WIDE { 0 } else { 1 };
        if WIDE {
            v[0] = _mm512_add_epi32(v[0], v[1]);
        }
        for (v, w_scale) in v.into_iter().zip(w.scale).take(1 + second) {
            sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(v), _mm512_mul_ps(w_scale, scale), sum);
        }
        if offsets {
            for h in 0..=second {
                sum = _mm512_fmadd_ps(w.offset[h], float(&x.sums[h]), sum);
            }
        }
        _mm512_store_ps(at, sum);
    }
}
