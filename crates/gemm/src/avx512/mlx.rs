//! MLX affine formats, every width, group size and float type of the side planes.
//!
//! Integers are in order: of 4 bits, byte `j` has value `2j` in its low nibble; of 3, 5 and 6 bits they
//! straddle bytes, and eight of them are as many bytes. A step's four
//! blocks take their scale and bias from group `32 * block / group`. Eight-bit integers are
//! unsigned; as in `Unpacked` 128 moves from them into the offset.

use super::{Step, Weights, broadcast, high_f16, low_bits, low_f16, quarters, strided};
use crate::gemm::{Gemm, RowPtrs, Sides};
use std::arch::x86_64::*;

pub struct Mlx2(Lanes);
pub struct Mlx3(Lanes);
pub struct Mlx4(Lanes);
pub struct Mlx5(Lanes);
pub struct Mlx6(Lanes);
pub struct Mlx8(Lanes);

/// The side planes, and where the lanes of a pair of steps, `16 * step + 4 * block + row`, find
/// their number among eight of each row.
struct Lanes {
    sides: Sides,
    index: [u16; 32],
}

impl Lanes {
    fn of(d: &Gemm) -> Option<Self> {
        let sides = Sides::of(d)?;
        let index = std::array::from_fn(|i| (i % 4 * 8 + sides.group(i / 4 * 32)) as u16);
        Some(Self { sides, index })
    }

    /// The numbers of `blocks` blocks from byte `at` of each row, in the lanes of two steps; 0 where
    /// there is no block.
    ///
    /// # Safety
    /// Each pointer has a number for every group of the blocks.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn load(&self, p: [*const u8; 4], at: usize, blocks: usize) -> [__m512; 2] {
        let p = p.map(|p| p.wrapping_add(at));
        let groups = low_bits(self.sides.group(32 * blocks - 1) + 1) as u8;
        let exist = low_bits(4 * blocks) as u32;
        // SAFETY: as many numbers are read as there are groups; the first load is the array.
        unsafe {
            let index = _mm512_loadu_si512(self.index.as_ptr().cast());
            if self.sides.bytes == 4 {
                return floats(p, groups, index, exist);
            }
            let words = quarters(p.map(|p| _mm_maskz_loadu_epi16(groups, p.cast())));
            let words = _mm512_maskz_permutexvar_epi16(exist, index, words);
            if self.sides.f16 { [low_f16(words), high_f16(words)] } else { bf16s(words) }
        }
    }
}

/// 32 bf16 numbers: each is the upper half of an f32.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn bf16s(words: __m512i) -> [__m512; 2] {
    [_mm512_castsi512_si256(words), _mm512_extracti64x4_epi64::<1>(words)]
        .map(|words| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(words))))
}

/// Up to eight f32 numbers of each row.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn floats(p: [*const u8; 4], groups: u8, index: __m512i, exist: u32) -> [__m512; 2] {
    // SAFETY: as many numbers are read as there are groups.
    let row = |r: usize| unsafe { _mm512_castps256_ps512(_mm256_maskz_loadu_ps(groups, p[r].cast())) };
    let pair = |a, b| _mm512_shuffle_f32x4::<0b01_00_01_00>(row(a), row(b));
    let (first, second) = (pair(0, 1), pair(2, 3));
    let each = |index, exist| _mm512_maskz_permutex2var_ps(exist, first, index, second);
    let index = [_mm512_castsi512_si256(index), _mm512_extracti64x4_epi64::<1>(index)];
    let index = index.map(|index| _mm512_cvtepu16_epi32(index));
    [each(index[0], exist as u16), each(index[1], (exist >> 16) as u16)]
}

/// Scales and offsets of two steps.
#[derive(Clone, Copy)]
pub struct Affine {
    scale: [__m512; 2],
    offset: [__m512; 2],
}

macro_rules! mlx {
    ($name:ident: bits $bits:expr, bias $bias:expr, $integers:expr) => {
        impl Weights for $name {
            const VALUES: usize = 32;
            const WIDE: bool = true;
            const OFFSETS: bool = true;
            const BIAS: u8 = $bias;
            const STEP_BYTES: usize = 16 * $bits;
            const FUSED: bool = matches!($bits, 4 | 8);
            type Head = Affine;

            fn of(d: &Gemm) -> Option<Self> {
                Lanes::of(d).map(Self)
            }

            #[inline(always)]
            unsafe fn head(&self, rows: &RowPtrs, k: usize, blocks: usize) -> Affine {
                // SAFETY: the numbers of the groups of `blocks` blocks from value `k` exist.
                unsafe {
                    let at = self.0.sides.at(k);
                    let scale = self.0.load(rows.scales, at, blocks);
                    let bias = self.0.load(rows.biases, at, blocks);
                    Affine { scale, offset: [moved::<$bias>(scale[0], bias[0]), moved::<$bias>(scale[1], bias[1])] }
                }
            }

            #[inline(always)]
            unsafe fn step(&self, rows: &RowPtrs, k: usize, half: usize, blocks: usize, head: &Affine) -> Step {
                let (at, p) = ((k + 128 * half) / 8 * $bits, &rows.data);
                // SAFETY: `blocks` blocks of the step exist.
                unsafe {
                    let q = [
                        $integers(p[0].add(at), blocks),
                        $integers(p[1].add(at), blocks),
                        $integers(p[2].add(at), blocks),
                        $integers(p[3].add(at), blocks),
                    ];
                    Step { q, scale: [head.scale[half]; 2], offset: [head.offset[half]; 2] }
                }
            }
        }
    };
}

mlx!(Mlx2: bits 2, bias 0, bits_in_order::<2>);
mlx!(Mlx3: bits 3, bias 0, bits_in_order::<3>);
mlx!(Mlx4: bits 4, bias 0, nibbles_in_order);
mlx!(Mlx5: bits 5, bias 0, bits_in_order::<5>);
mlx!(Mlx6: bits 6, bias 0, bits_in_order::<6>);
mlx!(Mlx8: bits 8, bias 128, bytes_in_order);

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
    unsafe { (strided(p, 32, blocks), strided(p.add(16), 32, blocks)) }
}

/// 128 integers of `BITS` bits in order. Eight of them go to a lane of 64 bits, and there apart in
/// three steps: by fours, twos, ones.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn bits_in_order<const BITS: usize>(p: *const u8, blocks: usize) -> (__m512i, __m512i) {
    const fn eights(bits: usize) -> [u8; 16] {
        let mut index = [128; 16];
        let mut i = 0;
        while i < 2 * bits {
            index[i / bits * 8 + i % bits] = i as u8;
            i += 1;
        }
        index
    }
    // Upper half: of the 64-bit, 32-bit, 16-bit lanes.
    let apart = |x: __m512i, by: u32, upper: i64| {
        let moved = _mm512_sll_epi64(x, _mm_cvtsi32_si128(by as i32));
        _mm512_ternarylogic_epi64::<0xca>(_mm512_set1_epi64(upper), moved, x)
    };
    let half = |h: usize| {
        // SAFETY: the mask keeps the load within the half of a block that exists.
        let piece = |i: usize| unsafe {
            let at = 4 * BITS * i.min(blocks - 1) + 2 * BITS * h;
            _mm_maskz_loadu_epi8(low_bits(2 * BITS) as u16, p.add(at).cast())
        };
        // SAFETY: the load is the array.
        let index = unsafe { broadcast(const { &eights(BITS) }.as_ptr()) };
        let x = _mm512_shuffle_epi8(quarters([piece(0), piece(1), piece(2), piece(3)]), index);
        let bits = BITS as u32;
        let x = apart(x, 32 - 4 * bits, 0xffff_ffff_0000_0000_u64 as i64);
        let x = apart(x, 16 - 2 * bits, 0xffff_0000_ffff_0000_u64 as i64);
        let x = apart(x, 8 - bits, 0xff00_ff00_ff00_ff00_u64 as i64);
        _mm512_and_si512(x, _mm512_set1_epi8((1 << BITS) - 1))
    };
    (half(0), half(1))
}
