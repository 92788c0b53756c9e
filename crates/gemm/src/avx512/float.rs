//! f32 activations: float weights, and every other format decoded on the way.
//!
//! Value `k` of a row belongs to lane `k % 16` of one register per product, as in `generic` but
//! with fused multiply-adds. Float weights are converted beside every few activation rows: six of these leave the
//! multiplications bound by arithmetic, and panels of converted weights cost as much as they save. Other formats are decoded
//! into panels once for a tile of activation rows, and running registers wait in memory meanwhile.

use super::low_bits;
use crate::gemm::{AHEAD, Gemm, STREAMS};
use crate::generic::planes;
use crate::packed::Fields;
use crate::simd::prefetch;
use akunu_dtype::{DType, Format};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Values of a panel; whole blocks of every format.
const PANEL: usize = 1024;
/// Weight rows of a panel.
const COLS: usize = 16;
/// Activation rows of a tile.
const TILE: usize = 32;
/// Activation and weight rows in the innermost loop.
const INNER: usize = 4;

/// A float type that weights are stored in.
trait Float {
    const BYTES: usize;
    /// The first `n` (up to 16) of 16 numbers, and zeros.
    ///
    /// # Safety
    /// The caller has AVX-512 F, BW, VL and DQ; `n` numbers are readable.
    unsafe fn load(p: *const u8, n: usize) -> __m512;
}

struct F32;
struct F16;
struct Bf16;

macro_rules! float {
    ($name:ty: bytes $bytes:literal, $load:path) => {
        impl Float for $name {
            const BYTES: usize = $bytes;
            #[inline(always)]
            unsafe fn load(p: *const u8, n: usize) -> __m512 {
                // SAFETY: the same contract.
                unsafe { $load(p, low_bits(n) as u16) }
            }
        }
    };
}

float!(F32: bytes 4, load_f32);
float!(F16: bytes 2, load_f16);
float!(Bf16: bytes 2, load_bf16);

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn load_f32(p: *const u8, exist: u16) -> __m512 {
    // SAFETY: the mask leaves the numbers that exist.
    unsafe { _mm512_maskz_loadu_ps(exist, p.cast()) }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn load_f16(p: *const u8, exist: u16) -> __m512 {
    // SAFETY: the mask leaves the numbers that exist. Exceptions as they are set: only then the load is part of the conversion.
    _mm512_cvt_roundph_ps::<_MM_FROUND_CUR_DIRECTION>(unsafe { _mm256_maskz_loadu_epi16(exist, p.cast()) })
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn load_bf16(p: *const u8, exist: u16) -> __m512 {
    // SAFETY: the mask leaves the numbers that exist.
    let words = _mm512_cvtepu16_epi32(unsafe { _mm256_maskz_loadu_epi16(exist, p.cast()) });
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident: $float:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`Gemm`] promises for f32 activations; the machine has AVX-512 F, BW, VL and DQ.
        #[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
        pub unsafe fn $name(d: &Gemm) {
            // SAFETY: the same contract.
            unsafe { direct::<$float>(d) }
        }
    )*};
}

kernels! {
    /// F32 weights.
    f32: F32;
    /// F16 weights.
    f16: F16;
    /// BF16 weights.
    bf16: Bf16;
}

/// Weights of any format.
///
/// # Safety
/// As [`Gemm`] promises for f32 activations; the machine has AVX-512 F, BW, VL and DQ.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
pub unsafe fn f32_any(d: &Gemm) {
    let Some(dtype) = DType::from_index(d.dtype) else { return };
    let f = dtype.format();
    // SAFETY: the same contract.
    unsafe { panels(d, |n, k, len, out| decode(d, f, n, k, len, out)) }
}

/// Packed weights of any format that can be packed.
///
/// # Safety
/// As [`f32_any`], of packed weights.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
pub unsafe fn f32_packed(d: &Gemm) {
    let Some(dtype) = DType::from_index(d.dtype) else { return };
    let Some(fields) = Fields::of(dtype) else { return };
    let f = dtype.format();
    // SAFETY: the same contract; values are taken by whole blocks.
    unsafe {
        let packed = std::slice::from_raw_parts(d.w, d.cols * d.w_stride);
        panels(d, |n, k, len, out| {
            out.write_bytes(0, len);
            fields.decode(f, packed, d.w_stride, (n, k), std::slice::from_raw_parts_mut(out, len));
        });
    }
}

/// A few weight rows at a time, which stay in the cache for all activation rows.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn direct<F: Float>(d: &Gemm) {
    // SAFETY: rows of the tile.
    unsafe {
        if d.rows == 1 {
            let apart = d.apart(STREAMS);
            (0..apart).for_each(|n| rows::<F, 1, STREAMS>(d, 0, (n, apart)));
            return;
        }
        let apart = d.apart(4);
        for n in 0..apart {
            for m in (0..d.rows).step_by(6) {
                match d.rows - m {
                    1 => rows::<F, 1, 4>(d, m, (n, apart)),
                    2 => rows::<F, 2, 4>(d, m, (n, apart)),
                    3 => rows::<F, 3, 4>(d, m, (n, apart)),
                    4 => rows::<F, 4, 4>(d, m, (n, apart)),
                    5 => rows::<F, 5, 4>(d, m, (n, apart)),
                    _ => rows::<F, 6, 4>(d, m, (n, apart)),
                }
            }
        }
    }
}

/// Products of activation rows `m..m + R` and `C` weight rows, row `n` the first and each `apart` from the last.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn rows<F: Float, const R: usize, const C: usize>(d: &Gemm, m: usize, (n, apart): (usize, usize)) {
    // SAFETY: loads stay within the rows, stores within the tile.
    unsafe {
        let w: [*const u8; C] = std::array::from_fn(|c| d.w.add((n + c * apart).min(d.cols - 1) * d.w_stride));
        let x: [*const f32; R] = std::array::from_fn(|i| d.x.add((m + i) * d.x_stride).cast());
        let mut sum = [[_mm512_setzero_ps(); C]; R];
        let mut add = |k: usize, len: usize| {
            let w = w.map(|w| F::load(w.add(k * F::BYTES), len));
            for (sum, x) in sum.iter_mut().zip(x) {
                let x = _mm512_maskz_loadu_ps(low_bits(len) as u16, x.add(k));
                for (sum, w) in sum.iter_mut().zip(w) {
                    *sum = _mm512_fmadd_ps(w, x, *sum);
                }
            }
        };
        let line = 64 / F::BYTES;
        let whole = d.k / line * line;
        for k in (0..whole).step_by(line) {
            // What follows the first activation rows finds the weights near.
            if m == 0 {
                for w in w {
                    prefetch(w.wrapping_add(k * F::BYTES + AHEAD));
                }
            }
            for k in (k..k + line).step_by(16) {
                add(k, 16);
            }
        }
        for k in (whole..d.k).step_by(16) {
            add(k, 16.min(d.k - k));
        }
        for (i, sum) in sum.into_iter().enumerate() {
            d.put(m + i, (n, apart), fold(sum));
        }
    }
}

/// A panel of weights as f32, and the registers of every product of a tile.
#[repr(C, align(64))]
struct Scratch {
    w: [[f32; PANEL]; COLS],
    sum: [[[f32; 16]; COLS]; TILE],
}

/// Many activation rows; `fill(n, k, len, out)` decodes `len` values from value `k` of weight row `n`.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn panels(d: &Gemm, fill: impl Fn(usize, usize, usize, *mut f32)) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    // SAFETY: the scratch is written before it is read; loads stay within the rows, stores within the tile.
    unsafe {
        for n0 in (0..d.cols).step_by(COLS) {
            let cols = COLS.min(d.cols - n0);
            for m0 in (0..d.rows).step_by(TILE) {
                let rows = TILE.min(d.rows - m0);
                (&raw mut (*s).sum).cast::<u8>().write_bytes(0, rows * size_of::<[[f32; 16]; COLS]>());
                for k in (0..d.k).step_by(PANEL) {
                    let len = PANEL.min(d.k - k);
                    // One panel is all there is of short rows: it stays.
                    if m0 == 0 || d.k > PANEL {
                        for n in 0..cols.next_multiple_of(INNER) {
                            fill((n0 + n).min(d.cols - 1), k, len, (&raw mut (*s).w[n]).cast());
                        }
                    }
                    for n in (0..cols).step_by(INNER) {
                        let whole = rows / INNER * INNER;
                        for m in (0..whole).step_by(INNER) {
                            multiply::<INNER>(d, s, m0, m, n, k, len);
                        }
                        for m in whole..rows {
                            multiply::<1>(d, s, m0, m, n, k, len);
                        }
                    }
                }
                for m in 0..rows {
                    for n in (0..cols).step_by(INNER) {
                        let sums = std::array::from_fn(|c| _mm512_load_ps((&raw const (*s).sum[m][n + c]).cast()));
                        let dots: [f32; INNER] = fold(sums);
                        let out = d.out.add((m0 + m) * d.out_stride + n0 + n);
                        out.copy_from_nonoverlapping(dots.as_ptr(), INNER.min(cols - n));
                    }
                }
            }
        }
    }
}

/// Adds the products of `M` activation rows and four weight rows of the panel.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn multiply<const M: usize>(d: &Gemm, s: *mut Scratch, m0: usize, m: usize, n: usize, k: usize, len: usize) {
    // SAFETY: rows of the tile and the panel.
    unsafe {
        let w: [*const f32; INNER] = std::array::from_fn(|c| (&raw const (*s).w[n + c]).cast());
        let x: [*const f32; M] = std::array::from_fn(|i| d.x.add((m0 + m + i) * d.x_stride).cast::<f32>().add(k));
        let at = |i: usize, c: usize| (&raw mut (*s).sum[m + i][n + c]).cast::<f32>();
        let mut sum: [[__m512; INNER]; M] = std::array::from_fn(|i| std::array::from_fn(|c| _mm512_load_ps(at(i, c))));
        let whole = len / 16 * 16;
        for k in (0..whole).step_by(16) {
            let w = w.map(|w| _mm512_load_ps(w.add(k)));
            for (sum, x) in sum.iter_mut().zip(x) {
                let x = _mm512_loadu_ps(x.add(k));
                for (sum, w) in sum.iter_mut().zip(w) {
                    *sum = _mm512_fmadd_ps(w, x, *sum);
                }
            }
        }
        if whole < len {
            let exist = low_bits(len - whole) as u16;
            for (sum, x) in sum.iter_mut().zip(x) {
                let x = _mm512_maskz_loadu_ps(exist, x.add(whole));
                for (sum, w) in sum.iter_mut().zip(w) {
                    *sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(exist, w.add(whole)), x, *sum);
                }
            }
        }
        for (i, sum) in sum.into_iter().enumerate() {
            for (c, sum) in sum.into_iter().enumerate() {
                _mm512_store_ps(at(i, c), sum);
            }
        }
    }
}

/// Any format to f32.
unsafe fn decode(d: &Gemm, f: &Format, n: usize, k: usize, len: usize, out: *mut f32) {
    // SAFETY: `len` values of the row, whole blocks of them, and as much room.
    unsafe {
        out.write_bytes(0, len);
        (f.decode)(planes(d, f, n, k, len), std::slice::from_raw_parts_mut(out, len));
    }
}

/// The sums of the lanes of every register, the upper half onto the lower until one is left; four registers at a time.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
fn fold<const N: usize>(v: [__m512; N]) -> [f32; N] {
    const { assert!(N.is_multiple_of(4)) };
    let mut sums = [0.0; N];
    for (sums, v) in sums.as_chunks_mut::<4>().0.iter_mut().zip(v.as_chunks::<4>().0) {
        // Halves, then quarters, of two registers beside each other.
        let halves = |a, b| _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
        let (a, b) = (halves(v[0], v[1]), halves(v[2], v[3]));
        let v = _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
        let v = _mm512_add_ps(v, _mm512_permute_ps::<0x4e>(v));
        let v = _mm512_add_ps(v, _mm512_movehdup_ps(v));
        let firsts = _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), v);
        // SAFETY: four values.
        unsafe { _mm_storeu_ps(sums.as_mut_ptr(), _mm512_castps512_ps128(firsts)) };
    }
    sums
}
