//! Formats of 256-value superblocks: Q2_K to Q6_K and IQ4_XS.
//!
//! Half a superblock is a step. Integers come out as halves of blocks by shifting each quarter of a
//! register by its own amount. The small integer scales of four rows, 16 bytes a row, are ordered
//! per row into four planes (step and half, or kind and step), transposed so that plane `t` is
//! quarter `t` in lanes `4 * block + row`, and widened.

use super::blocks::{IQ4_LEVELS, halves as f16_halves, levels};
use super::{Lanes, LanesFn, Step, Weights, broadcast, nibbles, quarters, strided, transposed, words};
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
    pub(super) scale: [[__m512; 2]; 2],
    pub(super) offset: [[__m512; 2]; 2],
}

/// A format by the scales of four rows' superblocks and the integers of half a row's; perhaps with a faster way for 16 rows.
macro_rules! superblocks {
    (
        $name:ty: bytes $bytes:expr, wide $wide:expr, bias $bias:expr, offsets $offsets:expr,
        $scales:expr, $integers:expr $(, lanes $lanes:expr)?
    ) => {
        impl Weights for $name {
            const VALUES: usize = 256;
            const WIDE: bool = $wide;
            const OFFSETS: bool = $offsets;
            const BIAS: u8 = $bias;
            const STEP_BYTES: usize = $bytes / 2;
            $(const LANES: Option<LanesFn> = Some($lanes);)?
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
            unsafe fn step(&self, rows: &RowPtrs, k: usize, half: usize, _: usize, head: &Scales) -> Step {
                let (at, p) = (k / 256 * $bytes, &rows.data);
                // SAFETY: a whole superblock lies within each row.
                unsafe {
                    let q = [
                        $integers(p[0].add(at), half),
                        $integers(p[1].add(at), half),
                        $integers(p[2].add(at), half),
                        $integers(p[3].add(at), half),
                    ];
                    Step { q, scale: head.scale[half], offset: head.offset[half] }
                }
            }
        }
    };
}
pub(super) use superblocks;

superblocks!(Q2K: bytes 84, wide false, bias 0, offsets true, q2_scales, q2_integers);
superblocks!(Q3K: bytes 110, wide false, bias 4, offsets false, q3_scales, q3_integers);
superblocks!(Q4K: bytes 144, wide true, bias 0, offsets true, q45_scales, q4_integers);
superblocks!(Q5K: bytes 176, wide true, bias 0, offsets true, q45_scales, q5_integers);
superblocks!(Q6K: bytes 210, wide false, bias 32, offsets false, q6_scales, q6_integers, lanes q6_lanes);
superblocks!(Iq4Xs: bytes 136, wide true, bias 128, offsets false, iq4_scales, iq4_integers);

/// Bytes: 16 of scales (low nibbles) and minima, 64 of integers, `d`, `dmin`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q2_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (head, d, dmin) = unsafe { (heads(p, 0), f16s(p, 80), f16s(p, 82)) };
    let (scale, min) = nibbles(halves(head));
    let scale = unsigned(scale).map(|v| product(d, v));
    let offset = unsigned(min).map(|v| product(negated(dmin), v));
    Scales { scale: steps(scale), offset: steps(offset) }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q2_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    unsafe { two_bits(p.add(16 + 32 * half)) }
}

/// Bytes: 32 of third bits, 64 of low bits as in Q2_K, 12 of scales, `d`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q3_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks. Of these 16 the scales are bytes 2..14.
    let (head, d) = unsafe { (heads(p, 94), f16s(p, 108)) };
    let low = _mm512_shuffle_epi8(head, every(&[2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9]));
    let low = _mm512_srlv_epi32(low, every_lane([0, 0, 4, 4]));
    let high = _mm512_shuffle_epi8(head, every(&[10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13]));
    let high = _mm512_rolv_epi32(high, every_lane([4, 2, 0, 30]));
    let scale = _mm512_sub_epi8(join(low, high), _mm512_set1_epi8(32));
    let scale = signed(halves(scale)).map(|v| product(d, v));
    Scales { scale: steps(scale), offset: [[_mm512_setzero_ps(); 2]; 2] }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q3_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    unsafe { add_bit::<4>(two_bits(p.add(32 + 32 * half)), p, half) }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q4_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    unsafe { low_then_high(p.add(16 + 64 * half)) }
}

/// Bytes: 16 of scales as in Q4_K, 32 of fifth bits, 128 of low nibbles as in Q4_K.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q5_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    unsafe { add_bit::<16>(low_then_high(p.add(48 + 64 * half)), p.add(16), half) }
}

/// Bytes: 128 of low nibbles, 64 of high bit pairs, 16 of scales, `d`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q6_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (head, d) = unsafe { (heads(p, 192), f16s(p, 208)) };
    let scale = signed(halves(head)).map(|v| product(d, v));
    Scales { scale: steps(scale), offset: [[_mm512_setzero_ps(); 2]; 2] }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q6_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    let (z, first, second) = unsafe {
        let high = p.add(128 + 32 * half);
        (_mm512_loadu_si512(p.add(64 * half).cast()), broadcast(high), broadcast(high.add(16)))
    };
    // Blocks 0 and 1 have the low nibbles of the first and second 32 bytes, 2 and 3 the high ones;
    // block `i` has bits `2i` and `2i + 1` of the high bytes.
    let shift = _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4);
    let turn = _mm512_setr_epi64(4, 4, 2, 2, 0, 0, 62, 62);
    let lo = _mm512_srlv_epi64(_mm512_shuffle_i32x4::<0b10_00_10_00>(z, z), shift);
    let hi = _mm512_srlv_epi64(_mm512_shuffle_i32x4::<0b11_01_11_01>(z, z), shift);
    (join(lo, _mm512_rolv_epi64(first, turn)), join(hi, _mm512_rolv_epi64(second, turn)))
}

/// The superblocks of 16 rows; see [`q6_integers`] for what is where.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q6_lanes(p: *const u8, stride: usize, to: Lanes) {
    // Four of the 16 bytes at `byte`, of every row in its lane.
    let four = |byte: usize| {
        // SAFETY: bytes of the superblocks.
        let row = |r: usize| unsafe { strided(p.add(byte + r * stride), 4 * stride, 4) };
        transposed([row(0), row(1), row(2), row(3)])
    };
    // SAFETY: the last four bytes of the superblocks.
    let (_, d) = f16_halves(unsafe { words(p.add(206), stride) });
    let scales = four(192);
    for step in 0..2 {
        let low = [four(64 * step), four(64 * step + 16), four(64 * step + 32), four(64 * step + 48)];
        let high = [four(128 + 32 * step), four(144 + 32 * step)];
        // SAFETY: the blocks of a superblock.
        unsafe {
            q6_block::<0>([low[0], low[1]], high, scales[2 * step], d, to, step);
            q6_block::<1>([low[2], low[3]], high, scales[2 * step], d, to, step);
            q6_block::<2>([low[0], low[1]], high, scales[2 * step + 1], d, to, step);
            q6_block::<3>([low[2], low[3]], high, scales[2 * step + 1], d, to, step);
        }
    }
}

/// Block `BLOCK` of a step of 16 rows, of whose bytes there are four in each register, both halves' low and high bits.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q6_block<const BLOCK: usize>(
    low: [[__m512i; 4]; 2],
    high: [[__m512i; 4]; 2],
    scales: __m512i,
    d: __m512,
    to: Lanes,
    step: usize,
) {
    let at = 4 * step + BLOCK;
    let integers = |low, high| match BLOCK {
        0 => join(low, _mm512_slli_epi16::<4>(high)),
        1 => join(low, _mm512_slli_epi16::<2>(high)),
        2 => join(_mm512_srli_epi16::<4>(low), high),
        _ => join(_mm512_srli_epi16::<4>(low), _mm512_srli_epi16::<2>(high)),
    };
    // Two of the four bytes, as the top byte.
    let scales = if BLOCK.is_multiple_of(2) { _mm512_slli_epi32::<16>(scales) } else { scales };
    let scales = [_mm512_slli_epi32::<8>(scales), scales];
    for half in 0..2 {
        let (l, h) = (low[half], high[half]);
        let v = [integers(l[0], h[0]), integers(l[1], h[1]), integers(l[2], h[2]), integers(l[3], h[3])];
        // SAFETY: the caller's block.
        unsafe {
            to.integers(at, half, v);
            to.scale(at, half, product(d, _mm512_srai_epi32::<24>(scales[half])));
        }
    }
}

/// Bytes: `d`, two of the scales' high bit pairs, four of their low nibbles, 128 of nibbles.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq4_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (head, d) = unsafe { (heads(p, 0), f16s(p, 0)) };
    // Planes: low nibbles of both steps, each byte twice; high pairs of both steps, four times.
    let z = _mm512_shuffle_epi8(head, every(&[4, 4, 5, 5, 6, 6, 7, 7, 2, 2, 2, 2, 3, 3, 3, 3]));
    let (even, odd) = nibbles(z);
    let low = _mm512_mask_mov_epi8(even, 0xaaaa_aaaa_aaaa_aaaa, odd);
    let v = unsigned(planes(_mm512_mask_mov_epi32(z, 0x3333, low)));
    let shift = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
    let scale = [(v[0], v[2]), (v[1], v[3])].map(|(low, pairs)| {
        let high = _mm512_and_si512(_mm512_srlv_epi32(pairs, shift), _mm512_set1_epi32(3));
        let scale = _mm512_or_si512(low, _mm512_slli_epi32::<4>(high));
        [product(d, _mm512_sub_epi32(scale, _mm512_set1_epi32(32))); 2]
    });
    Scales { scale, offset: [[_mm512_setzero_ps(); 2]; 2] }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq4_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    levels(nibbles(unsafe { _mm512_loadu_si512(p.add(8 + 64 * half).cast()) }), &IQ4_LEVELS)
}

/// Q4_K and Q5_K. Bytes: `d`, `dmin`, 12 of scales and minima.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn q45_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (head, d, dmin) = unsafe { (heads(p, 0), f16s(p, 0), f16s(p, 2)) };
    // Planes: scales of both steps, minima of both steps. Those of the second step have their low
    // nibbles together and their top two bits above the six of the first step.
    let low = _mm512_shuffle_epi8(head, every(&[4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15]));
    let low = _mm512_srlv_epi32(low, every_lane([0, 0, 0, 4]));
    let mask = every_lane([0x3f3f_3f3f, 0x0f0f_0f0f, 0x3f3f_3f3f, 0x0f0f_0f0f]);
    let top = every(&[128, 128, 128, 128, 4, 5, 6, 7, 128, 128, 128, 128, 8, 9, 10, 11]);
    let top = _mm512_srli_epi32::<2>(_mm512_shuffle_epi8(head, top));
    let v = unsigned(planes(masked_or(_mm512_and_si512(top, _mm512_set1_epi8(0x30)), low, mask)));
    let scale = [v[0], v[1]].map(|v| [product(d, v); 2]);
    let offset = [v[2], v[3]].map(|v| [product(negated(dmin), v); 2]);
    Scales { scale, offset }
}

/// The same 16 bytes in every quarter.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn every(bytes: &[u8; 16]) -> __m512i {
    // SAFETY: the load is the array.
    unsafe { broadcast(bytes.as_ptr()) }
}

/// The same four lanes in every quarter.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn every_lane(v: [i32; 4]) -> __m512i {
    _mm512_broadcast_i32x4(_mm_setr_epi32(v[0], v[1], v[2], v[3]))
}

/// 16 bytes of each row, a row to a quarter.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn heads(p: [*const u8; 4], at: usize) -> __m512i {
    // SAFETY: the caller's blocks have these bytes.
    quarters(p.map(|p| unsafe { _mm_loadu_si128(p.add(at).cast()) }))
}

/// The f16 of each row at byte `at`, in every lane of that row.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn f16s(p: [*const u8; 4], at: usize) -> __m512 {
    // SAFETY: the caller's blocks have these bytes.
    let w = p.map(|p| u64::from(unsafe { p.add(at).cast::<u16>().read_unaligned() }));
    _mm512_cvtph_ps(_mm256_set1_epi64x((w[0] | w[1] << 16 | w[2] << 32 | w[3] << 48) as i64))
}

/// From plane `t` in 32-bit lane `t` of each row's quarter to plane `t` in quarter `t`, where byte
/// `4 * block + row` belongs to that block and row.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn planes(z: __m512i) -> __m512i {
    let gather = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let transpose = every(&[0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]);
    _mm512_shuffle_epi8(_mm512_permutexvar_epi32(gather, z), transpose)
}

/// Planes of 16 scales a row in order: first and second halves of the blocks of either step.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn halves(z: __m512i) -> __m512i {
    planes(_mm512_shuffle_epi8(z, every(&[0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15])))
}

/// Planes of halves as steps and halves.
#[inline(always)]
pub(super) fn steps(v: [__m512; 4]) -> [[__m512; 2]; 2] {
    [[v[0], v[1]], [v[2], v[3]]]
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn each_quarter(z: __m512i) -> [__m128i; 4] {
    [
        _mm512_castsi512_si128(z),
        _mm512_extracti32x4_epi32::<1>(z),
        _mm512_extracti32x4_epi32::<2>(z),
        _mm512_extracti32x4_epi32::<3>(z),
    ]
}

/// Planes of unsigned bytes as integers.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn unsigned(z: __m512i) -> [__m512i; 4] {
    each_quarter(z).map(|q| _mm512_cvtepu8_epi32(q))
}

/// Planes of signed bytes as integers.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn signed(z: __m512i) -> [__m512i; 4] {
    each_quarter(z).map(|q| _mm512_cvtepi8_epi32(q))
}

/// An f16 times a small integer: exact.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
pub(super) fn product(d: __m512, v: __m512i) -> __m512 {
    _mm512_mul_ps(d, _mm512_cvtepi32_ps(v))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
pub(super) fn negated(v: __m512) -> __m512 {
    _mm512_xor_ps(v, _mm512_set1_ps(-0.0))
}

/// `a | (b & mask)`
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
pub(super) fn masked_or(a: __m512i, b: __m512i, mask: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0xf8>(a, b, mask)
}

/// Low four bits of one, bits 4 and 5 of the other.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
pub(super) fn join(low: __m512i, high: __m512i) -> __m512i {
    masked_or(_mm512_and_si512(high, _mm512_set1_epi8(0x30)), low, _mm512_set1_epi8(15))
}

/// Adds `BIT` where bit `4 * half + block` of the 32 bytes at `p` is set.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn add_bit<const BIT: i8>(q: (__m512i, __m512i), p: *const u8, half: usize) -> (__m512i, __m512i) {
    let bytes = |b: i64| b << (4 * half);
    let (a, b) = (bytes(0x0101_0101_0101_0101), bytes(0x0202_0202_0202_0202));
    let (c, d) = (bytes(0x0404_0404_0404_0404), bytes(0x0808_0808_0808_0808));
    let which = _mm512_setr_epi64(a, a, b, b, c, c, d, d);
    let bit = _mm512_set1_epi8(BIT);
    // SAFETY: 32 readable bytes.
    let (first, second) = unsafe { (broadcast(p), broadcast(p.add(16))) };
    (
        _mm512_mask_add_epi8(q.0, _mm512_test_epi8_mask(first, which), q.0, bit),
        _mm512_mask_add_epi8(q.1, _mm512_test_epi8_mask(second, which), q.1, bit),
    )
}

/// Q2_K's 32 bytes of 128 values: block `i` is bits `2i` and `2i + 1`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn two_bits(p: *const u8) -> (__m512i, __m512i) {
    // SAFETY: 32 readable bytes.
    let (first, second) = unsafe { (broadcast(p), broadcast(p.add(16))) };
    let shift = _mm512_setr_epi64(0, 0, 2, 2, 4, 4, 6, 6);
    let mask = _mm512_set1_epi8(3);
    let bits = |v| _mm512_and_si512(_mm512_srlv_epi64(v, shift), mask);
    (bits(first), bits(second))
}

/// Q4_K's 64 bytes of 128 values: 32 bytes have one block in the low nibbles, the next in the high.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn low_then_high(p: *const u8) -> (__m512i, __m512i) {
    // SAFETY: 64 readable bytes.
    let z = unsafe { _mm512_loadu_si512(p.cast()) };
    let shift = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
    let mask = _mm512_set1_epi8(15);
    let lo = _mm512_srlv_epi64(_mm512_shuffle_i32x4::<0b10_10_00_00>(z, z), shift);
    let hi = _mm512_srlv_epi64(_mm512_shuffle_i32x4::<0b11_11_01_01>(z, z), shift);
    (_mm512_and_si512(lo, mask), _mm512_and_si512(hi, mask))
}
