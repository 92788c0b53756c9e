//! The IQ formats of tuples from a grid: IQ1_S to IQ3_S.
//!
//! 64 values are eight tuples of eight (or pairs of four), each a word from the grid's table, and a
//! word that says what becomes of it: all ones where a value is negative, or what is taken off.

use super::superblocks::{Scales, f16s, superblocks};
use super::{Kind, Step, Weights};
use crate::gemm::{Gemm, RowPtrs};
use akunu_dtype::grids::{self, EVEN_SIGNS, SIGNS};
use std::arch::x86_64::*;

pub struct Iq1S;
pub struct Iq1M;
pub struct Iq2Xxs;
pub struct Iq2Xs;
pub struct Iq2S;
pub struct Iq3Xxs;
pub struct Iq3S;

superblocks!(Iq1S: bytes 50, wide true, Kind::Signed, run 1, offsets false, iq1_s_scales, iq1_s_integers);
superblocks!(Iq1M: bytes 56, wide false, Kind::Signed, run 1, offsets false, iq1_m_scales, iq1_m_integers);
superblocks!(Iq2Xxs: bytes 66, wide true, Kind::Signed, run 1, offsets false, iq2_xxs_scales, iq2_xxs_integers);
superblocks!(Iq2Xs: bytes 74, wide false, Kind::Signed, run 1, offsets false, quarters_at::<66>, iq2_xs_integers);
superblocks!(Iq2S: bytes 82, wide false, Kind::Signed, run 1, offsets false, quarters_at::<74>, iq2_s_integers);
superblocks!(Iq3Xxs: bytes 98, wide true, Kind::Signed, run 1, offsets false, iq3_xxs_scales, iq3_xxs_integers);
superblocks!(Iq3S: bytes 110, wide true, Kind::Signed, run 1, offsets false, iq3_s_scales, iq3_s_integers);

/// Bytes: `d`, 32 low bytes of indices, 8 words of their high bits, a scale and a shift.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq1_s_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    unsafe { wide(f16s(p, 0), 0.25, 0.125, |r, b| word(p[r], 34 + 2 * b) >> 12 & 7) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq1_s_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    // SAFETY: bytes of the superblock.
    shifted(i, |g| unsafe {
        let word = word(p, 34 + g / 4 * 2);
        (byte(p, 2 + g) | (word >> (3 * (g % 4)) & 7) << 8, word >> 15)
    })
}

/// Bytes: 32 low bytes of indices, 16 of their high bits and shifts, 8 of scales and of `d`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq1_m_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    unsafe {
        let d = p.map(|p| (0..4).fold(0, |d, i| d | (word(p, 48 + 2 * i) >> 12) << (4 * i)) as i64);
        let d = _mm256_cvtph_ps(_mm_set1_epi64x(d[0] | d[1] << 16 | d[2] << 32 | d[3] << 48));
        narrow(d, 0.25, 0.125, |r, g| word(p[r], 48 + g / 4 * 2) >> (3 * (g % 4)) & 7)
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq1_m_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    // SAFETY: bytes of the superblock.
    shifted(i, |g| unsafe {
        let nibble = byte(p, 32 + g / 2) >> (4 * (g % 2)) & 15;
        (byte(p, g) | (nibble & 7) << 8, nibble >> 3)
    })
}

/// Bytes: `d`, then for every block four indices and a word of signs, the scale on top.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq2_xxs_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    unsafe { wide(f16s(p, 0), 0.25, 0.125, |r, b| byte(p[r], 9 + 8 * b) >> 4) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq2_xxs_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    // SAFETY: bytes of the superblock.
    signed(i, |g| unsafe {
        let at = 2 + g / 4 * 8;
        (grids::IQ2_XXS[byte(p, at + g % 4)], EVEN_SIGNS[long(p, at + 4) >> (7 * (g % 4)) & 127])
    })
}

/// Bytes: `d`, 32 words of an index and signs, 8 bytes of scales.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq2_xs_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    // SAFETY: bytes of the superblock.
    signed(i, |g| unsafe {
        let word = word(p, 2 + 2 * g);
        (grids::IQ2_XS[word & 511], EVEN_SIGNS[word >> 9 & 127])
    })
}

/// Bytes: `d`, 32 low bytes of indices, 32 of signs, 8 of the indices' high bits, 8 of scales.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq2_s_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    // SAFETY: bytes of the superblock.
    signed(i, |g| unsafe {
        let high = byte(p, 66 + g / 4) << (8 - 2 * (g % 4)) & 0x300;
        (grids::IQ2_S[byte(p, 2 + g) | high], SIGNS[byte(p, 34 + g)])
    })
}

/// Bytes: `d`, 64 indices, then for every block a word of signs, the scale on top.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq3_xxs_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    unsafe { wide(f16s(p, 0), 0.5, 0.25, |r, b| byte(p[r], 69 + 4 * b) >> 4) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq3_xxs_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    let tuple = |index: usize| u64::from(grids::IQ3_XXS[index]);
    // SAFETY: bytes of the superblock.
    signed(i, |g| unsafe {
        let (a, b) = (tuple(byte(p, 2 + 2 * g)), tuple(byte(p, 3 + 2 * g)));
        (a | b << 32, EVEN_SIGNS[long(p, 66 + g / 4 * 4) >> (7 * (g % 4)) & 127])
    })
}

/// Bytes: `d`, 64 low bytes of indices, 8 of their ninth bits, 32 of signs, 4 of scales.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq3_s_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    unsafe { wide(f16s(p, 0), 2.0, 1.0, |r, b| byte(p[r], 106 + b / 2) >> (4 * (b % 2)) & 15) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq3_s_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    let tuple = |index: usize| u64::from(grids::IQ3_S[index & 511]);
    // SAFETY: bytes of the superblock.
    signed(i, |g| unsafe {
        let ninth = byte(p, 66 + g / 4) << (8 - 2 * (g % 4));
        let (a, b) = (tuple(byte(p, 2 + 2 * g) | ninth & 256), tuple(byte(p, 3 + 2 * g) | ninth >> 1 & 256));
        (a | b << 32, SIGNS[byte(p, 74 + g)])
    })
}

/// 16 nibbles at byte `AT` as scales `d * (nibble + 1/2) / 4`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn quarters_at<const AT: usize>(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    unsafe { narrow(f16s(p, 0), 0.25, 0.125, |r, g| byte(p[r], AT + g / 2) >> (4 * (g % 2)) & 15) }
}

#[inline(always)]
unsafe fn byte(p: *const u8, at: usize) -> usize {
    // SAFETY: the caller's promise.
    usize::from(unsafe { *p.add(at) })
}

#[inline(always)]
unsafe fn word(p: *const u8, at: usize) -> usize {
    // SAFETY: the caller's promise.
    usize::from(unsafe { p.add(at).cast::<u16>().read_unaligned() })
}

#[inline(always)]
unsafe fn long(p: *const u8, at: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { p.add(at).cast::<u32>().read_unaligned() as usize }
}

/// Step `i` of tuples with their signs, by number.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn signed(i: usize, tuple: impl Fn(usize) -> (u64, u64)) -> (__m256i, __m256i) {
    let half = |h: usize| {
        let (tuples, signs) = four(8 * i + 2 * h, &tuple);
        _mm256_sub_epi8(_mm256_xor_si256(tuples, signs), signs)
    };
    (half(0), half(1))
}

/// Step `i` of IQ1's tuples, by an index and whether they are shifted down, where the table has
/// them shifted up.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn shifted(i: usize, tuple: impl Fn(usize) -> (usize, usize)) -> (__m256i, __m256i) {
    let tuple = |g: usize| {
        let (index, down) = tuple(g);
        (grids::IQ1[index & 2047], down as u64 * 0x0202_0202_0202_0202)
    };
    let half = |h: usize| {
        let (tuples, two) = four(8 * i + 2 * h, &tuple);
        _mm256_sub_epi8(tuples, two)
    };
    (half(0), half(1))
}

/// Two words each of tuples `g` and `g + 1`, and of the two that are a block further.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn four(g: usize, tuple: &impl Fn(usize) -> (u64, u64)) -> (__m256i, __m256i) {
    let [a, b, c, d] = [tuple(g), tuple(g + 1), tuple(g + 4), tuple(g + 5)];
    let words = |a: u64, b: u64, c: u64, d: u64| _mm256_setr_epi64x(a as i64, b as i64, c as i64, d as i64);
    (words(a.0, b.0, c.0, d.0), words(a.1, b.1, c.1, d.1))
}

/// Scales `d * (step * v + least)`, exact, for the numbers `v` of rows and blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn wide(d: __m256, step: f32, least: f32, v: impl Fn(usize, usize) -> usize) -> Scales {
    let scale = [0, 1, 2, 3].map(|i| [affine(d, step, least, |r, b| v(r, 2 * i + b)); 2]);
    Scales { scale, offset: [[_mm256_setzero_ps(); 2]; 4] }
}

/// The same for rows and halves of blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn narrow(d: __m256, step: f32, least: f32, v: impl Fn(usize, usize) -> usize) -> Scales {
    let half = |i: usize, h: usize| affine(d, step, least, |r, b| v(r, 4 * i + 2 * b + h));
    Scales { scale: [0, 1, 2, 3].map(|i| [half(i, 0), half(i, 1)]), offset: [[_mm256_setzero_ps(); 2]; 4] }
}

/// For four rows and two blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn affine(d: __m256, step: f32, least: f32, v: impl Fn(usize, usize) -> usize) -> __m256 {
    let v = |r: usize, b: usize| v(r, b) as i32;
    let v = _mm256_setr_epi32(v(0, 0), v(1, 0), v(2, 0), v(3, 0), v(0, 1), v(1, 1), v(2, 1), v(3, 1));
    let v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(v), _mm256_set1_ps(step), _mm256_set1_ps(least));
    _mm256_mul_ps(d, v)
}
