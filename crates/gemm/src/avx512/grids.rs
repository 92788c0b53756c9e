//! The IQ formats of tuples from a grid: IQ1_S to IQ3_S.
//!
//! 64 values, two blocks, are eight tuples of eight values or sixteen of four, which one gather
//! fetches. Signs are bits, one per value, and become a mask. Two such registers make a step.

use super::superblocks::{Scales, every, f16s, halves, heads, planes, steps, superblocks, unsigned};
use super::{Step, Weights, nibbles, quarters};
use crate::gemm::{Gemm, RowPtrs};
use akunu_dtype::grids;
use std::arch::asm;
use std::arch::x86_64::*;

pub struct Iq1S;
pub struct Iq1M;
pub struct Iq2Xxs;
pub struct Iq2Xs;
pub struct Iq2S;
pub struct Iq3Xxs;
pub struct Iq3S;

superblocks!(Iq1S: bytes 50, wide true, bias 9, offsets false, iq1_s_scales, iq1_s_integers);
superblocks!(Iq1M: bytes 56, wide false, bias 9, offsets false, iq1_m_scales, iq1_m_integers);
superblocks!(Iq2Xxs: bytes 66, wide true, bias 64, offsets false, iq2_xxs_scales, iq2_xxs_integers);
superblocks!(Iq2Xs: bytes 74, wide false, bias 64, offsets false, quarters_at::<66>, iq2_xs_integers);
superblocks!(Iq2S: bytes 82, wide false, bias 64, offsets false, quarters_at::<74>, iq2_s_integers);
superblocks!(Iq3Xxs: bytes 98, wide true, bias 64, offsets false, iq3_xxs_scales, iq3_xxs_integers);
superblocks!(Iq3S: bytes 110, wide true, bias 64, offsets false, iq3_s_scales, iq3_s_integers);

/// Bytes: `d`, 32 low bytes of indices, 8 words of their high bits, a scale and a shift.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq1_s_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (words, d) = unsafe { (heads(p, 34), f16s(p, 0)) };
    let scale = _mm512_and_si512(_mm512_srli_epi16::<12>(words), _mm512_set1_epi16(7));
    let v = unsigned(planes(_mm512_shuffle_epi8(scale, every(&[0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0]))));
    wide([v[0], v[1]].map(|v| affine(d, v, 0.25, 0.125)))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq1_s_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    let two_blocks = |i: usize| unsafe {
        let words = u64::from(p.add(34 + 4 * i).cast::<u32>().read_unaligned());
        let high = extract(words, 0x0fff_0fff);
        let down = extract(words, 0x8000_8000);
        let down = deposit(down, 0x0000_0001_0000_0001) * 0xffff_ffff;
        shifted(p.add(2 + 8 * i).cast(), deposit(high, 7 * ONES), down)
    };
    in_halves(two_blocks(2 * half), two_blocks(2 * half + 1))
}

/// Bytes: 32 low bytes of indices, 16 of their high bits and shifts, 8 of scales and of `d`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq1_m_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let words = p.map(|p| unsafe { p.add(48).cast::<u64>().read_unaligned() });
    let [a, b, c, d] = words.map(|w| extract(w, 0xf000_f000_f000_f000));
    let d = _mm512_cvtph_ps(_mm256_set1_epi64x((a | b << 16 | c << 32 | d << 48) as i64));
    let scale = quarters(words.map(|w| {
        let threes = extract(w, 0x0fff_0fff_0fff_0fff);
        _mm_set_epi64x(deposit(threes >> 24, 7 * ONES) as i64, deposit(threes, 7 * ONES) as i64)
    }));
    narrow(unsigned(halves(scale)).map(|v| affine(d, v, 0.25, 0.125)))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq1_m_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    let two_blocks = |i: usize| unsafe {
        let nibbles = deposit(u64::from(p.add(32 + 4 * i).cast::<u32>().read_unaligned()), 15 * ONES);
        shifted(p.add(8 * i).cast(), nibbles & (7 * ONES), (nibbles >> 3 & ONES) * 0xff)
    };
    in_halves(two_blocks(2 * half), two_blocks(2 * half + 1))
}

/// Bytes: `d`, then for every block four indices and a word of signs, the scale on top.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq2_xxs_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (blocks, d) = unsafe { (p.map(|p| _mm512_loadu_si512(p.add(2).cast())), f16s(p, 0)) };
    // The scales of two rows, one in either half of the block's 64 bits.
    let pair = |a: __m512i, b: __m512i| {
        let low = _mm512_srli_epi64::<60>(a);
        let high = _mm512_and_si512(_mm512_srli_epi64::<28>(b), _mm512_set1_epi64(15 << 32));
        _mm512_or_si512(low, high)
    };
    let (a, b) = (pair(blocks[0], blocks[1]), pair(blocks[2], blocks[3]));
    let first = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b);
    let second = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b);
    wide([first, second].map(|v| affine(d, v, 0.25, 0.125)))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq2_xxs_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    let two_blocks = |i: usize| unsafe {
        let (a, b) =
            (p.add(2 + 16 * i).cast::<u64>().read_unaligned(), p.add(10 + 16 * i).cast::<u64>().read_unaligned());
        let index = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128((a & 0xffff_ffff | b << 32) as i64));
        let signs = a >> 32 & 0x0fff_ffff | (b >> 32 & 0x0fff_ffff) << 28;
        signed(_mm512_i64gather_epi64::<8>(index, grids::IQ2_XXS.as_ptr().cast()), even_signs(signs))
    };
    in_halves(two_blocks(2 * half), two_blocks(2 * half + 1))
}

/// Bytes: `d`, 32 words of an index and signs, 8 bytes of scales.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq2_xs_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    let two_blocks = |i: usize| unsafe {
        let p = p.add(2 + 16 * i);
        let index = _mm512_and_si512(_mm512_cvtepu16_epi64(_mm_loadu_si128(p.cast())), _mm512_set1_epi64(511));
        let signs = |at: usize| extract(p.add(at).cast::<u64>().read_unaligned(), 0xfe00_fe00_fe00_fe00);
        let tuples = _mm512_i64gather_epi64::<8>(index, grids::IQ2_XS.as_ptr().cast());
        signed(tuples, even_signs(signs(0) | signs(8) << 28))
    };
    in_halves(two_blocks(2 * half), two_blocks(2 * half + 1))
}

/// Bytes: `d`, 32 low bytes of indices, 32 of signs, 8 of the indices' high bits, 8 of scales.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq2_s_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    let two_blocks = |i: usize| unsafe {
        let high = deposit(u64::from(p.add(66 + 2 * i).cast::<u16>().read_unaligned()), 3 * ONES);
        let tuples = _mm512_i64gather_epi64::<8>(indices(p.add(2 + 8 * i), high), grids::IQ2_S.as_ptr().cast());
        signed(tuples, p.add(34 + 8 * i).cast::<u64>().read_unaligned())
    };
    in_halves(two_blocks(2 * half), two_blocks(2 * half + 1))
}

/// Bytes: `d`, 64 indices, then for every block a word of signs, the scale on top.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq3_xxs_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (first, second, d) = unsafe { (heads(p, 66), heads(p, 82), f16s(p, 0)) };
    let transpose = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    wide([first, second].map(|words| {
        let scale = _mm512_permutexvar_epi32(transpose, _mm512_srli_epi32::<28>(words));
        affine(d, scale, 0.5, 0.25)
    }))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq3_xxs_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    let two_blocks = |i: usize| unsafe {
        let index = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.add(2 + 16 * i).cast()));
        let signs = extract(p.add(66 + 8 * i).cast::<u64>().read_unaligned(), 0x0fff_ffff_0fff_ffff);
        signed(_mm512_i32gather_epi32::<4>(index, grids::IQ3_XXS.as_ptr().cast()), even_signs(signs))
    };
    in_halves(two_blocks(2 * half), two_blocks(2 * half + 1))
}

/// Bytes: `d`, 64 low bytes of indices, 8 of their ninth bits, 32 of signs, 4 of scales.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq3_s_scales(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (head, d) = unsafe { (heads(p, 94), f16s(p, 0)) };
    let z = _mm512_shuffle_epi8(head, every(&[12, 12, 13, 13, 14, 14, 15, 15, 0, 0, 0, 0, 0, 0, 0, 0]));
    let v = unsigned(planes(alternating(z)));
    wide([v[0], v[1]].map(|v| affine(d, v, 2.0, 1.0)))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn iq3_s_integers(p: *const u8, half: usize) -> (__m512i, __m512i) {
    // SAFETY: bytes of the superblock.
    let two_blocks = |i: usize| unsafe {
        let ninth = p.add(66 + 2 * i).cast::<u16>().read_unaligned();
        let index = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.add(2 + 16 * i).cast()));
        let index = _mm512_mask_add_epi32(index, ninth, index, _mm512_set1_epi32(256));
        let tuples = _mm512_i32gather_epi32::<4>(index, grids::IQ3_S.as_ptr().cast());
        signed(tuples, p.add(74 + 8 * i).cast::<u64>().read_unaligned())
    };
    in_halves(two_blocks(2 * half), two_blocks(2 * half + 1))
}

/// 16 nibbles at byte `AT`, the last of the superblock, as scales `d * (nibble + 1/2) / 4`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn quarters_at<const AT: usize>(p: [*const u8; 4]) -> Scales {
    // SAFETY: bytes of the superblocks.
    let (head, d) = unsafe { (heads(p, AT - 8), f16s(p, 0)) };
    let z = _mm512_shuffle_epi8(head, every(&[8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15]));
    narrow(unsigned(halves(alternating(z))).map(|v| affine(d, v, 0.25, 0.125)))
}

/// 1 in every byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// The low bits of `v` at the bits of `mask`.
#[inline(always)]
fn deposit(v: u64, mask: u64) -> u64 {
    let out;
    // SAFETY: the AVX-512 level includes BMI2; registers only.
    unsafe {
        asm!("pdep {}, {}, {}", lateout(reg) out, in(reg) v, in(reg) mask, options(pure, nomem, nostack, preserves_flags))
    };
    out
}

/// The bits of `v` at the bits of `mask`, together.
#[inline(always)]
fn extract(v: u64, mask: u64) -> u64 {
    let out;
    // SAFETY: the AVX-512 level includes BMI2; registers only.
    unsafe {
        asm!("pext {}, {}, {}", lateout(reg) out, in(reg) v, in(reg) mask, options(pure, nomem, nostack, preserves_flags))
    };
    out
}

/// Signs of eight times eight values from seven bits each: the eighth makes their number even.
#[inline(always)]
fn even_signs(sevens: u64) -> u64 {
    let signs = deposit(sevens, 0x7f * ONES);
    let fours = signs ^ signs >> 4;
    let twos = fours ^ fours >> 2;
    signs | ((twos ^ twos >> 1) & ONES) << 7
}

/// 64 more than the values, or than their negatives where `signs` has a bit.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn signed(tuples: __m512i, signs: u64) -> __m512i {
    let bias = _mm512_set1_epi8(64);
    _mm512_mask_sub_epi8(_mm512_add_epi8(tuples, bias), signs, bias, tuples)
}

/// Eight indices of a low byte in memory and a byte of high bits.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn indices(low: *const u8, high: u64) -> __m512i {
    // SAFETY: the caller's eight bytes.
    let low = unsafe { _mm_loadl_epi64(low.cast()) };
    _mm512_cvtepu16_epi64(_mm_unpacklo_epi8(low, _mm_cvtsi64_si128(high as i64)))
}

/// IQ1's tuples in eighths, shifted down where `down` has a bit and up elsewhere, plus 9.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn shifted(low: *const u8, high: u64, down: u64) -> __m512i {
    // SAFETY: the caller's eight bytes; eleven bits are within the table.
    let up = unsafe { _mm512_i64gather_epi64::<8>(indices(low, high), grids::IQ1.as_ptr().cast()) };
    let bias = _mm512_mask_mov_epi8(_mm512_set1_epi8(9), down, _mm512_set1_epi8(7));
    _mm512_add_epi8(up, bias)
}

/// From four blocks in order to their first and second halves.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn in_halves(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    let (low, high) = (_mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13), _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15));
    (_mm512_permutex2var_epi64(a, low, b), _mm512_permutex2var_epi64(a, high, b))
}

/// Low nibbles of even bytes, high nibbles of odd ones.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn alternating(z: __m512i) -> __m512i {
    let (low, high) = nibbles(z);
    _mm512_mask_mov_epi8(low, 0xaaaa_aaaa_aaaa_aaaa, high)
}

/// `d * (step * v + least)`: exact.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn affine(d: __m512, v: __m512i, step: f32, least: f32) -> __m512 {
    let v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(v), _mm512_set1_ps(step), _mm512_set1_ps(least));
    _mm512_mul_ps(d, v)
}

/// Scales per block, of both steps.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn wide(v: [__m512; 2]) -> Scales {
    Scales { scale: v.map(|v| [v; 2]), offset: [[_mm512_setzero_ps(); 2]; 2] }
}

/// Scales per half of a block, in planes.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn narrow(v: [__m512; 4]) -> Scales {
    Scales { scale: steps(v), offset: [[_mm512_setzero_ps(); 2]; 2] }
}
