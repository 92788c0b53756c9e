//! MLX affine formats of 4 and 8 bits, every group size and float type of the side planes.
//!
//! Integers are in order: of 4 bits, byte `j` has value `2j` in its low nibble. A step's four
//! blocks take their scale and bias from group `32 * block / GROUP`. Eight-bit integers are
//! unsigned; as in `Unpacked` 128 moves from them into the offset.

use super::{Step, Weights, block_lanes, low_bits, pieces, quarters};
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

    /// The numbers of `blocks` blocks of four rows in lanes `4 * block + row`, others 0, from
    /// planes of one number per `GROUP` values.
    ///
    /// # Safety
    /// The caller has the AVX-512 level; each pointer has a number for every group of the blocks.
    unsafe fn load<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m512;
}

/// Groups that begin in `blocks` blocks.
#[inline(always)]
fn groups<const GROUP: usize>(blocks: usize) -> usize {
    (blocks * 32).div_ceil(GROUP)
}

/// Where lanes `4 * block + row` find their number among four of each row.
const fn index<const GROUP: usize>() -> [u32; 16] {
    let mut index = [0; 16];
    let mut i = 0;
    while i < 16 {
        index[i] = (i % 4 * 4 + i / 4 * 32 / GROUP) as u32;
        i += 1;
    }
    index
}

/// Up to four 16-bit numbers of each row, one to a 32-bit lane `4 * block + row`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn words<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m512i {
    // SAFETY: as many numbers are read as there are groups.
    let row = p.map(|p| unsafe {
        match groups::<GROUP>(blocks) {
            1 => i64::from(p.cast::<u16>().read_unaligned()),
            2 => i64::from(p.cast::<u32>().read_unaligned()),
            4 => p.cast::<i64>().read_unaligned(),
            _ => i64::from(p.cast::<u32>().read_unaligned()) | i64::from(p.add(4).cast::<u16>().read_unaligned()) << 32,
        }
    });
    let all = _mm512_cvtepu16_epi32(_mm256_setr_epi64x(row[0], row[1], row[2], row[3]));
    // SAFETY: the load is the array.
    let index = unsafe { _mm512_loadu_si512(const { &index::<GROUP>() }.as_ptr().cast()) };
    _mm512_maskz_permutexvar_epi32(block_lanes(blocks), index, all)
}

impl Side for SideF16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m512 {
        // SAFETY: the same contract.
        unsafe { from_f16(words::<GROUP>(p, blocks)) }
    }
}

impl Side for SideBf16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m512 {
        // SAFETY: the same contract.
        unsafe { from_bf16(words::<GROUP>(p, blocks)) }
    }
}

impl Side for SideF32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m512 {
        // SAFETY: the same contract.
        unsafe { floats::<GROUP>(p, blocks) }
    }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn from_f16(words: __m512i) -> __m512 {
    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn from_bf16(words: __m512i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn floats<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m512 {
    let exist = low_bits(groups::<GROUP>(blocks)) as u8;
    // SAFETY: as many numbers are read as there are groups; the other load is the array.
    let (all, index) = unsafe {
        let row = p.map(|p| _mm_castps_si128(_mm_maskz_loadu_ps(exist, p.cast())));
        (quarters(row), _mm512_loadu_si512(const { &index::<GROUP>() }.as_ptr().cast()))
    };
    _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi32(block_lanes(blocks), index, all))
}

/// The offset of integers that are larger by `BIAS` than those of [`Step`].
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn moved<const BIAS: u8>(scale: __m512, bias: __m512) -> __m512 {
    if BIAS == 0 { bias } else { _mm512_add_ps(bias, _mm512_mul_ps(scale, _mm512_set1_ps(f32::from(BIAS)))) }
}

/// 128 nibbles in order. Eight bytes are half a block: each becomes a word, its nibbles two bytes.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn nibbles_in_order(p: *const u8, blocks: usize) -> (__m512i, __m512i) {
    // SAFETY: the mask keeps the load within the blocks that exist.
    let z = unsafe { _mm512_maskz_loadu_epi8(low_bits(16 * blocks), p.cast()) };
    let half = |index| {
        let words = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(_mm512_permutexvar_epi64(index, z)));
        let both = _mm512_or_si512(words, _mm512_slli_epi16::<4>(words));
        _mm512_and_si512(both, _mm512_set1_epi8(15))
    };
    (half(_mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0)), half(_mm512_setr_epi64(1, 3, 5, 7, 0, 0, 0, 0)))
}

/// 128 bytes in order.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn bytes_in_order(p: *const u8, blocks: usize) -> (__m512i, __m512i) {
    // SAFETY: pieces of existing blocks.
    unsafe { (pieces(p, 32, blocks), pieces(p.add(16), 32, blocks)) }
}

macro_rules! mlx {
    ($name:ident, bits $bits:expr, bias $bias:expr, $integers:expr) => {
        impl<S: Side, const GROUP: usize> Weights for $name<S, GROUP> {
            const VALUES: usize = 32;
            const WIDE: bool = true;
            const OFFSETS: bool = true;
            const BIAS: u8 = $bias;
            const STEP_BYTES: usize = 16 * $bits;
            type Head = ();

            fn of(_: &Dots) -> Option<Self> {
                Some(Self(PhantomData))
            }

            #[inline(always)]
            unsafe fn head(&self, _: &RowPtrs, _: usize, _: usize) {}

            #[inline(always)]
            unsafe fn step(&self, rows: &RowPtrs, k: usize, half: usize, blocks: usize, _: &()) -> Step {
                let k = k + 128 * half;
                let (at, side, p) = (k / 8 * $bits, k / GROUP * S::BYTES, &rows.data);
                // SAFETY: `blocks` blocks from value `k`, and the numbers of their groups, exist.
                unsafe {
                    let q = [
                        $integers(p[0].add(at), blocks),
                        $integers(p[1].add(at), blocks),
                        $integers(p[2].add(at), blocks),
                        $integers(p[3].add(at), blocks),
                    ];
                    let scale = S::load::<GROUP>(rows.scales.map(|p| p.add(side)), blocks);
                    let bias = S::load::<GROUP>(rows.biases.map(|p| p.add(side)), blocks);
                    Step { q, scale: [scale; 2], offset: [moved::<$bias>(scale, bias); 2] }
                }
            }
        }
    };
}

mlx!(Mlx4, bits 4, bias 0, nibbles_in_order);
mlx!(Mlx8, bits 8, bias 128, bytes_in_order);
