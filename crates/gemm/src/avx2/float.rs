//! f32 activations: float weights, and every other format decoded on the way.
//!
//! Value `k` of a row belongs to lane `k % 16` of two registers per product, as in `generic` but
//! with fused multiply-adds. Few activation rows multiply the weights as they are converted; for
//! more, panels of weights are converted once, and running registers wait in memory meanwhile.

use crate::gemm::{AHEAD, Gemm, STREAMS};
use crate::generic::planes;
use crate::packed::Fields;
use crate::simd::prefetch;
use akunu_dtype::{DType, Format};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// With up to this many activation rows weights are not converted in memory.
const SMALL_M: usize = 24;
/// Values of a panel; whole blocks of every format.
const PANEL: usize = 512;
/// Weight rows of a panel.
const COLS: usize = 16;
/// Activation rows of a tile.
const TILE: usize = 128;
/// Activation rows that stay in L1 while a panel passes by.
const NEAR: usize = 6;
/// Weight rows from one that is converted to one that is asked of memory.
const ROWS_AHEAD: usize = 4;
/// Activation and weight rows in the innermost loop.
const INNER_ROWS: usize = 3;
const INNER: usize = 2;

/// 16 numbers.
type Lanes = [__m256; 2];

/// A float type that weights are stored in.
trait Float {
    const BYTES: usize;
    /// 16 numbers.
    ///
    /// # Safety
    /// The caller has the AVX2 level; the numbers are readable.
    unsafe fn load(p: *const u8) -> Lanes;
}

struct F32;
struct F16;
struct Bf16;

macro_rules! float {
    ($name:ty: bytes $bytes:literal, $load:path) => {
        impl Float for $name {
            const BYTES: usize = $bytes;
            #[inline(always)]
            unsafe fn load(p: *const u8) -> Lanes {
                // SAFETY: the same contract.
                unsafe { [$load(p), $load(p.add(8 * $bytes))] }
            }
        }
    };
}

float!(F32: bytes 4, load_f32);
float!(F16: bytes 2, load_f16);
float!(Bf16: bytes 2, load_bf16);

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_f32(p: *const u8) -> __m256 {
    // SAFETY: eight readable numbers.
    unsafe { _mm256_loadu_ps(p.cast()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_f16(p: *const u8) -> __m256 {
    // SAFETY: eight readable numbers.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(p.cast()) })
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_bf16(p: *const u8) -> __m256 {
    // SAFETY: eight readable numbers.
    let words = _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(p.cast()) });
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
}

/// The first `n` of 16 numbers, and zeros.
///
/// # Safety
/// The caller has the AVX2 level; `n` numbers are readable.
#[inline(always)]
unsafe fn load<F: Float>(p: *const u8, n: usize) -> Lanes {
    // SAFETY: fewer than 16 are loaded from a copy.
    unsafe {
        if n == 16 {
            return F::load(p);
        }
        let mut copy = [0u8; 64];
        copy.as_mut_ptr().copy_from_nonoverlapping(p, n * F::BYTES);
        F::load(copy.as_ptr())
    }
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident: $float:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`Gemm`] promises for f32 activations; the machine has AVX2, FMA and F16C.
        #[target_feature(enable = "avx2,fma,f16c")]
        pub unsafe fn $name(d: &Gemm) {
            // SAFETY: the same contract.
            unsafe {
                match d.rows {
                    0 => {}
                    1..=SMALL_M => few::<$float>(d),
                    _ => panels(d, |n, k, len, out| convert::<$float>(d, n, k, len, out)),
                }
            }
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
/// As [`Gemm`] promises for f32 activations; the machine has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
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
#[target_feature(enable = "avx2,fma,f16c")]
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
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn few<F: Float>(d: &Gemm) {
    // SAFETY: rows of the tile.
    unsafe {
        if d.rows == 1 {
            let apart = d.apart(STREAMS / 2);
            (0..apart).for_each(|n| rows::<F, 1, { STREAMS / 2 }>(d, 0, (n, apart)));
            return;
        }
        let apart = d.apart(2);
        for n in 0..apart {
            for m in (0..d.rows - d.rows % 2).step_by(2) {
                rows::<F, 2, 2>(d, m, (n, apart));
            }
            for m in d.rows - d.rows % 2..d.rows {
                rows::<F, 1, 2>(d, m, (n, apart));
            }
        }
    }
}

/// Products of activation rows `m..m + R` and `C` weight rows, row `n` the first and each `apart` from the last.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn rows<F: Float, const R: usize, const C: usize>(d: &Gemm, m: usize, (n, apart): (usize, usize)) {
    // SAFETY: loads stay within the rows, stores within the tile.
    unsafe {
        let w: [*const u8; C] = std::array::from_fn(|c| d.w.add((n + c * apart).min(d.cols - 1) * d.w_stride));
        let x: [*const u8; R] = std::array::from_fn(|i| d.x.add((m + i) * d.x_stride));
        let mut sum = [[[_mm256_setzero_ps(); 2]; C]; R];
        let mut add = |k: usize, len: usize| {
            for (sum, x) in sum.iter_mut().zip(x) {
                let x = load::<F32>(x.add(4 * k), len);
                for (sum, w) in sum.iter_mut().zip(w) {
                    let w = load::<F>(w.add(k * F::BYTES), len);
                    *sum = [_mm256_fmadd_ps(w[0], x[0], sum[0]), _mm256_fmadd_ps(w[1], x[1], sum[1])];
                }
            }
        };
        let line = 64 / F::BYTES;
        let whole = d.k / line * line;
        for k in (0..whole).step_by(line) {
            for w in w {
                prefetch(w.wrapping_add(k * F::BYTES + AHEAD));
            }
            for k in (k..k + line).step_by(16) {
                add(k, 16);
            }
        }
        for k in (whole..d.k).step_by(16) {
            add(k, 16.min(d.k - k));
        }
        for (i, sum) in sum.into_iter().enumerate() {
            d.put(m + i, (n, apart), sum.map(|sum| fold(sum)));
        }
    }
}

/// A panel of weights as f32, and the registers of every product of a tile.
#[repr(C, align(64))]
struct Scratch {
    w: [[f32; PANEL]; COLS],
    sum: [[[f32; 16]; COLS]; TILE],
}

/// Many activation rows; `fill(n, k, len, out)` decodes `len` values from value `k` of weight row
/// `n`, and zeros up to the next 16.
#[target_feature(enable = "avx2,fma,f16c")]
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
                    for near in (0..rows).step_by(NEAR) {
                        for n in (0..cols).step_by(INNER) {
                            for m in (near..rows.min(near + NEAR)).step_by(INNER_ROWS) {
                                match rows - m {
                                    1 => multiply::<1>(d, s, m0, m, n, k, len),
                                    2 => multiply::<2>(d, s, m0, m, n, k, len),
                                    _ => multiply::<INNER_ROWS>(d, s, m0, m, n, k, len),
                                }
                            }
                        }
                    }
                }
                for m in 0..rows {
                    for n in (0..cols).step_by(4) {
                        let dots = fold4(std::array::from_fn(|c| F32::load((&raw const (*s).sum[m][n + c]).cast())));
                        let out = d.out.add((m0 + m) * d.out_stride + n0 + n);
                        out.copy_from_nonoverlapping(dots.as_ptr(), 4.min(cols - n));
                    }
                }
            }
        }
    }
}

const _: () = assert!(NEAR.is_multiple_of(INNER_ROWS) && COLS.is_multiple_of(INNER) && COLS.is_multiple_of(4));

/// Adds the products of `M` activation rows and two weight rows of the panel.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply<const M: usize>(d: &Gemm, s: *mut Scratch, m0: usize, m: usize, n: usize, k: usize, len: usize) {
    // SAFETY: rows of the tile and the panel.
    unsafe {
        let w: [*const u8; INNER] = std::array::from_fn(|c| (&raw const (*s).w[n + c]).cast());
        let x: [*const u8; M] = std::array::from_fn(|i| d.x.add((m0 + m + i) * d.x_stride + 4 * k));
        let at = |i: usize, c: usize| (&raw mut (*s).sum[m + i][n + c]).cast::<f32>();
        let mut sum: [[Lanes; INNER]; M] =
            std::array::from_fn(|i| std::array::from_fn(|c| F32::load(at(i, c).cast_const().cast())));
        let whole = len / 16 * 16;
        for k in (0..whole).step_by(16) {
            // Half of the lanes after the other: registers are few.
            for half in 0..2 {
                let w = w.map(|w| load_f32(w.add(4 * (k + 8 * half))));
                for (sum, x) in sum.iter_mut().zip(x) {
                    let x = load_f32(x.add(4 * (k + 8 * half)));
                    for (sum, w) in sum.iter_mut().zip(w) {
                        sum[half] = _mm256_fmadd_ps(w, x, sum[half]);
                    }
                }
            }
        }
        if whole < len {
            let w = w.map(|w| F32::load(w.add(4 * whole)));
            for (sum, x) in sum.iter_mut().zip(x) {
                let x = load::<F32>(x.add(4 * whole), len - whole);
                for (sum, w) in sum.iter_mut().zip(w) {
                    *sum = [_mm256_fmadd_ps(w[0], x[0], sum[0]), _mm256_fmadd_ps(w[1], x[1], sum[1])];
                }
            }
        }
        for (i, sum) in sum.into_iter().enumerate() {
            for (c, sum) in sum.into_iter().enumerate() {
                _mm256_store_ps(at(i, c), sum[0]);
                _mm256_store_ps(at(i, c).add(8), sum[1]);
            }
        }
    }
}

/// Floats to f32.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn convert<F: Float>(d: &Gemm, n: usize, k: usize, len: usize, out: *mut f32) {
    // SAFETY: `len` values of the row, and room for as many and up to the next 16.
    unsafe {
        let w = d.w.add(n * d.w_stride + k * F::BYTES);
        for i in (0..len).step_by(16) {
            prefetch(w.wrapping_add(ROWS_AHEAD * d.w_stride + i * F::BYTES));
            let v = load::<F>(w.add(i * F::BYTES), 16.min(len - i));
            _mm256_storeu_ps(out.add(i), v[0]);
            _mm256_storeu_ps(out.add(i + 8), v[1]);
        }
    }
}

/// Any format to f32.
unsafe fn decode(d: &Gemm, f: &Format, n: usize, k: usize, len: usize, out: *mut f32) {
    // SAFETY: `len` values of the row, whole blocks of them, and room for as many and up to the next 16.
    unsafe {
        out.write_bytes(0, len.next_multiple_of(16));
        (f.decode)(planes(d, f, n, k, len), std::slice::from_raw_parts_mut(out, len));
    }
}

/// The sum of the chains, the upper half onto the lower until one is left.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fold(v: Lanes) -> f32 {
    let v = _mm256_add_ps(v[0], v[1]);
    let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
}

/// As [`fold`], of four products.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fold4(v: [Lanes; 4]) -> [f32; 4] {
    let [a, b, c, d] = v.map(|v| _mm256_add_ps(v[0], v[1]));
    let halves = |a, b| _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b));
    // The sums of `a` and `c` are in the lower half, those of `b` and `d` in the upper.
    let (ab, cd) = (halves(a, b), halves(c, d));
    let v = _mm256_add_ps(_mm256_shuffle_ps::<0x44>(ab, cd), _mm256_shuffle_ps::<0xee>(ab, cd));
    let v = _mm256_add_ps(v, _mm256_movehdup_ps(v));
    let v = _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 4, 2, 6, 0, 0, 0, 0));
    let mut sums = [0.0; 4];
    // SAFETY: four values.
    unsafe { _mm_storeu_ps(sums.as_mut_ptr(), _mm256_castps256_ps128(v)) };
    sums
}
