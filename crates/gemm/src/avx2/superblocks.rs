//! Formats of 256-value superblocks: Q2_K to Q6_K and IQ4_XS.
//!
//! A quarter of a superblock is a step. Integers come out as halves of blocks by shifting each half
//! of a register by its own amount. The small integer scales, 16 bytes a row, are ordered per row
//! into four planes (half of the superblock and half of the block, or kind and half of the
//! superblock), transposed so that a plane's byte `4 * block + row` belongs to that block and row,
//! and widened.

use super::blocks::{IQ4_LEVELS, levels};
use super::{Kind, Step, Weights, broadcast, halves, nibbles};
use crate::gemm::{Gemm, RowPtrs};
use std::arch::x86_64::*;

pub struct Q2K;
pub struct Q3K;
pub struct Q4K;
pub struct Q5K;
pub struct Q6K;
pub struct Iq4Xs;

/// Scales and offsets of a superblock: per step, then per half of a block (the first if wide).
#[derive(Clone, Copy)]
pub struct Scales {
    pub(super) scale: [[__m256; 2]; 4],
    pub(super) offset: [[__m256; 2]; 4],
}

/// A format by the scales of four rows' superblocks and the integers of a quarter of a row's.
macro_rules! superblocks {
    ($name:ty: bytes $bytes:expr, wide $wide:expr, $kind:expr, run $run:expr, offsets $offsets:expr,
     $scales:expr, $integers:expr) => {
        impl Weights for $name {
            const VALUES: usize = 256;
            const WIDE: bool = $wide;
            const OFFSETS: bool = $offsets;
            const KIND: Kind = $kind;
            const RUN: usize = $run;
            const UNIT_BYTES: usize = $bytes;
            type Head = Scales;

            fn of(_: &Gemm) -> Option<Self> {
                Some(Self)
            }

            #[inline(always)]
            unsafe fn head(&self, rows: &RowPtrs, k: usize, _: usize) -> Scales {
                let at = k / 256 * $bytes;
                // SAFETY: a whole superblock lies within each row.
                unsafe {
                    $scales([rows.data[0].add(at), rows.data[1].add(at), rows.data[2].add(at), rows.data[3].add(at)])
                }
            }

            #[inline(always)]
            unsafe fn step(&self, rows: &RowPtrs, k: usize, i: usize, _: usize, head: &Scales) -> Step {
                let (at, p) = (k / 256 * $bytes, &rows.data);
                // SAFETY: a whole superblock lies within each row.
                unsafe {
                    let q = [
                        $integers(p[0].add(at), i),
                        $integers(p[1].add(at), i),
                        $integers(p[2].add(at), i),
                        $integers(p[3].add(at), i),
                    ];
                    Step { q, scale: head.scale[i], offset: head.offset[i] }
                }
            }
        }
    };
}
pub(super) use superblocks;

superblocks!(Q2K: bytes 84, wide false, Kind::Unsigned, run 4, offsets true, q2_scales, q2_integers);
superblocks!(Q3K: bytes 110, wide false, Kind::Biased(4), run 4, offsets false, q3_scales, q3_integers);
superblocks!(Q4K: bytes 144, wide true, Kind::Unsigned, run 8, offsets true, q45_scales, q4_integers);
superblocks!(Q5K: bytes 176, wide true, Kind::Unsigned, run 4, offsets true, q45_scales, q5_integers);
superblocks!(Q6K: bytes 210, wide false, Kind::Biased(32), run 2, offsets false, q6_scales, q6_integers);
superblocks!(Iq4Xs: bytes 136, wide true, Kind::Signed, run 1, offsets false, iq4_scales, iq4_integers);

/// Bytes: 16 of scales (low nibbles) and minima, 64 of integers, `d`, `dmin`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q2_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (heads, d, dmin) = unsafe { (heads(p, 0), f16s(p, 80), f16s(p, 82)) };
    let z = planes(heads.map(|h| halves_in_order(h)));
    let mask = _mm_set1_epi8(15);
    let scale = z.map(|z| _mm_and_si128(z, mask));
    let min = z.map(|z| _mm_and_si128(_mm_srli_epi16::<4>(z), mask));
    Scales { scale: narrow(d, scale.map(|z| unsigned(z))), offset: narrow(negated(dmin), min.map(|z| unsigned(z))) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q2_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    // SAFETY: bytes of the superblock.
    unsafe { two_bits(p.add(16), i) }
}

/// Bytes: 32 of third bits, 64 of low bits as in Q2_K, 12 of scales, `d`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q3_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks. Of these 16 the scales are bytes 2..14.
    let (heads, d) = unsafe { (heads(p, 94), f16s(p, 108)) };
    let scales = heads.map(|h| {
        let low = _mm_shuffle_epi8(h, sixteen(&[2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9]));
        let low = _mm_and_si128(_mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 4, 4)), _mm_set1_epi8(15));
        let high = _mm_shuffle_epi8(h, sixteen(&[10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13]));
        let high = _mm_and_si128(_mm_srlv_epi32(high, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
        let scale = _mm_or_si128(low, _mm_slli_epi16::<4>(high));
        halves_in_order(_mm_sub_epi8(scale, _mm_set1_epi8(32)))
    });
    Scales { scale: narrow(d, planes(scales).map(|z| signed(z))), offset: [[_mm256_setzero_ps(); 2]; 4] }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q3_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    // SAFETY: bytes of the superblock.
    unsafe { add_bit::<4>(two_bits(p.add(32), i), p, i) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q4_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    // SAFETY: bytes of the superblock.
    unsafe { low_then_high(p.add(16 + 32 * i)) }
}

/// Bytes: 16 of scales as in Q4_K, 32 of fifth bits, 128 of low nibbles as in Q4_K.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q5_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    // SAFETY: bytes of the superblock.
    unsafe { add_bit::<16>(low_then_high(p.add(48 + 32 * i)), p.add(16), i) }
}

/// Bytes: 128 of low nibbles, 64 of high bit pairs, 16 of scales, `d`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q6_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (heads, d) = unsafe { (heads(p, 192), f16s(p, 208)) };
    let scale = planes(heads.map(|h| halves_in_order(h))).map(|z| signed(z));
    Scales { scale: narrow(d, scale), offset: [[_mm256_setzero_ps(); 2]; 4] }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q6_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    let (half, pair) = (i / 2, i % 2);
    // Of each half, blocks 0 and 1 have the low nibbles of the first and second 32 bytes, 2 and 3
    // the high ones; block `b` has bits `2b` and `2b + 1` of the high bytes.
    let shift = _mm_cvtsi32_si128(4 * pair as i32);
    let turn = _mm256_setr_epi64x(4 * pair as i64, 4 * pair as i64, 4 * pair as i64 + 2, 4 * pair as i64 + 2);
    let part = |h: usize| {
        // SAFETY: bytes of the superblock.
        let (low, high) = unsafe {
            let low = p.add(64 * half + 16 * h);
            let low = halves(_mm_loadu_si128(low.cast()), _mm_loadu_si128(low.add(32).cast()));
            (low, broadcast(p.add(128 + 32 * half + 16 * h)))
        };
        let low = _mm256_and_si256(_mm256_srl_epi16(low, shift), _mm256_set1_epi8(15));
        let high = _mm256_and_si256(_mm256_srlv_epi64(high, turn), _mm256_set1_epi8(3));
        _mm256_or_si256(low, _mm256_slli_epi16::<4>(high))
    };
    (part(0), part(1))
}

/// Bytes: `d`, two of the scales' high bit pairs, four of their low nibbles, 128 of nibbles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq4_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (heads, d) = unsafe { (heads(p, 0), f16s(p, 0)) };
    // Planes: low nibbles of both halves, each byte twice; high pairs of both halves, four times.
    let z = planes(heads.map(|h| {
        let z = _mm_shuffle_epi8(h, sixteen(&[4, 4, 5, 5, 6, 6, 7, 7, 2, 2, 2, 2, 3, 3, 3, 3]));
        let (even, odd) = (_mm_set1_epi16(0x000f), _mm_set1_epi16(0x0f00));
        let low = _mm_or_si128(_mm_and_si128(z, even), _mm_and_si128(_mm_srli_epi16::<4>(z), odd));
        _mm_blend_epi32::<0b0011>(z, low)
    }));
    let z = z.map(|z| unsigned(z));
    let scale = [0, 1, 2, 3].map(|i| {
        let shift = _mm256_setr_epi64x(0, 0, 2 << 32 | 2, 2 << 32 | 2);
        let shift = _mm256_add_epi32(shift, _mm256_set1_epi32(4 * (i as i32 % 2)));
        let high = _mm256_and_si256(_mm256_srlv_epi32(z[2 + i / 2][i % 2], shift), _mm256_set1_epi32(3));
        let scale = _mm256_or_si256(z[i / 2][i % 2], _mm256_slli_epi32::<4>(high));
        [product(d, _mm256_sub_epi32(scale, _mm256_set1_epi32(32))); 2]
    });
    Scales { scale, offset: [[_mm256_setzero_ps(); 2]; 4] }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn iq4_integers(p: *const u8, i: usize) -> (__m256i, __m256i) {
    // SAFETY: bytes of the superblock.
    levels(nibbles(unsafe { _mm256_loadu_si256(p.add(8 + 32 * i).cast()) }), &IQ4_LEVELS)
}

/// Q4_K and Q5_K. Bytes: `d`, `dmin`, 12 of scales and minima.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q45_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (heads, d, dmin) = unsafe { (heads(p, 0), f16s(p, 0), f16s(p, 2)) };
    // Planes: scales of both halves, minima of both halves. Those of the second have their low
    // nibbles together and their top two bits above the six of the first.
    let z = planes(heads.map(|h| {
        let low = _mm_shuffle_epi8(h, sixteen(&[4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15]));
        let low = _mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4));
        let low = _mm_and_si128(low, _mm_setr_epi32(0x3f3f_3f3f, 0x0f0f_0f0f, 0x3f3f_3f3f, 0x0f0f_0f0f));
        let top = sixteen(&[128, 128, 128, 128, 4, 5, 6, 7, 128, 128, 128, 128, 8, 9, 10, 11]);
        let top = _mm_srli_epi32::<2>(_mm_shuffle_epi8(h, top));
        _mm_or_si128(low, _mm_and_si128(top, _mm_set1_epi8(0x30)))
    }));
    let z = z.map(|z| unsigned(z));
    let wide = |d, z: [[__m256i; 2]; 2]| [z[0][0], z[0][1], z[1][0], z[1][1]].map(|v| [product(d, v); 2]);
    Scales { scale: wide(d, [z[0], z[1]]), offset: wide(negated(dmin), [z[2], z[3]]) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sixteen(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the load is the array.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// 16 bytes of each row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn heads(p: [*const u8; 4], at: usize) -> [__m128i; 4] {
    // SAFETY: the caller's blocks have these bytes.
    p.map(|p| unsafe { _mm_loadu_si128(p.add(at).cast()) })
}

/// The f16 of each row at byte `at`, in every lane of that row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn f16s(p: [*const u8; 4], at: usize) -> __m256 {
    // SAFETY: the caller's blocks have these bytes.
    let w = p.map(|p| i64::from(unsafe { p.add(at).cast::<u16>().read_unaligned() }));
    _mm256_cvtph_ps(_mm_set1_epi64x(w[0] | w[1] << 16 | w[2] << 32 | w[3] << 48))
}

/// From plane `t` in 32-bit lane `t` of each row to planes where byte `4 * block + row` belongs to
/// that block and row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn planes(row: [__m128i; 4]) -> [__m128i; 4] {
    let (a, b) = (_mm_unpacklo_epi32(row[0], row[1]), _mm_unpackhi_epi32(row[0], row[1]));
    let (c, d) = (_mm_unpacklo_epi32(row[2], row[3]), _mm_unpackhi_epi32(row[2], row[3]));
    let planes =
        [_mm_unpacklo_epi64(a, c), _mm_unpackhi_epi64(a, c), _mm_unpacklo_epi64(b, d), _mm_unpackhi_epi64(b, d)];
    let transpose = sixteen(&[0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]);
    planes.map(|z| _mm_shuffle_epi8(z, transpose))
}

/// 16 scales of a row in order of planes: first and second halves of the blocks of either half.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn halves_in_order(z: __m128i) -> __m128i {
    _mm_shuffle_epi8(z, sixteen(&[0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]))
}

/// A plane of unsigned bytes as integers, two blocks to a register.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unsigned(z: __m128i) -> [__m256i; 2] {
    [_mm256_cvtepu8_epi32(z), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(z, z))]
}

/// A plane of signed bytes as integers, two blocks to a register.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn signed(z: __m128i) -> [__m256i; 2] {
    [_mm256_cvtepi8_epi32(z), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(z, z))]
}

/// `d` times the planes of a narrow format, per step and half of a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn narrow(d: __m256, z: [[__m256i; 2]; 4]) -> [[__m256; 2]; 4] {
    [(0, 0), (0, 1), (2, 0), (2, 1)].map(|(t, i)| [product(d, z[t][i]), product(d, z[t + 1][i])])
}

/// An f16 times a small integer: exact.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn product(d: __m256, v: __m256i) -> __m256 {
    _mm256_mul_ps(d, _mm256_cvtepi32_ps(v))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn negated(v: __m256) -> __m256 {
    _mm256_xor_ps(v, _mm256_set1_ps(-0.0))
}

/// Adds `BIT` where bit `2 * i + block` of the 32 bytes at `p` is set.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_bit<const BIT: i8>(q: (__m256i, __m256i), p: *const u8, i: usize) -> (__m256i, __m256i) {
    let first = 0x0101_0101_0101_0101 << (2 * i);
    let which = _mm256_setr_epi64x(first, first, first << 1, first << 1);
    let bit = |h: usize| {
        // SAFETY: 32 readable bytes.
        let bits = _mm256_and_si256(unsafe { broadcast(p.add(16 * h)) }, which);
        _mm256_and_si256(_mm256_cmpeq_epi8(bits, which), _mm256_set1_epi8(BIT))
    };
    (_mm256_or_si256(q.0, bit(0)), _mm256_or_si256(q.1, bit(1)))
}

/// Step `i` of Q2_K's 64 bytes: of each 32, block `b` is bits `2b` and `2b + 1`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn two_bits(p: *const u8, i: usize) -> (__m256i, __m256i) {
    let shift = 4 * (i % 2) as i64;
    let shift = _mm256_setr_epi64x(shift, shift, shift + 2, shift + 2);
    let bits = |h: usize| {
        // SAFETY: 64 readable bytes.
        let bytes = unsafe { broadcast(p.add(32 * (i / 2) + 16 * h)) };
        _mm256_and_si256(_mm256_srlv_epi64(bytes, shift), _mm256_set1_epi8(3))
    };
    (bits(0), bits(1))
}

/// Q4_K's 32 bytes of 64 values: one block in the low nibbles, the next in the high.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn low_then_high(p: *const u8) -> (__m256i, __m256i) {
    let shift = _mm256_setr_epi64x(0, 0, 4, 4);
    let half = |h: usize| {
        // SAFETY: 32 readable bytes.
        let bytes = unsafe { broadcast(p.add(16 * h)) };
        _mm256_and_si256(_mm256_srlv_epi64(bytes, shift), _mm256_set1_epi8(15))
    };
    (half(0), half(1))
}
