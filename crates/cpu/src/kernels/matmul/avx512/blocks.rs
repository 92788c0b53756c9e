//! Formats of 32-value blocks: f16 scale (and minimum), perhaps fifth bits, then nibbles or bytes.
//!
//! A block's low nibbles are its first half and its high nibbles its second, so four 16-byte
//! pieces make the two registers of a step. Q4_0, Q5_0 and Q8_0 keep their integers unsigned, and
//! the bias (8, 16, 128) comes off the activations' side.

use super::{RowPtrs, Step, Weights, block_lanes, high_f16, low_bits, low_f16, nibbles, pieces, scatter_words};
use crate::kernels::matmul::dots::Dots;
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

macro_rules! blocks {
    ($name:ty, bytes $bytes:expr, bias $bias:expr, offsets $offsets:expr, $step:expr) => {
        impl Weights for $name {
            const WIDE: bool = true;
            const OFFSETS: bool = $offsets;
            const BIAS: u8 = $bias;
            const STEP_BYTES: usize = 4 * $bytes;
            type Head = ();

            fn of(_: &Dots) -> Option<Self> {
                Some(Self)
            }

            #[inline(always)]
            unsafe fn head(&self, _: &RowPtrs, _: usize, _: usize) {}

            #[inline(always)]
            unsafe fn step(&self, rows: &RowPtrs, k: usize, half: usize, blocks: usize, _: &()) -> Step {
                let at = (k / 32 + 4 * half) * $bytes;
                // SAFETY: `blocks` blocks from `at` lie within each row.
                unsafe {
                    let p = rows.data.map(|p| p.add(at));
                    $step(p, blocks)
                }
            }
        }
    };
}

blocks!(Q4_0, bytes 18, bias 8, offsets false, |p: [*const u8; 4], blocks| {
    let (lo, hi) = low_high::<18, 2>(p, blocks);
    step(lo, hi, low_f16(words::<9, 0>(p, blocks)))
});
blocks!(Q4_1, bytes 20, bias 0, offsets true, |p: [*const u8; 4], blocks| {
    let (lo, hi) = low_high::<20, 4>(p, blocks);
    affine(lo, hi, words::<10, 0>(p, blocks))
});
blocks!(Q5_0, bytes 22, bias 16, offsets false, |p: [*const u8; 4], blocks| {
    let (lo, hi) = fifth_bits::<22, 2>(p, blocks);
    step(lo, hi, low_f16(words::<11, 12>(p, blocks)))
});
blocks!(Q5_1, bytes 24, bias 0, offsets true, |p: [*const u8; 4], blocks| {
    let (lo, hi) = fifth_bits::<24, 4>(p, blocks);
    affine(lo, hi, words::<12, 16>(p, blocks))
});
blocks!(Q8_0, bytes 34, bias 128, offsets false, |p: [*const u8; 4], blocks| {
    let flip = _mm512_set1_epi8(-128);
    let half = |at: usize| p.map(|p| _mm512_xor_si512(pieces(p.add(at), 34, blocks), flip));
    step(half(2), half(18), low_f16(words::<17, 32>(p, blocks)))
});
blocks!(Iq4Nl, bytes 18, bias 128, offsets false, |p: [*const u8; 4], blocks| {
    let (lo, hi) = low_high::<18, 2>(p, blocks);
    let levels = |v: __m512i| level(v, &IQ4_LEVELS);
    step(lo.map(levels), hi.map(levels), low_f16(words::<9, 0>(p, blocks)))
});
blocks!(Mxfp4, bytes 17, bias 12, offsets false, |p: [*const u8; 4], blocks| {
    let (lo, hi) = low_high::<17, 1>(p, blocks);
    let levels = |v: __m512i| level(v, &FLOAT4_LEVELS);
    step(lo.map(levels), hi.map(levels), exponents(p, blocks))
});

#[inline(always)]
unsafe fn step(lo: [__m512i; 4], hi: [__m512i; 4], scale: __m512) -> Step {
    // SAFETY: registers only.
    let zero = unsafe { _mm512_setzero_ps() };
    Step { lo, hi, scale: [scale, zero], offset: [zero; 2] }
}

/// `words` has scales below and minima above.
#[inline(always)]
unsafe fn affine(lo: [__m512i; 4], hi: [__m512i; 4], words: __m512i) -> Step {
    // SAFETY: registers only.
    unsafe {
        let zero = _mm512_setzero_ps();
        Step { lo, hi, scale: [low_f16(words), zero], offset: [high_f16(words), zero] }
    }
}

/// The first and second f16 of blocks of `WORDS` words, in lanes `4 * block + row` of the low and
/// the high 256 bits. Where one load does not reach all four blocks, a second starts at word `SECOND`.
#[inline(always)]
unsafe fn words<const WORDS: usize, const SECOND: usize>(p: [*const u8; 4], blocks: usize) -> __m512i {
    // SAFETY: as asked of `scatter_words`.
    unsafe {
        let mut words = _mm512_setzero_si512();
        for (row, &p) in p.iter().enumerate() {
            words = scatter_words::<WORDS, 0, 0>(words, p, row, blocks);
            words = match SECOND {
                0 => words,
                // Q8_0's first load has two blocks, the others' three.
                32 => scatter_words::<WORDS, SECOND, 2>(words, p, row, blocks),
                _ => scatter_words::<WORDS, SECOND, 3>(words, p, row, blocks),
            };
        }
        words
    }
}

/// Nibbles of blocks of `BYTES` bytes that start at byte `AT` of the block.
#[inline(always)]
unsafe fn low_high<const BYTES: usize, const AT: usize>(
    p: [*const u8; 4],
    blocks: usize,
) -> ([__m512i; 4], [__m512i; 4]) {
    // SAFETY: pieces of existing blocks.
    let n = unsafe { p.map(|p| nibbles(pieces(p.add(AT), BYTES, blocks))) };
    (n.map(|n| n.0), n.map(|n| n.1))
}

/// Nibbles with a fifth bit: four bytes of bits at byte `AT`, then the nibbles.
#[inline(always)]
unsafe fn fifth_bits<const BYTES: usize, const AT: usize>(
    p: [*const u8; 4],
    blocks: usize,
) -> ([__m512i; 4], [__m512i; 4]) {
    // SAFETY: pieces and bits of existing blocks.
    unsafe {
        let sixteen = _mm512_set1_epi8(16);
        let n = p.map(|p| {
            let (lo, hi) = nibbles(pieces(p.add(AT + 4), BYTES, blocks));
            // Bit `i` of a block's 32 is value `i`: low halves make the first register's mask.
            let bits = |i: usize| p.add(AT + BYTES * i.min(blocks - 1)).cast::<u32>().read_unaligned() as u64;
            let (a, b) = (bits(0) | bits(1) << 32, bits(2) | bits(3) << 32);
            let (first, second) =
                (even_words(a) | even_words(b) << 32, even_words(a >> 16) | even_words(b >> 16) << 32);
            (_mm512_mask_add_epi8(lo, first, lo, sixteen), _mm512_mask_add_epi8(hi, second, hi, sixteen))
        });
        (n.map(|n| n.0), n.map(|n| n.1))
    }
}

/// Words 0 and 2 of four, side by side.
#[inline(always)]
fn even_words(v: u64) -> u64 {
    v & 0xffff | v >> 16 & 0xffff_0000
}

/// Looks 4-bit codes up in a table.
#[inline(always)]
pub(super) unsafe fn level(codes: __m512i, table: &[u8; 16]) -> __m512i {
    // SAFETY: the load is the table.
    unsafe { _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())), codes) }
}

/// MXFP4's scales, `2^(e - 128)`, where byte 0 of each 17-byte block is `e`.
#[inline(always)]
unsafe fn exponents(p: [*const u8; 4], blocks: usize) -> __m512 {
    // SAFETY: the masked load stays within the blocks that exist.
    unsafe {
        // Byte `17 * i` is byte `i` of quarter `i`.
        let spots = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
        let mut e = _mm512_setzero_si512();
        for (row, &p) in p.iter().enumerate() {
            let bytes = _mm512_maskz_loadu_epi8(low_bits(17 * blocks), p.cast());
            e = _mm512_mask_shuffle_epi8(e, 0x0001_0001_0001_0001 << (4 * row), bytes, spots);
        }
        let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
        let subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), e);
        let tiny = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
        let scale = _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, tiny, subnormal));
        _mm512_maskz_mov_ps(block_lanes(blocks), scale)
    }
}
