//! Formats of 256-value superblocks: Q4_K and Q6_K.

use super::{WeightBlock, Weights, f16s};
use crate::gemm::{Gemm, ROWS, RowPtrs};
use std::arch::aarch64::*;

pub struct Q4K;
pub struct Q6K;

/// Numbers of four rows.
type Lanes = [f32; ROWS];

#[inline]
#[target_feature(enable = "neon")]
fn load(v: &Lanes) -> float32x4_t {
    // SAFETY: the load is the array.
    unsafe { vld1q_f32(v.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn d(p: &[*const u8; ROWS], at: usize) -> Lanes {
    let mut out = [0.0; ROWS];
    // SAFETY: the caller's superblocks have an f16 there; the store is the array.
    unsafe { vst1q_f32(out.as_mut_ptr(), f16s(p.map(|p| p.add(at)))) };
    out
}

/// Bytes: `d`, `dmin`, 12 of scales and minima, 128 of nibbles.
impl Weights for Q4K {
    const WIDE: bool = true;
    const OFFSETS: bool = true;
    /// Scales and offsets of eight blocks.
    type Head = [(Lanes, Lanes); 8];

    fn of(_: &Gemm) -> Option<Self> {
        Some(Self)
    }

    #[inline(always)]
    unsafe fn head(&self, rows: &RowPtrs, k: usize, _: usize) -> Self::Head {
        let mut out = [([0.0; ROWS], [0.0; ROWS]); 8];
        // SAFETY: a whole superblock lies within each row.
        unsafe {
            let p = rows.data.map(|p| p.add(k / UNIT * BYTES_4));
            let (d, dmin) = (d(&p, 0), d(&p, 2));
            for (r, p) in p.into_iter().enumerate() {
                let s = p.add(4).cast::<[u8; 12]>().read();
                for (b, (scale, offset)) in out.iter_mut().enumerate() {
                    // Those of the second half have their low nibbles together and their top two
                    // bits above the six of the first.
                    let (q, min) = match b {
                        0..4 => (s[b] & 63, s[b + 4] & 63),
                        _ => (s[b + 4] & 15 | s[b - 4] >> 6 << 4, s[b + 4] >> 4 | s[b] >> 6 << 4),
                    };
                    scale[r] = d[r] * f32::from(q);
                    offset[r] = -dmin[r] * f32::from(min);
                }
            }
        }
        out
    }

    #[inline(always)]
    unsafe fn block(&self, rows: &RowPtrs, k: usize, i: usize, head: &Self::Head) -> WeightBlock {
        // SAFETY: a whole superblock lies within each row; the caller has the NEON level.
        unsafe {
            let p = rows.data.map(|p| p.add(k / UNIT * BYTES_4));
            let q = [q4_integers(p[0], i), q4_integers(p[1], i), q4_integers(p[2], i), q4_integers(p[3], i)];
            WeightBlock { q, scale: [load(&head[i].0); 2], offset: [load(&head[i].1); 2] }
        }
    }
}

/// 32 bytes have one block in the low nibbles, the next in the high.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn q4_integers(p: *const u8, i: usize) -> (int8x16_t, int8x16_t) {
    let shift = vdupq_n_s8(if i.is_multiple_of(2) { 0 } else { -4 });
    let half = |h: usize| {
        // SAFETY: bytes of the superblock.
        let z = unsafe { vld1q_u8(p.add(16 + i / 2 * 32 + 16 * h)) };
        vreinterpretq_s8_u8(vandq_u8(vshlq_u8(z, shift), vdupq_n_u8(15)))
    };
    (half(0), half(1))
}

/// Bytes: 128 of low nibbles, 64 of high bit pairs, 16 of scales, `d`.
impl Weights for Q6K {
    const WIDE: bool = false;
    const OFFSETS: bool = false;
    type Head = Lanes;

    fn of(_: &Gemm) -> Option<Self> {
        Some(Self)
    }

    #[inline(always)]
    unsafe fn head(&self, rows: &RowPtrs, k: usize, _: usize) -> Lanes {
        // SAFETY: a whole superblock lies within each row; the caller has the NEON level.
        unsafe { d(&rows.data.map(|p| p.add(k / UNIT * BYTES_6)), 208) }
    }

    #[inline(always)]
    unsafe fn block(&self, rows: &RowPtrs, k: usize, i: usize, d: &Lanes) -> WeightBlock {
        // SAFETY: a whole superblock lies within each row; the caller has the NEON level.
        unsafe {
            let p = rows.data.map(|p| p.add(k / UNIT * BYTES_6));
            let q = [q6_integers(p[0], i), q6_integers(p[1], i), q6_integers(p[2], i), q6_integers(p[3], i)];
            let scale = |h: usize| {
                let v = [0, 1, 2, 3].map(|r| d[r] * f32::from(*p[r].add(192 + 2 * i + h).cast::<i8>()));
                load(&v)
            };
            let scale = [scale(0), scale(1)];
            WeightBlock { q, scale, offset: scale }
        }
    }
}

/// Of each half of the superblock, blocks 0 and 1 have the low nibbles of the first and second 32
/// bytes, 2 and 3 the high ones; block `i` has bits `2i` and `2i + 1` of the high bytes.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn q6_integers(p: *const u8, i: usize) -> (int8x16_t, int8x16_t) {
    let (part, i) = (i / 4, i % 4);
    let (low_shift, high_shift) = (vdupq_n_s8(-4 * (i / 2) as i8), vdupq_n_s8(-2 * i as i8));
    let half = |h: usize| {
        // SAFETY: bytes of the superblock.
        let (low, high) =
            unsafe { (vld1q_u8(p.add(64 * part + i % 2 * 32 + 16 * h)), vld1q_u8(p.add(128 + 32 * part + 16 * h))) };
        let low = vandq_u8(vshlq_u8(low, low_shift), vdupq_n_u8(15));
        let high = vandq_u8(vshlq_u8(high, high_shift), vdupq_n_u8(3));
        let q = vorrq_u8(low, vshlq_n_u8::<4>(high));
        vsubq_s8(vreinterpretq_s8_u8(q), vdupq_n_s8(32))
    };
    (half(0), half(1))
}

const UNIT: usize = super::UNIT;
const BYTES_4: usize = 144;
const BYTES_6: usize = 210;
