//! f32 activations: float weights, and every other format decoded on the way.
//!
//! Value `k` of a row belongs to lane `k % 16` of four registers per product, as in `generic` but
//! with fused multiply-adds.

use crate::gemm::{Gemm, ROWS, RowPtrs};
use crate::generic::planes;
use akunu_dtype::DType;
use std::arch::aarch64::*;

/// Values of a weight row that are decoded at a time; whole blocks of every format.
const PANEL: usize = 512;
/// Activation rows that share what is decoded.
const TILE: usize = 32;

/// 16 numbers.
type Lanes = [float32x4_t; 4];

/// A float type that weights are stored in.
trait Float {
    const BYTES: usize;
    /// Four numbers.
    ///
    /// # Safety
    /// The caller has the NEON level; the numbers are readable.
    unsafe fn four(p: *const u8) -> float32x4_t;
}

struct F32;
struct F16;
struct Bf16;

macro_rules! float {
    ($name:ty: bytes $bytes:literal, $load:path) => {
        impl Float for $name {
            const BYTES: usize = $bytes;
            #[inline(always)]
            unsafe fn four(p: *const u8) -> float32x4_t {
                // SAFETY: the same contract.
                unsafe { $load(p) }
            }
        }
    };
}

float!(F32: bytes 4, load_f32);
float!(F16: bytes 2, load_f16);
float!(Bf16: bytes 2, load_bf16);

#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_f32(p: *const u8) -> float32x4_t {
    // SAFETY: four readable numbers.
    vreinterpretq_f32_u8(unsafe { vld1q_u8(p) })
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_f16(p: *const u8) -> float32x4_t {
    // SAFETY: four readable numbers.
    vcvt_f32_f16(vreinterpret_f16_u8(unsafe { vld1_u8(p) }))
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_bf16(p: *const u8) -> float32x4_t {
    // SAFETY: four readable numbers.
    let bits = vreinterpret_u16_u8(unsafe { vld1_u8(p) });
    vreinterpretq_f32_u32(vshll_n_u16::<16>(bits))
}

/// The first `n` of 16 numbers, and zeros.
///
/// # Safety
/// The caller has the NEON level; `n` numbers are readable.
#[inline(always)]
unsafe fn load<F: Float>(p: *const u8, n: usize) -> Lanes {
    let mut copy = [0u8; 64];
    // SAFETY: fewer than 16 are loaded from a copy.
    unsafe {
        let p = if n == 16 {
            p
        } else {
            copy.as_mut_ptr().copy_from_nonoverlapping(p, n * F::BYTES);
            copy.as_ptr()
        };
        [F::four(p), F::four(p.add(4 * F::BYTES)), F::four(p.add(8 * F::BYTES)), F::four(p.add(12 * F::BYTES))]
    }
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident: $float:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`Gemm`] promises for f32 activations; the machine has the NEON level.
        #[target_feature(enable = "neon")]
        pub unsafe fn $name(d: &Gemm) {
            // SAFETY: the same contract.
            unsafe { dots::<$float>(d) }
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

/// Four weight rows at a time, with every activation row while they are in the cache.
#[target_feature(enable = "neon")]
unsafe fn dots<F: Float>(d: &Gemm) {
    for n in (0..d.cols).step_by(ROWS) {
        for m in 0..d.rows {
            // SAFETY: numbers of the rows; results within the tile.
            unsafe {
                let p = RowPtrs::new(d, n, 1).data;
                let x = d.x.add(m * d.x_stride);
                let mut sums = [[vdupq_n_f32(0.0); 4]; ROWS];
                for k in (0..d.k).step_by(16) {
                    let len = (d.k - k).min(16);
                    let x = load::<F32>(x.add(4 * k), len);
                    for (sum, p) in sums.iter_mut().zip(p) {
                        let w = load::<F>(p.add(F::BYTES * k), len);
                        for ((sum, w), x) in sum.iter_mut().zip(w).zip(x) {
                            *sum = vfmaq_f32(*sum, w, x);
                        }
                    }
                }
                for (n, sum) in (n..d.cols).zip(sums) {
                    *d.out.add(m * d.out_stride + n) = fold(sum);
                }
            }
        }
    }
}

/// Weights of any format.
///
/// # Safety
/// As [`Gemm`] promises for f32 activations; the machine has NEON.
#[target_feature(enable = "neon")]
pub unsafe fn f32_any(d: &Gemm) {
    let Some(dtype) = DType::from_index(d.dtype) else { return };
    let f = dtype.format();
    let mut w = [[0.0f32; PANEL]; ROWS];
    for n in (0..d.cols).step_by(ROWS) {
        for m in (0..d.rows).step_by(TILE) {
            let rows = TILE.min(d.rows - m);
            let mut sums = [[[vdupq_n_f32(0.0); 4]; ROWS]; TILE];
            for k in (0..d.k).step_by(PANEL) {
                let len = PANEL.min(d.k - k);
                for (c, w) in w.iter_mut().enumerate() {
                    // SAFETY: whole blocks within a row that is there.
                    (f.decode)(unsafe { planes(d, f, (n + c).min(d.cols - 1), k, len) }, &mut w[..len]);
                }
                for (i, sums) in sums[..rows].iter_mut().enumerate() {
                    for at in (0..len).step_by(16) {
                        let len = (len - at).min(16);
                        // SAFETY: `len` numbers of activation row `m + i`, and of what was decoded.
                        unsafe {
                            let x = load::<F32>(d.x.add((m + i) * d.x_stride + 4 * (k + at)), len);
                            for (sum, w) in sums.iter_mut().zip(&w) {
                                let w = load::<F32>(w.as_ptr().add(at).cast(), len);
                                for ((sum, w), x) in sum.iter_mut().zip(w).zip(x) {
                                    *sum = vfmaq_f32(*sum, w, x);
                                }
                            }
                        }
                    }
                }
            }
            for (i, sums) in sums[..rows].iter().enumerate() {
                for (n, sum) in (n..d.cols).zip(sums) {
                    // SAFETY: within the tile of results.
                    unsafe { *d.out.add((m + i) * d.out_stride + n) = fold(*sum) };
                }
            }
        }
    }
}

/// The upper half onto the lower until one is left.
#[inline]
#[target_feature(enable = "neon")]
fn fold(v: Lanes) -> f32 {
    let v = vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]));
    let pair = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    vget_lane_f32::<0>(pair) + vget_lane_f32::<1>(pair)
}
