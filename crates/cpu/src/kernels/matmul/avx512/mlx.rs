//! MLX affine formats of 4 and 8 bits, every group size and float type of the side planes.
//!
//! Integers are in order: of 4 bits, byte `j` has value `2j` in its low nibble. A step's four
//! blocks take their scale and bias from group `32 * block / GROUP`. Eight-bit integers are
//! unsigned; as in `Unpacked` 128 moves from them into the offset.

use super::{RowPtrs, Step, Weights, block_lanes, low_bits, pieces};
use crate::kernels::matmul::dots::Dots;
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
    /// AVX-512 level; each pointer has a number for every group of the blocks.
    unsafe fn load<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m512;
}

/// Groups that begin in `blocks` blocks.
#[inline(always)]
fn groups<const GROUP: usize>(blocks: usize) -> usize {
    (blocks * 32).div_ceil(GROUP)
}

/// Up to four 16-bit numbers of each row as 16 words in lanes `4 * block + row`.
#[inline(always)]
unsafe fn load_words<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m256i {
    const fn index(group: usize) -> [u16; 16] {
        let mut index = [0; 16];
        let mut i = 0;
        while i < 16 {
            index[i] = (i % 4 * 4 + i / 4 * 32 / group) as u16;
            i += 1;
        }
        index
    }
    // SAFETY: as many numbers are read as there are groups.
    unsafe {
        let row = p.map(|p| match groups::<GROUP>(blocks) {
            1 => p.cast::<u16>().read_unaligned() as i64,
            2 => p.cast::<u32>().read_unaligned() as i64,
            4 => p.cast::<i64>().read_unaligned(),
            _ => i64::from(p.cast::<u32>().read_unaligned()) | i64::from(p.add(4).cast::<u16>().read_unaligned()) << 32,
        });
        let all = _mm256_setr_epi64x(row[0], row[1], row[2], row[3]);
        let index = _mm256_loadu_si256(const { &index(GROUP) }.as_ptr().cast());
        _mm256_maskz_permutexvar_epi16(block_lanes(blocks), index, all)
    }
}

impl Side for SideF16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m512 {
        // SAFETY: the same contract.
        unsafe { _mm512_cvtph_ps(load_words::<GROUP>(p, blocks)) }
    }
}

impl Side for SideBf16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m512 {
        // SAFETY: the same contract.
        unsafe {
            let words = _mm512_cvtepu16_epi32(load_words::<GROUP>(p, blocks));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
        }
    }
}

impl Side for SideF32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load<const GROUP: usize>(p: [*const u8; 4], blocks: usize) -> __m512 {
        const fn index(group: usize) -> [u32; 16] {
            let mut index = [0; 16];
            let mut i = 0;
            while i < 16 {
                index[i] = (i % 4 * 4 + i / 4 * 32 / group) as u32;
                i += 1;
            }
            index
        }
        // SAFETY: as many numbers are read as there are groups.
        unsafe {
            let exist = low_bits(groups::<GROUP>(blocks)) as u8;
            let row = |r: usize| _mm_maskz_loadu_ps(exist, p[r].cast());
            let z = _mm512_castps128_ps512(row(0));
            let z = _mm512_insertf32x4::<1>(z, row(1));
            let z = _mm512_insertf32x4::<2>(z, row(2));
            let z = _mm512_insertf32x4::<3>(z, row(3));
            let index = _mm512_loadu_si512(const { &index(GROUP) }.as_ptr().cast());
            _mm512_maskz_permutexvar_ps(block_lanes(blocks), index, z)
        }
    }
}

macro_rules! mlx {
    ($name:ident, bits $bits:expr, bias $bias:expr, $integers:expr) => {
        impl<S: Side, const GROUP: usize> Weights for $name<S, GROUP> {
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
                // SAFETY: `blocks` blocks from value `k`, and the numbers of their groups, exist.
                unsafe {
                    let n = rows.data.map(|p| $integers(p.add(k / 8 * $bits), blocks));
                    let side = k / GROUP * S::BYTES;
                    let scale = S::load::<GROUP>(rows.scales.map(|p| p.add(side)), blocks);
                    let bias = S::load::<GROUP>(rows.biases.map(|p| p.add(side)), blocks);
                    let moved = _mm512_mul_ps(scale, _mm512_set1_ps(f32::from(Self::BIAS)));
                    let offset = if Self::BIAS == 0 { bias } else { _mm512_add_ps(bias, moved) };
                    let zero = _mm512_setzero_ps();
                    Step { lo: n.map(|n| n.0), hi: n.map(|n| n.1), scale: [scale, zero], offset: [offset, zero] }
                }
            }
        }
    };
}

mlx!(Mlx4, bits 4, bias 0, |p: *const u8, blocks: usize| {
    let z = _mm512_maskz_loadu_epi8(low_bits(16 * blocks), p.cast());
    // Eight bytes are half a block: each becomes a word with its nibbles in two bytes.
    let half = |index: __m512i| {
        let words = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(_mm512_permutexvar_epi64(index, z)));
        let both = _mm512_or_si512(words, _mm512_slli_epi16::<4>(words));
        _mm512_and_si512(both, _mm512_set1_epi8(15))
    };
    (half(_mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0)), half(_mm512_setr_epi64(1, 3, 5, 7, 0, 0, 0, 0)))
});

mlx!(Mlx8, bits 8, bias 128, |p: *const u8, blocks: usize| {
    (pieces(p, 32, blocks), pieces(p.add(16), 32, blocks))
});
