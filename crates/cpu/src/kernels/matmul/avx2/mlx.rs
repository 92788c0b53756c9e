//! MLX affine formats of 4 and 8 bits, every group size and float type of the side planes.
//!
//! Integers are in order: of 4 bits, byte `j` has value `2j` in its low nibble. A step's two blocks
//! take their scale and bias from group `32 * block / GROUP`. Eight-bit integers are unsigned; as in
//! `Unpacked` 128 moves from them into the offset.

use super::{Kind, Step, Weights, existing, pieces};
use crate::kernels::matmul::dots::{Dots, RowPtrs};
use std::arch::x86_64::*;
use std::marker::PhantomData;

pub struct Mlx4<S, const GROUP: usize>(PhantomData<S>);
pub struct Mlx8<S, const GROUP: usize>(PhantomData<S>);

pub struct SideF16;
pub struct SideBf16;
pub struct SideF32;

/// A float type of the side planes.
pub trait Side {
    const BYTES: usize;

    /// The number of each row at its pointer and `stride` bytes on, in lanes `4 * block + row`.
    ///
    /// # Safety
    /// The caller has the AVX2 level; the numbers are readable.
    unsafe fn load(p: [*const u8; 4], stride: usize) -> __m256;
}

macro_rules! side {
    ($name:ty: bytes $bytes:literal, $load:path) => {
        impl Side for $name {
            const BYTES: usize = $bytes;

            #[inline(always)]
            unsafe fn load(p: [*const u8; 4], stride: usize) -> __m256 {
                // SAFETY: the same contract.
                unsafe { $load(p, stride) }
            }
        }
    };
}

side!(SideF16: bytes 2, load_f16);
side!(SideBf16: bytes 2, load_bf16);
side!(SideF32: bytes 4, load_f32);

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn words(p: [*const u8; 4], stride: usize) -> __m128i {
    // SAFETY: the caller's numbers.
    let word = |p: *const u8| i64::from(unsafe { p.cast::<u16>().read_unaligned() });
    let four = |at: usize| {
        let w = p.map(|p| word(p.wrapping_add(at)));
        w[0] | w[1] << 16 | w[2] << 32 | w[3] << 48
    };
    _mm_set_epi64x(four(stride), four(0))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_f16(p: [*const u8; 4], stride: usize) -> __m256 {
    // SAFETY: the same contract.
    _mm256_cvtph_ps(unsafe { words(p, stride) })
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_bf16(p: [*const u8; 4], stride: usize) -> __m256 {
    // SAFETY: the same contract.
    let words = _mm256_cvtepu16_epi32(unsafe { words(p, stride) });
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_f32(p: [*const u8; 4], stride: usize) -> __m256 {
    // SAFETY: the caller's numbers.
    let v = |r: usize, at: usize| unsafe { p[r].add(at).cast::<f32>().read_unaligned() };
    let (a, b) = ([v(0, 0), v(1, 0), v(2, 0), v(3, 0)], [v(0, stride), v(1, stride), v(2, stride), v(3, stride)]);
    _mm256_setr_ps(a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3])
}

macro_rules! mlx {
    ($name:ident: bits $bits:expr, $kind:expr, run $run:expr, moved $moved:expr, $integers:expr) => {
        impl<S: Side, const GROUP: usize> Weights for $name<S, GROUP> {
            const VALUES: usize = 32;
            const WIDE: bool = true;
            const OFFSETS: bool = true;
            const KIND: Kind = $kind;
            const RUN: usize = $run;
            const UNIT_BYTES: usize = 32 * $bits;
            type Head = ();

            fn of(_: &Dots) -> Option<Self> {
                Some(Self(PhantomData))
            }

            #[inline(always)]
            unsafe fn head(&self, _: &RowPtrs, _: usize, _: usize) {}

            #[inline(always)]
            unsafe fn step(&self, rows: &RowPtrs, k: usize, i: usize, blocks: usize, _: &()) -> Step {
                let k = k + 64 * i;
                let (at, side, p) = (k / 8 * $bits, k / GROUP * S::BYTES, &rows.data);
                // Only groups of 32 have another for the second block.
                let stride = 32 * (blocks - 1) / GROUP * S::BYTES;
                // SAFETY: `blocks` blocks from value `k`, and the numbers of their groups, exist.
                unsafe {
                    let q = [
                        $integers(p[0].add(at), blocks),
                        $integers(p[1].add(at), blocks),
                        $integers(p[2].add(at), blocks),
                        $integers(p[3].add(at), blocks),
                    ];
                    let scale = existing(S::load(rows.scales.map(|p| p.add(side)), stride), blocks);
                    let bias = existing(S::load(rows.biases.map(|p| p.add(side)), stride), blocks);
                    Step { q, scale: [scale; 2], offset: [moved::<$moved>(scale, bias); 2] }
                }
            }
        }
    };
}

mlx!(Mlx4: bits 4, Kind::Unsigned, run 8, moved 0, nibbles_in_order);
mlx!(Mlx8: bits 8, Kind::Signed, run 1, moved 128, bytes_in_order);

/// The offset of integers that are smaller by `BY` than the format's.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn moved<const BY: u8>(scale: __m256, bias: __m256) -> __m256 {
    if BY == 0 { bias } else { _mm256_add_ps(bias, _mm256_mul_ps(scale, _mm256_set1_ps(f32::from(BY)))) }
}

/// 64 nibbles in order. Eight bytes are half a block: each becomes a word, its nibbles two bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn nibbles_in_order(p: *const u8, blocks: usize) -> (__m256i, __m256i) {
    // SAFETY: the second block is read only if it exists.
    let (a, b) = unsafe { (_mm_loadu_si128(p.cast()), _mm_loadu_si128(p.add(16 * (blocks - 1)).cast())) };
    let spread = |bytes| {
        let words = _mm256_cvtepu8_epi16(bytes);
        let both = _mm256_or_si256(words, _mm256_slli_epi16::<4>(words));
        _mm256_and_si256(both, _mm256_set1_epi8(15))
    };
    (spread(_mm_unpacklo_epi64(a, b)), spread(_mm_unpackhi_epi64(a, b)))
}

/// 64 bytes in order, 128 taken off.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bytes_in_order(p: *const u8, blocks: usize) -> (__m256i, __m256i) {
    // SAFETY: pieces of existing blocks.
    let (lo, hi) = unsafe { (pieces(p, 32, blocks), pieces(p.add(16), 32, blocks)) };
    let flip = _mm256_set1_epi8(-128);
    (_mm256_xor_si256(lo, flip), _mm256_xor_si256(hi, flip))
}
