//! Formats of 32-value blocks: f16 scale (and minimum), then nibbles or bytes.

use super::{WeightBlock, Weights, f16s};
use crate::gemm::{Gemm, RowPtrs};
use std::arch::aarch64::*;

pub struct Q4_0;
pub struct Q4_1;
pub struct Q8_0;

/// A format by the integers of a row's block; scales are its first two bytes, offsets the next two.
macro_rules! blocks {
    ($name:ty: bytes $bytes:expr, offsets $offsets:expr, $integers:expr) => {
        impl Weights for $name {
            const WIDE: bool = true;
            const OFFSETS: bool = $offsets;
            type Head = ();

            fn of(_: &Gemm) -> Option<Self> {
                Some(Self)
            }

            #[inline(always)]
            unsafe fn head(&self, _: &RowPtrs, _: usize, _: usize) {}

            #[inline(always)]
            unsafe fn block(&self, rows: &RowPtrs, k: usize, i: usize, _: &()) -> WeightBlock {
                let at = (k / 32 + i) * $bytes;
                // SAFETY: the block lies within each row.
                unsafe {
                    let p = rows.data.map(|p| p.add(at));
                    let q = [$integers(p[0]), $integers(p[1]), $integers(p[2]), $integers(p[3])];
                    let scale = f16s(p);
                    let offset = if $offsets { f16s(p.map(|p| p.add(2))) } else { scale };
                    WeightBlock { q, scale: [scale; 2], offset: [offset; 2] }
                }
            }
        }
    };
}

blocks!(Q4_0: bytes 18, offsets false, centred);
blocks!(Q4_1: bytes 20, offsets true, nibbles);
blocks!(Q8_0: bytes 34, offsets false, bytes);

/// Nibbles less 8.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn centred(p: *const u8) -> (int8x16_t, int8x16_t) {
    // SAFETY: the caller's block.
    let z = unsafe { vld1q_u8(p.add(2)) };
    let centre = |q| vsubq_s8(vreinterpretq_s8_u8(q), vdupq_n_s8(8));
    (centre(vandq_u8(z, vdupq_n_u8(15))), centre(vshrq_n_u8::<4>(z)))
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn nibbles(p: *const u8) -> (int8x16_t, int8x16_t) {
    // SAFETY: the caller's block.
    let z = unsafe { vld1q_u8(p.add(4)) };
    (vreinterpretq_s8_u8(vandq_u8(z, vdupq_n_u8(15))), vreinterpretq_s8_u8(vshrq_n_u8::<4>(z)))
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn bytes(p: *const u8) -> (int8x16_t, int8x16_t) {
    // SAFETY: the caller's block.
    unsafe { (vld1q_s8(p.add(2).cast()), vld1q_s8(p.add(18).cast())) }
}
