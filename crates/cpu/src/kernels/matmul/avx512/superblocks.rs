//! Formats of 256-value superblocks: Q2_K to Q6_K and IQ4_XS.
//!
//! Half a superblock is a step. Integers come out as halves of blocks by shifting each quarter of a
//! register by its own amount. The small integer scales of four rows, 16 bytes a row, are ordered
//! per row into four planes (step and half, or step and kind), transposed so that plane `t` is
//! quarter `t` in lanes `4 * block + row`, and widened.

use super::blocks::{IQ4_LEVELS, level};
use super::{RowPtrs, Step, Weights, nibbles};
use crate::kernels::matmul::dots::Dots;
use std::arch::x86_64::*;

pub struct Q2K;
pub struct Q3K;
pub struct Q4K;
pub struct Q5K;
pub struct Q6K;
pub struct Iq4Xs;

/// Scales and offsets of a superblock: per step, then per half (one if wide).
#[derive(Clone, Copy)]
pub struct Scales {
    scale: [[__m512; 2]; 2],
    offset: [[__m512; 2]; 2],
}

macro_rules! superblocks {
    ($name:ty, bytes $bytes:expr, wide $wide:expr, bias $bias:expr, offsets $offsets:expr, $head:expr, $integers:expr) => {
        impl Weights for $name {
            const WIDE: bool = $wide;
            const OFFSETS: bool = $offsets;
            const BIAS: u8 = $bias;
            const STEP_BYTES: usize = $bytes / 2;
            type Head = Scales;

            fn of(_: &Dots) -> Option<Self> {
                Some(Self)
            }

            #[inline(always)]
            unsafe fn head(&self, rows: &RowPtrs, k: usize, _: usize) -> Scales {
                // SAFETY: a whole superblock lies within each row.
                unsafe { $head(rows.data.map(|p| p.add(k / 256 * $bytes))) }
            }

            #[inline(always)]
            unsafe fn step(&self, rows: &RowPtrs, k: usize, half: usize, _: usize, head: &Scales) -> Step {
                // SAFETY: a whole superblock lies within each row.
                unsafe {
                    let n = rows.data.map(|p| $integers(p.add(k / 256 * $bytes), half));
                    Step { lo: n.map(|n| n.0), hi: n.map(|n| n.1), scale: head.scale[half], offset: head.offset[half] }
                }
            }
        }
    };
}

superblocks!(Q2K, bytes 84, wide false, bias 0, offsets true,
    |p: [*const u8; 4]| {
        let z = planes(_mm512_shuffle_epi8(heads(p, 0), quarters(&EVEN_ODD)));
        let (scale, min) = nibbles(z);
        let d = _mm512_cvtph_ps(words(p, 80));
        let dmin = _mm512_cvtph_ps(words(p, 82));
        narrow(times(d, unsigned(scale)), Some(negated(times(dmin, unsigned(min)))))
    },
    |p: *const u8, half| two_bits(p.add(16 + 32 * half)));

superblocks!(Q3K, bytes 110, wide false, bias 4, offsets false,
|p: [*const u8; 4]| {
    // 16 bytes from byte 94: the 12 of scales are bytes 2..14 of the quarter.
    let head = heads(p, 94);
    let low = _mm512_shuffle_epi8(head, quarters(&[2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9]));
    let low = _mm512_srlv_epi32(low, _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 4, 4)));
    let high = _mm512_shuffle_epi8(head, quarters(&[10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13]));
    let high = _mm512_rolv_epi32(high, _mm512_broadcast_i32x4(_mm_setr_epi32(4, 2, 0, 30)));
    let scale = _mm512_sub_epi8(join(low, high), _mm512_set1_epi8(32));
    let d = _mm512_cvtph_ps(words(p, 108));
    narrow(times(d, signed(planes(_mm512_shuffle_epi8(scale, quarters(&EVEN_ODD))))), None)
},
|p: *const u8, half: usize| {
    let (lo, hi) = two_bits(p.add(32 + 32 * half));
    // Bit `4 * half + i` of the high bytes belongs to block `i`.
    let bit = |h: usize, v: __m512i| {
        let bits = _mm512_broadcast_i32x4(_mm_loadu_si128(p.add(16 * h).cast()));
        _mm512_mask_add_epi8(v, _mm512_test_epi8_mask(bits, block_bits(half)), v, _mm512_set1_epi8(4))
    };
    (bit(0, lo), bit(1, hi))
});

superblocks!(Q4K, bytes 144, wide true, bias 0, offsets true,
    six_bit_scales,
    |p: *const u8, half: usize| low_then_high(p.add(16 + 64 * half)));

superblocks!(Q5K, bytes 176, wide true, bias 0, offsets true,
six_bit_scales,
|p: *const u8, half: usize| {
    let (lo, hi) = low_then_high(p.add(48 + 64 * half));
    let bit = |h: usize, v: __m512i| {
        let bits = _mm512_broadcast_i32x4(_mm_loadu_si128(p.add(16 + 16 * h).cast()));
        _mm512_mask_add_epi8(v, _mm512_test_epi8_mask(bits, block_bits(half)), v, _mm512_set1_epi8(16))
    };
    (bit(0, lo), bit(1, hi))
});

superblocks!(Q6K, bytes 210, wide false, bias 32, offsets false,
|p: [*const u8; 4]| {
    let z = planes(_mm512_shuffle_epi8(heads(p, 192), quarters(&EVEN_ODD)));
    narrow(times(_mm512_cvtph_ps(words(p, 208)), signed(z)), None)
},
|p: *const u8, half: usize| {
    // Blocks 0 and 1 have the low nibbles of the first and second 32 bytes, 2 and 3 the high ones.
    let z = _mm512_loadu_si512(p.add(64 * half).cast());
    let shift = _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4);
    let high = |h: usize| {
        let bits = _mm512_broadcast_i32x4(_mm_loadu_si128(p.add(128 + 32 * half + 16 * h).cast()));
        _mm512_rolv_epi64(bits, _mm512_setr_epi64(4, 4, 2, 2, 0, 0, 62, 62))
    };
    let lo = _mm512_srlv_epi64(_mm512_shuffle_i32x4::<0b10_00_10_00>(z, z), shift);
    let hi = _mm512_srlv_epi64(_mm512_shuffle_i32x4::<0b11_01_11_01>(z, z), shift);
    (join(lo, high(0)), join(hi, high(1)))
});

superblocks!(Iq4Xs, bytes 136, wide true, bias 128, offsets false,
|p: [*const u8; 4]| {
    // Bytes 4..8 are the low nibbles of the 8 scales, bytes 2 and 3 their high bit pairs.
    let head = heads(p, 0);
    let z = _mm512_shuffle_epi8(head, quarters(&[4, 4, 5, 5, 6, 6, 7, 7, 2, 2, 2, 2, 3, 3, 3, 3]));
    let (even, odd) = nibbles(z);
    let low = _mm512_mask_mov_epi8(even, 0xaaaa_aaaa_aaaa_aaaa, odd);
    let low = unsigned_two(planes(low));
    let pairs = planes(z);
    let shift = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
    let d = _mm512_cvtph_ps(words(p, 0));
    let scale = [_mm512_extracti32x4_epi32::<2>(pairs), _mm512_extracti32x4_epi32::<3>(pairs)].map(|pairs| {
        let pairs = _mm512_srlv_epi32(_mm512_cvtepu8_epi32(pairs), shift);
        _mm512_slli_epi32::<4>(_mm512_and_si512(pairs, _mm512_set1_epi32(3)))
    });
    let scale: [__m512; 2] = std::array::from_fn(|t| {
        let scale = _mm512_sub_epi32(_mm512_or_si512(low[t], scale[t]), _mm512_set1_epi32(32));
        _mm512_mul_ps(d, _mm512_cvtepi32_ps(scale))
    });
    let zero = _mm512_setzero_ps();
    Scales { scale: scale.map(|s| [s, zero]), offset: [[zero; 2]; 2] }
},
|p: *const u8, half: usize| {
    let (lo, hi) = nibbles(_mm512_loadu_si512(p.add(8 + 64 * half).cast()));
    (level(lo, &IQ4_LEVELS), level(hi, &IQ4_LEVELS))
});

/// Scales 0, 2, 4, 6 and 1, 3, 5, 7, then the same of the second eight: first and second halves of
/// the blocks of each step.
const EVEN_ODD: [u8; 16] = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15];

/// The same 16 bytes in every quarter.
#[inline(always)]
unsafe fn quarters(bytes: &[u8; 16]) -> __m512i {
    // SAFETY: the load is the array.
    unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(bytes.as_ptr().cast())) }
}

/// 16 bytes of each row, a row to a quarter.
#[inline(always)]
unsafe fn heads(p: [*const u8; 4], at: usize) -> __m512i {
    // SAFETY: the caller's blocks have these bytes.
    unsafe {
        let row = |r: usize| _mm_loadu_si128(p[r].add(at).cast());
        let z = _mm512_castsi128_si512(row(0));
        let z = _mm512_inserti32x4::<1>(z, row(1));
        let z = _mm512_inserti32x4::<2>(z, row(2));
        _mm512_inserti32x4::<3>(z, row(3))
    }
}

/// The 16-bit word of each row at byte `at`, four times.
#[inline(always)]
unsafe fn words(p: [*const u8; 4], at: usize) -> __m256i {
    // SAFETY: the caller's blocks have these bytes.
    unsafe {
        let w = p.map(|p| u64::from(p.add(at).cast::<u16>().read_unaligned()));
        _mm256_set1_epi64x((w[0] | w[1] << 16 | w[2] << 32 | w[3] << 48) as i64)
    }
}

/// From plane `t` in 32-bit lane `t` of each row's quarter to plane `t` in quarter `t`, where byte
/// `4 * block + row` belongs to that block and row.
#[inline(always)]
unsafe fn planes(z: __m512i) -> __m512i {
    // SAFETY: registers only.
    unsafe {
        let gather = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let transpose = quarters(&[0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]);
        _mm512_shuffle_epi8(_mm512_permutexvar_epi32(gather, z), transpose)
    }
}

#[inline(always)]
unsafe fn each_quarter(z: __m512i) -> [__m128i; 4] {
    // SAFETY: registers only.
    unsafe {
        [
            _mm512_castsi512_si128(z),
            _mm512_extracti32x4_epi32::<1>(z),
            _mm512_extracti32x4_epi32::<2>(z),
            _mm512_extracti32x4_epi32::<3>(z),
        ]
    }
}

/// Planes of unsigned bytes as integers.
#[inline(always)]
unsafe fn unsigned(z: __m512i) -> [__m512i; 4] {
    // SAFETY: registers only.
    unsafe { each_quarter(z).map(|q| _mm512_cvtepu8_epi32(q)) }
}

/// The first two planes of unsigned bytes.
#[inline(always)]
unsafe fn unsigned_two(z: __m512i) -> [__m512i; 2] {
    // SAFETY: registers only.
    unsafe {
        [_mm512_cvtepu8_epi32(_mm512_castsi512_si128(z)), _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32::<1>(z))]
    }
}

/// Planes of signed bytes as integers.
#[inline(always)]
unsafe fn signed(z: __m512i) -> [__m512i; 4] {
    // SAFETY: registers only.
    unsafe { each_quarter(z).map(|q| _mm512_cvtepi8_epi32(q)) }
}

/// `d` times each plane of integers; the products are exact.
#[inline(always)]
unsafe fn times(d: __m512, v: [__m512i; 4]) -> [__m512; 4] {
    // SAFETY: registers only.
    unsafe { v.map(|v| _mm512_mul_ps(d, _mm512_cvtepi32_ps(v))) }
}

#[inline(always)]
unsafe fn negated(v: [__m512; 4]) -> [__m512; 4] {
    // SAFETY: registers only.
    unsafe { v.map(|v| _mm512_xor_ps(v, _mm512_set1_ps(-0.0))) }
}

/// Planes as steps and halves.
#[inline(always)]
unsafe fn narrow(scale: [__m512; 4], offset: Option<[__m512; 4]>) -> Scales {
    // SAFETY: registers only.
    let offset = offset.unwrap_or_else(|| [unsafe { _mm512_setzero_ps() }; 4]);
    let halves = |v: [__m512; 4]| [[v[0], v[1]], [v[2], v[3]]];
    Scales { scale: halves(scale), offset: halves(offset) }
}

/// Low four bits of one, bits 4 and 5 of the other.
#[inline(always)]
unsafe fn join(low: __m512i, high: __m512i) -> __m512i {
    // SAFETY: registers only.
    unsafe {
        let high = _mm512_and_si512(high, _mm512_set1_epi8(0x30));
        // (low & mask) | high
        _mm512_ternarylogic_epi32::<0xf8>(high, low, _mm512_set1_epi8(15))
    }
}

/// Bit `4 * half + i` in every byte of quarter `i`.
#[inline(always)]
unsafe fn block_bits(half: usize) -> __m512i {
    const BITS: [[u8; 64]; 2] = {
        let mut bits = [[0; 64]; 2];
        let mut i = 0;
        while i < 64 {
            bits[0][i] = 1 << (i / 16);
            bits[1][i] = 16 << (i / 16);
            i += 1;
        }
        bits
    };
    // SAFETY: the load is the array.
    unsafe { _mm512_loadu_si512(BITS[half].as_ptr().cast()) }
}

/// Q2_K's 32 bytes of 128 values: block `i` is bits `2i` and `2i + 1`.
#[inline(always)]
unsafe fn two_bits(p: *const u8) -> (__m512i, __m512i) {
    // SAFETY: 32 readable bytes.
    unsafe {
        let half = |h: usize| {
            let bits = _mm512_broadcast_i32x4(_mm_loadu_si128(p.add(16 * h).cast()));
            let bits = _mm512_srlv_epi64(bits, _mm512_setr_epi64(0, 0, 2, 2, 4, 4, 6, 6));
            _mm512_and_si512(bits, _mm512_set1_epi8(3))
        };
        (half(0), half(1))
    }
}

/// Q4_K's 64 bytes of 128 values: 32 bytes have one block in the low nibbles, the next in the high.
#[inline(always)]
unsafe fn low_then_high(p: *const u8) -> (__m512i, __m512i) {
    // SAFETY: 64 readable bytes.
    unsafe {
        let z = _mm512_loadu_si512(p.cast());
        let shift = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
        let mask = _mm512_set1_epi8(15);
        let lo = _mm512_srlv_epi64(_mm512_shuffle_i32x4::<0b10_10_00_00>(z, z), shift);
        let hi = _mm512_srlv_epi64(_mm512_shuffle_i32x4::<0b11_11_01_01>(z, z), shift);
        (_mm512_and_si512(lo, mask), _mm512_and_si512(hi, mask))
    }
}

/// The scales and minima of Q4_K and Q5_K: 6 bits each, in bytes 4..16 after `d` and `dmin`.
#[inline(always)]
unsafe fn six_bit_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: 16 readable bytes per row.
    unsafe {
        let head = heads(p, 0);
        // Planes: scales of step 0 and 1, minima of step 0 and 1. Those of step 1 have their low
        // nibbles together and their top two bits above the six of step 0.
        let low = _mm512_shuffle_epi8(head, quarters(&[4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15]));
        let low = _mm512_srlv_epi32(low, _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0, 4)));
        let mask = _mm512_broadcast_i32x4(_mm_setr_epi32(0x3f3f_3f3f, 0x0f0f_0f0f, 0x3f3f_3f3f, 0x0f0f_0f0f));
        let top = _mm512_srli_epi32::<2>(_mm512_shuffle_epi8(
            head,
            quarters(&[128, 128, 128, 128, 4, 5, 6, 7, 128, 128, 128, 128, 8, 9, 10, 11]),
        ));
        let top = _mm512_and_si512(top, _mm512_set1_epi8(0x30));
        let v = unsigned(planes(_mm512_ternarylogic_epi32::<0xf8>(top, low, mask)));
        let d = _mm512_cvtph_ps(words(p, 0));
        let dmin = _mm512_xor_ps(_mm512_cvtph_ps(words(p, 2)), _mm512_set1_ps(-0.0));
        let zero = _mm512_setzero_ps();
        let product = |d, v| [_mm512_mul_ps(d, _mm512_cvtepi32_ps(v)), zero];
        Scales { scale: [product(d, v[0]), product(d, v[1])], offset: [product(dmin, v[2]), product(dmin, v[3])] }
    }
}
