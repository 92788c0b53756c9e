//! Packed weights (`crate::packed`): lanes are weight rows, eight to a register, straight from memory.
//!
//! A broadcast of four activation bytes multiplies 16 rows in two registers, and nothing is ever added across lanes. Products are
//! added in 16 bits for as long as they fit, which is a whole block for integers of four bits.

mod bytes;
mod integers;
mod rows;

pub use rows::{q8_packed, q8_packed_vnni};

use super::blocks::{IQ4_LEVELS, Iq4Nl, Q4_0, Q4_1, Q8_0};
use super::superblocks::{Q4K, Q5K, Q6K, negated, product};
use super::{Kind, broadcast};
use crate::packed::ROWS;
use std::arch::x86_64::*;

/// Weight rows of a register.
const LANES: usize = 8;
/// Registers of 16 weight rows.
const HALVES: usize = ROWS / LANES;

/// What a block is scaled by: its first and its second half, equal if wide.
#[derive(Clone, Copy)]
pub struct Scales {
    pub scale: [__m256; 2],
    pub offset: __m256,
}

/// A format that can be packed.
pub trait Packed {
    /// Blocks of 32 values that lie together, and their bytes in one row.
    const BLOCKS: usize;
    const BYTES: usize;
    /// One scale per 32 values, not per 16.
    const WIDE: bool;
    /// Has offsets: if so, one per 32 values.
    const OFFSETS: bool;
    const KIND: Kind;
    /// Whether the products of four values and 32 can be added in 16 bits, and not only of four and eight.
    const SHORT: bool;
    /// A format that is the same once it is unpacked ([`bytes`]).
    type Like: Packed;
    /// What blocks that lie together share.
    type Head: Copy;

    /// Of the first or the last eight rows of 16, as everything here.
    ///
    /// # Safety
    /// The blocks of 16 rows are at `p`, and the machine has the AVX2 level.
    unsafe fn head(p: *const u8, half: usize) -> Self::Head;

    /// Values `4 * I..4 * I + 4` of block `2 * pair + ODD` of those at `p`.
    ///
    /// # Safety
    /// As [`Packed::head`].
    unsafe fn quad<const ODD: usize, const I: usize>(p: *const u8, half: usize, pair: usize) -> __m256i;

    /// Scales and offsets of block `b` of those at `p`.
    ///
    /// # Safety
    /// As [`Packed::head`], which is theirs.
    unsafe fn scales(p: *const u8, half: usize, head: &Self::Head, b: usize) -> Scales;
}

/// Words of eight rows, of a field at byte `at` of packed blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn line(p: *const u8, at: usize, half: usize) -> __m256i {
    // SAFETY: the caller's bytes.
    unsafe { _mm256_loadu_si256(p.add(at + 32 * half).cast()) }
}

/// The f16 numbers of eight rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn f16s(p: *const u8, at: usize, half: usize) -> __m256 {
    // SAFETY: the caller's bytes.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.add(at + 16 * half).cast())) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn low(v: __m256i) -> __m256i {
    _mm256_and_si256(v, _mm256_set1_epi8(15))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn high(v: __m256i) -> __m256i {
    low(_mm256_srli_epi16::<4>(v))
}

/// Quad `I` of nibbles: first halves are low ones, second halves high ones.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn nibble<const I: usize>(p: *const u8, half: usize) -> __m256i {
    // SAFETY: the caller's bytes.
    let v = unsafe { line(p, 64 * (I % 4), half) };
    if I < 4 { low(v) } else { high(v) }
}

/// Q8_0's bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bytes<const I: usize>(p: *const u8, half: usize) -> __m256i {
    // SAFETY: the caller's bytes.
    unsafe { line(p, 64 * I, half) }
}

/// IQ4_NL's levels.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn uneven<const I: usize>(p: *const u8, half: usize) -> __m256i {
    // SAFETY: the caller's bytes, and the table.
    unsafe { _mm256_shuffle_epi8(broadcast(IQ4_LEVELS.as_ptr().cast()), nibble::<I>(p, half)) }
}

/// A format of blocks that lie alone: its integers after `skip` bytes, scales and offsets.
macro_rules! alone {
    ($name:ty, like $like:ty: bytes $bytes:expr, $kind:expr, short $short:expr, offsets $offsets:expr, $quad:ident after $skip:expr, |$p:ident, $half:ident| $scale:expr, $offset:expr) => {
        impl Packed for $name {
            const BLOCKS: usize = 1;
            const BYTES: usize = $bytes;
            const WIDE: bool = true;
            const OFFSETS: bool = $offsets;
            const KIND: Kind = $kind;
            const SHORT: bool = $short;
            type Like = $like;
            type Head = ();

            #[inline(always)]
            unsafe fn head(_: *const u8, _: usize) {}

            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn quad<const ODD: usize, const I: usize>(p: *const u8, half: usize, _: usize) -> __m256i {
                // SAFETY: bytes of the blocks.
                unsafe { $quad::<I>(p.add($skip), half) }
            }

            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn scales($p: *const u8, $half: usize, _: &(), _: usize) -> Scales {
                // SAFETY: bytes of the blocks.
                unsafe { Scales { scale: [$scale; 2], offset: $offset } }
            }
        }
    };
}

alone!(Q4_0, like Q4_0: bytes 18, Kind::Biased(8), short true, offsets false, nibble after 32, |p, half| f16s(p, 0, half), _mm256_setzero_ps());
alone!(Q4_1, like Q4_1: bytes 20, Kind::Unsigned, short true, offsets true, nibble after 64, |p, half| f16s(p, 0, half), f16s(p, 32, half));
alone!(Q8_0, like Q8_0: bytes 34, Kind::Signed, short false, offsets false, bytes after 32, |p, half| f16s(p, 0, half), _mm256_setzero_ps());
alone!(Iq4Nl, like Q8_0: bytes 18, Kind::Signed, short false, offsets false, uneven after 32, |p, half| f16s(p, 0, half), _mm256_setzero_ps());

/// A format of superblocks.
macro_rules! superblocks {
    ($name:ty, like $like:ty: bytes $bytes:expr, wide $wide:expr, $kind:expr, short $short:expr, offsets $offsets:expr, $head:ty: $make:expr, $quad:expr, $scales:expr) => {
        impl Packed for $name {
            const BLOCKS: usize = 8;
            const BYTES: usize = $bytes;
            const WIDE: bool = $wide;
            const OFFSETS: bool = $offsets;
            const KIND: Kind = $kind;
            const SHORT: bool = $short;
            type Like = $like;
            type Head = $head;

            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn head(p: *const u8, half: usize) -> $head {
                // SAFETY: bytes of the superblocks.
                unsafe { $make(p, half) }
            }

            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn quad<const ODD: usize, const I: usize>(p: *const u8, half: usize, pair: usize) -> __m256i {
                // SAFETY: bytes of the superblocks.
                unsafe { $quad(p, half, pair) }
            }

            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn scales(p: *const u8, half: usize, head: &$head, b: usize) -> Scales {
                // SAFETY: bytes of the superblocks.
                unsafe { $scales(p, half, head, b) }
            }
        }
    };
}

superblocks!(Q4K, like Q4_1: bytes 144, wide true, Kind::Unsigned, short true, offsets true, Head: q45_head, q45_quad::<4, ODD, I>, q45_scales);
superblocks!(Q5K, like Q5K: bytes 176, wide true, Kind::Unsigned, short false, offsets true, Head: q45_head, q45_quad::<12, ODD, I>, q45_scales);
superblocks!(Q6K, like Q6K: bytes 210, wide false, Kind::Biased(32), short false, offsets false, __m256: q6_head, q6_quad::<ODD, I>, q6_scales);

/// Q4_K's and Q5_K's `d` and `-dmin`, and their scales and minima of the first and the last four blocks, a byte each.
#[derive(Clone, Copy)]
pub struct Head {
    d: __m256,
    dmin: __m256,
    scales: [__m256i; 2],
    minima: [__m256i; 2],
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q45_head(p: *const u8, half: usize) -> Head {
    // SAFETY: the caller's bytes.
    unsafe {
        let v = [line(p, 64, half), line(p, 128, half), line(p, 192, half)];
        let six = |v| _mm256_and_si256(v, _mm256_set1_epi8(0x3f));
        let top = |v| _mm256_and_si256(_mm256_srli_epi32::<2>(v), _mm256_set1_epi8(0x30));
        Head {
            d: f16s(p, 0, half),
            dmin: negated(f16s(p, 32, half)),
            scales: [six(v[0]), _mm256_or_si256(top(v[0]), low(v[2]))],
            minima: [six(v[1]), _mm256_or_si256(top(v[1]), high(v[2]))],
        }
    }
}

/// Every lane moved by so many bits to the right.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn moved(v: __m256i, bits: usize) -> __m256i {
    _mm256_srlv_epi32(v, _mm256_set1_epi32(bits as i32))
}

/// The low bits of every byte that `mask` has, four places higher.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn raised(v: __m256i, mask: i8) -> __m256i {
    _mm256_slli_epi32::<4>(_mm256_and_si256(v, _mm256_set1_epi8(mask)))
}

/// Q4_K and Q5_K: the nibbles begin at line `NIBBLES`, and Q5_K's fifth bits at line 4.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q45_quad<const NIBBLES: usize, const ODD: usize, const I: usize>(
    p: *const u8,
    half: usize,
    pair: usize,
) -> __m256i {
    // SAFETY: the caller's bytes.
    let (v, fifth) = unsafe { (line(p, 64 * (NIBBLES + pair * 8 + I), half), line(p, 64 * (4 + I), half)) };
    let v = if ODD == 0 { low(v) } else { high(v) };
    if NIBBLES == 4 {
        return v;
    }
    // The bit of the block's number becomes bit 4.
    _mm256_or_si256(v, raised(moved(fifth, 2 * pair + ODD), 1))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q45_scales(_: *const u8, _: usize, head: &Head, b: usize) -> Scales {
    let byte = |v: __m256i| _mm256_and_si256(moved(v, 8 * (b % 4)), _mm256_set1_epi32(0xff));
    let scale = product(head.d, byte(head.scales[b / 4]));
    Scales { scale: [scale; 2], offset: product(head.dmin, byte(head.minima[b / 4])) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q6_head(p: *const u8, half: usize) -> __m256 {
    // SAFETY: the last field.
    unsafe { f16s(p, 208 * ROWS, half) }
}

/// Lines: 32 of low nibbles, 16 of high bit pairs, 4 of scales. Of the four blocks of half a superblock, the first two have
/// the low nibbles of the first and second eight lines, the others the high ones; block `i` has bits `2i` and `2i + 1` of
/// the high bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q6_quad<const ODD: usize, const I: usize>(p: *const u8, half: usize, pair: usize) -> __m256i {
    let (step, upper) = (pair / 2, pair % 2);
    // SAFETY: the caller's bytes.
    let (l, h) = unsafe { (line(p, 64 * (16 * step + 8 * ODD + I), half), line(p, 64 * (32 + 8 * step + I), half)) };
    _mm256_or_si256(low(moved(l, 4 * upper)), raised(moved(h, 2 * (2 * upper + ODD)), 3))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q6_scales(p: *const u8, half: usize, d: &__m256, b: usize) -> Scales {
    // SAFETY: the caller's bytes.
    let scales = unsafe { line(p, 64 * (48 + b / 2), half) };
    let top = |part: usize| _mm256_sllv_epi32(scales, _mm256_set1_epi32(8 * (3 - (b % 2 * 2 + part)) as i32));
    let scale = |part: usize| product(*d, _mm256_srai_epi32::<24>(top(part)));
    Scales { scale: [scale(0), scale(1)], offset: _mm256_setzero_ps() }
}
