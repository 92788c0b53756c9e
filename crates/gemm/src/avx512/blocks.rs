//! Formats of 32-value blocks: f16 scale (and minimum), perhaps fifth bits, then nibbles or bytes.
//!
//! A block's low nibbles are its first half and its high nibbles its second, so four 16-byte
//! pieces make the two registers of a step. Q4_0, Q5_0 and Q8_0 keep their integers unsigned, and
//! the bias (8, 16, 128) comes off the activations' side.

use super::{
    Lanes, LanesFn, Step, Weights, block_lanes, broadcast, high_f16, low_bits, low_f16, nibbles, strided, transposed,
    words,
};
use crate::gemm::{Gemm, RowPtrs};
use std::arch::x86_64::*;

pub struct Q4_0;
pub struct Q4_1;
pub struct Q5_0;
pub struct Q5_1;
pub struct Q8_0;
pub struct Iq4Nl;
pub struct Mxfp4;

/// IQ4_NL's levels plus 128.
pub(super) const IQ4_LEVELS: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
/// Twice the 4-bit floats, plus 12.
const FLOAT4_LEVELS: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// A format by the integers of four blocks a stride apart, the scales and offsets of four rows' four blocks, and those in
/// the first word of 16 blocks.
macro_rules! blocks {
    ($name:ty: bytes $bytes:expr, bias $bias:expr, offsets $offsets:expr, $integers:expr, $scales:expr, $first:expr) => {
        impl Weights for $name {
            const VALUES: usize = 32;
            const WIDE: bool = true;
            const OFFSETS: bool = $offsets;
            const BIAS: u8 = $bias;
            const STEP_BYTES: usize = 4 * $bytes;
            const LANES: Option<LanesFn> = Some({
                #[inline]
                #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
                unsafe fn lanes(p: *const u8, stride: usize, to: Lanes) {
                    let far = 4 * stride;
                    // SAFETY: the caller's blocks.
                    unsafe {
                        let q = [
                            $integers(p, far, 4),
                            $integers(p.add(stride), far, 4),
                            $integers(p.add(2 * stride), far, 4),
                            $integers(p.add(3 * stride), far, 4),
                        ];
                        to.integers(0, 0, transposed([q[0].0, q[1].0, q[2].0, q[3].0]));
                        to.integers(0, 1, transposed([q[0].1, q[1].1, q[2].1, q[3].1]));
                        let (scale, offset) = $first(words(p, stride));
                        to.scale(0, 0, scale);
                        if $offsets {
                            to.offset(0, 0, offset);
                        }
                    }
                }
                lanes
            });
            type Head = ();

            fn of(_: &Gemm) -> Option<Self> {
                Some(Self)
            }

            #[inline(always)]
            unsafe fn head(&self, _: &RowPtrs, _: usize, _: usize) {}

            #[inline(always)]
            unsafe fn step(&self, rows: &RowPtrs, k: usize, half: usize, blocks: usize, _: &()) -> Step {
                let at = (k / 32 + 4 * half) * $bytes;
                // SAFETY: `blocks` blocks from `at` lie within each row.
                unsafe {
                    let p = [rows.data[0].add(at), rows.data[1].add(at), rows.data[2].add(at), rows.data[3].add(at)];
                    let q = [
                        $integers(p[0], $bytes, blocks),
                        $integers(p[1], $bytes, blocks),
                        $integers(p[2], $bytes, blocks),
                        $integers(p[3], $bytes, blocks),
                    ];
                    let (scale, offset) = $scales(p, blocks);
                    Step { q, scale: [scale; 2], offset: [offset; 2] }
                }
            }
        }
    };
}

blocks!(Q4_0: bytes 18, bias 8, offsets false, low_high::<2>, one_load::<9>, halves);
blocks!(Q4_1: bytes 20, bias 0, offsets true, low_high::<4>, one_load::<10>, halves);
blocks!(Q5_0: bytes 22, bias 16, offsets false, fifth_bits::<2>, two_loads::<11, 3, 12>, halves);
blocks!(Q5_1: bytes 24, bias 0, offsets true, fifth_bits::<4>, two_loads::<12, 3, 16>, halves);
blocks!(Q8_0: bytes 34, bias 128, offsets false, flipped, two_loads::<17, 2, 32>, halves);
blocks!(Iq4Nl: bytes 18, bias 128, offsets false, uneven_levels, one_load::<9>, halves);
blocks!(Mxfp4: bytes 17, bias 12, offsets false, float_levels, exponents, first_exponents);

/// Nibbles that start at byte `AT` of the block.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn low_high<const AT: usize>(p: *const u8, stride: usize, blocks: usize) -> (__m512i, __m512i) {
    // SAFETY: pieces of existing blocks.
    nibbles(unsafe { strided(p.add(AT), stride, blocks) })
}

/// Nibbles with a fifth bit: four bytes of bits at byte `AT`, then the nibbles.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn fifth_bits<const AT: usize>(p: *const u8, stride: usize, blocks: usize) -> (__m512i, __m512i) {
    // SAFETY: pieces and bits of existing blocks.
    let (lo, hi) = nibbles(unsafe { strided(p.add(AT + 4), stride, blocks) });
    // SAFETY: the same.
    let bits = |i: usize| unsafe { u64::from(p.add(AT + stride * i.min(blocks - 1)).cast::<u32>().read_unaligned()) };
    // Bit `i` of a block's 32 is value `i`: low words make the first register's mask.
    let words = |v: u64| v & 0xffff | v >> 16 & 0xffff_0000;
    let (a, b) = (bits(0) | bits(1) << 32, bits(2) | bits(3) << 32);
    let (first, second) = (words(a) | words(b) << 32, words(a >> 16) | words(b >> 16) << 32);
    let sixteen = _mm512_set1_epi8(16);
    (_mm512_mask_add_epi8(lo, first, lo, sixteen), _mm512_mask_add_epi8(hi, second, hi, sixteen))
}

/// Q8_0's bytes, 128 added.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn flipped(p: *const u8, stride: usize, blocks: usize) -> (__m512i, __m512i) {
    let flip = _mm512_set1_epi8(-128);
    // SAFETY: pieces of existing blocks.
    let (lo, hi) = unsafe { (strided(p.add(2), stride, blocks), strided(p.add(18), stride, blocks)) };
    (_mm512_xor_si512(lo, flip), _mm512_xor_si512(hi, flip))
}

/// IQ4_NL's levels.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn uneven_levels(p: *const u8, stride: usize, blocks: usize) -> (__m512i, __m512i) {
    // SAFETY: the same contract.
    levels(unsafe { low_high::<2>(p, stride, blocks) }, &IQ4_LEVELS)
}

/// MXFP4's levels.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn float_levels(p: *const u8, stride: usize, blocks: usize) -> (__m512i, __m512i) {
    // SAFETY: the same contract.
    levels(unsafe { low_high::<1>(p, stride, blocks) }, &FLOAT4_LEVELS)
}

/// Looks 4-bit codes up in a table.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn levels(codes: (__m512i, __m512i), table: &[u8; 16]) -> (__m512i, __m512i) {
    // SAFETY: the load is the table.
    let table = unsafe { broadcast(table.as_ptr()) };
    (_mm512_shuffle_epi8(table, codes.0), _mm512_shuffle_epi8(table, codes.1))
}

/// Scales and minima of blocks of `WORDS` 16-bit words: the first and the second word. A load from
/// the first block has those of all four.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn one_load<const WORDS: usize>(p: [*const u8; 4], blocks: usize) -> (__m512, __m512) {
    // SAFETY: the same contract.
    unsafe {
        let mut words = _mm512_setzero_si512();
        for (row, &p) in p.iter().enumerate() {
            words = scatter_words::<WORDS, 0, 0, 4>(words, p, row, blocks);
        }
        (low_f16(words), high_f16(words))
    }
}

/// The same, where one load has the first `HAS` blocks and another, from word `FROM`, the others.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn two_loads<const WORDS: usize, const HAS: usize, const FROM: usize>(
    p: [*const u8; 4],
    blocks: usize,
) -> (__m512, __m512) {
    // SAFETY: the same contract.
    unsafe {
        let mut words = _mm512_setzero_si512();
        for (row, &p) in p.iter().enumerate() {
            words = scatter_words::<WORDS, 0, 0, HAS>(words, p, row, blocks);
            words = scatter_words::<WORDS, FROM, HAS, 4>(words, p, row, blocks);
        }
        (low_f16(words), high_f16(words))
    }
}

/// Loads 64 bytes from word `FROM`, and puts the first words of blocks `FIRST..END` into words
/// `4 * block + row` of the low 256 bits, the second words into those of the high 256 bits.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn scatter_words<const WORDS: usize, const FROM: usize, const FIRST: usize, const END: usize>(
    into: __m512i,
    p: *const u8,
    row: usize,
    blocks: usize,
) -> __m512i {
    const fn index(words: usize, from: usize) -> [u16; 32] {
        let mut index = [0; 32];
        let mut i = 0;
        while i < 32 {
            index[i] = ((i / 4 % 4 * words + i / 16).wrapping_sub(from) & 31) as u16;
            i += 1;
        }
        index
    }
    const {
        assert!(FIRST * WORDS >= FROM && (END - 1) * WORDS + 1 < FROM + 32);
    }
    let lanes = 0x1111 & (block_lanes(END) ^ block_lanes(FIRST)) & block_lanes(blocks);
    let lanes = u32::from(lanes) << row;
    // SAFETY: the mask keeps the load within the blocks that exist.
    unsafe {
        let bytes = low_bits((2 * WORDS * blocks).saturating_sub(2 * FROM));
        let words = _mm512_maskz_loadu_epi8(bytes, p.wrapping_add(2 * FROM).cast());
        let index = _mm512_loadu_si512(const { &index(WORDS, FROM) }.as_ptr().cast());
        _mm512_mask_permutexvar_epi16(into, lanes | lanes << 16, index, words)
    }
}

/// Scales and minima: the low and the high halves of words.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn halves(words: __m512i) -> (__m512, __m512) {
    let float = |v| _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
    (float(words), float(_mm512_srli_epi32::<16>(words)))
}

/// MXFP4's scales in the low bytes of words.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn first_exponents(words: __m512i) -> (__m512, __m512) {
    (power(_mm512_and_si512(words, _mm512_set1_epi32(0xff))), _mm512_setzero_ps())
}

/// MXFP4's scales, where byte 0 of each 17-byte block is the exponent; and no offsets.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn exponents(p: [*const u8; 4], blocks: usize) -> (__m512, __m512) {
    // Byte `17 * i` is byte `i` of quarter `i`.
    let spots = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    let mut e = _mm512_setzero_si512();
    for (row, &p) in p.iter().enumerate() {
        // SAFETY: the mask keeps the load within the blocks that exist.
        let bytes = unsafe { _mm512_maskz_loadu_epi8(low_bits(17 * blocks), p.cast()) };
        e = _mm512_mask_shuffle_epi8(e, 0x0001_0001_0001_0001 << (4 * row), bytes, spots);
    }
    (_mm512_maskz_mov_ps(block_lanes(blocks), power(e)), _mm512_setzero_ps())
}

/// `2^(e - 128)`
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn power(e: __m512i) -> __m512 {
    let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
    let subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), e);
    let tiny = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
    _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, tiny, subnormal))
}
