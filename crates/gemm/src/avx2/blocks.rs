//! Formats of 32-value blocks: f16 scale (and minimum), perhaps fifth bits, then nibbles or bytes.
//!
//! A block's low nibbles are its first half and its high nibbles its second, so two 16-byte
//! pieces make the two registers of a step.

use super::{Kind, Step, Weights, broadcast, existing, nibbles, strided};
use crate::gemm::{Gemm, RowPtrs};
use std::arch::x86_64::*;

pub struct Q4_0;
pub struct Q4_1;
pub struct Q5_0;
pub struct Q5_1;
pub struct Q8_0;
pub struct Iq4Nl;
pub struct Mxfp4;

/// IQ4_NL's levels.
pub(super) const IQ4_LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Twice the 4-bit floats, plus 12.
const FLOAT4_LEVELS: [i8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// A format by the integers of a row's two blocks, and by its scales and offsets at the start of
/// the blocks of four rows.
macro_rules! blocks {
    ($name:ty: bytes $bytes:expr, $kind:expr, run $run:expr, offsets $offsets:expr, $integers:expr, $scales:expr) => {
        impl Weights for $name {
            const VALUES: usize = 32;
            const WIDE: bool = true;
            const OFFSETS: bool = $offsets;
            const KIND: Kind = $kind;
            const RUN: usize = $run;
            const UNIT_BYTES: usize = 8 * $bytes;
            type Head = ();

            fn of(_: &Gemm) -> Option<Self> {
                Some(Self)
            }

            #[inline(always)]
            unsafe fn head(&self, _: &RowPtrs, _: usize, _: usize) {}

            #[inline(always)]
            unsafe fn step(&self, rows: &RowPtrs, k: usize, i: usize, blocks: usize, _: &()) -> Step {
                let at = (k / 32 + 2 * i) * $bytes;
                // SAFETY: `blocks` blocks from `at` lie within each row.
                unsafe {
                    let p = [rows.data[0].add(at), rows.data[1].add(at), rows.data[2].add(at), rows.data[3].add(at)];
                    let q = [
                        $integers(p[0], blocks),
                        $integers(p[1], blocks),
                        $integers(p[2], blocks),
                        $integers(p[3], blocks),
                    ];
                    let [scale, offset] = $scales(p, $bytes * (blocks - 1)).map(|v| [existing(v, blocks); 2]);
                    Step { q, scale, offset }
                }
            }
        }
    };
}

blocks!(Q4_0: bytes 18, Kind::Biased(8), run 8, offsets false, low_high::<18, 2>, f16s);
blocks!(Q4_1: bytes 20, Kind::Unsigned, run 8, offsets true, low_high::<20, 4>, f16s);
blocks!(Q5_0: bytes 22, Kind::Biased(16), run 4, offsets false, fifth_bits::<22, 2>, f16s);
blocks!(Q5_1: bytes 24, Kind::Unsigned, run 4, offsets true, fifth_bits::<24, 4>, f16s);
blocks!(Q8_0: bytes 34, Kind::Signed, run 1, offsets false, bytes, f16s);
blocks!(Iq4Nl: bytes 18, Kind::Signed, run 1, offsets false, uneven_levels, f16s);
blocks!(Mxfp4: bytes 17, Kind::Biased(12), run 4, offsets false, float_levels, exponents);

/// Nibbles of blocks of `BYTES` bytes that start at byte `AT` of the block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn low_high<const BYTES: usize, const AT: usize>(p: *const u8, blocks: usize) -> (__m256i, __m256i) {
    // SAFETY: pieces of existing blocks.
    nibbles(unsafe { strided(p.add(AT), BYTES, blocks) })
}

/// Nibbles with a fifth bit: four bytes of bits at byte `AT`, then the nibbles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn fifth_bits<const BYTES: usize, const AT: usize>(p: *const u8, blocks: usize) -> (__m256i, __m256i) {
    // SAFETY: pieces and bits of existing blocks.
    let ((lo, hi), first, second) = unsafe {
        let bits = |at: usize| p.add(AT + at).cast::<i32>().read_unaligned();
        (nibbles(strided(p.add(AT + 4), BYTES, blocks)), bits(0), bits(BYTES * (blocks - 1)))
    };
    // Bit `i` of a block's 32 is value `i`: each byte gets the one with its bit, and tests it.
    let bits = super::halves(_mm_set1_epi32(first), _mm_set1_epi32(second));
    let which = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let bit = |byte: i64| {
        let bytes = _mm256_set_epi64x(byte + EIGHT_ONES, byte, byte + EIGHT_ONES, byte);
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, bytes), which), which);
        _mm256_and_si256(set, _mm256_set1_epi8(16))
    };
    (_mm256_or_si256(lo, bit(0)), _mm256_or_si256(hi, bit(2 * EIGHT_ONES)))
}

/// 1 in every byte.
const EIGHT_ONES: i64 = 0x0101_0101_0101_0101;

/// Q8_0's bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bytes(p: *const u8, blocks: usize) -> (__m256i, __m256i) {
    // SAFETY: pieces of existing blocks.
    unsafe { (strided(p.add(2), 34, blocks), strided(p.add(18), 34, blocks)) }
}

/// IQ4_NL's levels.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn uneven_levels(p: *const u8, blocks: usize) -> (__m256i, __m256i) {
    // SAFETY: the same contract.
    levels(unsafe { low_high::<18, 2>(p, blocks) }, &IQ4_LEVELS)
}

/// MXFP4's levels.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn float_levels(p: *const u8, blocks: usize) -> (__m256i, __m256i) {
    // SAFETY: the same contract.
    levels(unsafe { low_high::<17, 1>(p, blocks) }, &FLOAT4_LEVELS)
}

/// Looks 4-bit codes up in a table.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn levels(codes: (__m256i, __m256i), table: &[i8; 16]) -> (__m256i, __m256i) {
    // SAFETY: the load is the table.
    let table = unsafe { broadcast(table.as_ptr().cast()) };
    (_mm256_shuffle_epi8(table, codes.0), _mm256_shuffle_epi8(table, codes.1))
}

/// The two f16 of each row at its pointer and `stride` bytes on, in lanes `4 * block + row`: scale and offset, of which a format
/// may have but the first.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn f16s(p: [*const u8; 4], stride: usize) -> [__m256; 2] {
    // SAFETY: the caller's blocks have four bytes and more.
    let word = |r: usize, at: usize| unsafe { p[r].add(at).cast::<i32>().read_unaligned() };
    let four = |at: usize| _mm_setr_epi32(word(0, at), word(1, at), word(2, at), word(3, at));
    let (a, b) = (four(0), four(stride));
    // Those of the first block are the even ones of eight, those of the second the odd ones.
    let scale = _mm_blend_epi16::<0b1010_1010>(a, _mm_slli_epi32::<16>(b));
    let offset = _mm_blend_epi16::<0b1010_1010>(_mm_srli_epi32::<16>(a), b);
    let ordered = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    [scale, offset].map(|v| _mm256_cvtph_ps(_mm_shuffle_epi8(v, ordered)))
}

/// MXFP4's scales, `2^(e - 128)`, where the block's first byte is `e`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn exponents(p: [*const u8; 4], stride: usize) -> [__m256; 2] {
    // SAFETY: the caller's blocks begin with these numbers.
    let e = |r: usize, at: usize| i32::from(unsafe { p[r].add(at).read() });
    let e =
        _mm256_setr_epi32(e(0, 0), e(1, 0), e(2, 0), e(3, 0), e(0, stride), e(1, stride), e(2, stride), e(3, stride));
    let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
    let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
    let tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    [_mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, tiny)); 2]
}
