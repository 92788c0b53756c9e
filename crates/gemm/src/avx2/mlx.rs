//! MLX affine formats, every width, group size and float type of the side planes.
//!
//! Integers are in order: of 4 bits, byte `j` has value `2j` in its low nibble; of 3, 5 and 6 bits they
//! straddle bytes, and eight of them are as many bytes. A step's two blocks
//! take their scale and bias from group `32 * block / group`. Eight-bit integers are unsigned; as in
//! `Unpacked` 128 moves from them into the offset.

use super::{BLOCKS, Kind, Step, Weights, existing, halves, strided};
use crate::gemm::{Gemm, RowPtrs, Sides};
use std::arch::x86_64::*;

pub struct Mlx2(Sides);
pub struct Mlx3(Sides);
pub struct Mlx4(Sides);
pub struct Mlx5(Sides);
pub struct Mlx6(Sides);
pub struct Mlx8(Sides);

/// Numbers of a unit, per group and row.
type Numbers = [[f32; 4]; 8];

/// Scales and biases of a unit.
#[derive(Clone, Copy)]
pub struct Affine {
    scale: Numbers,
    bias: Numbers,
}

/// The first `groups` numbers from byte `at` of each row; others are 0.
///
/// # Safety
/// The numbers are readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn numbers(sides: &Sides, p: [*const u8; 4], at: usize, groups: usize) -> Numbers {
    // SAFETY: the same contract; a register has two groups.
    unsafe {
        let [a, b, c, d] = p.map(|p| row(sides, p.add(at), groups));
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        let columns = [
            _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
            _mm256_shuffle_ps::<0b01_00_01_00>(ab_high, cd_high),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab_high, cd_high),
        ];
        let mut out = [[0.0; 4]; 8];
        for (i, v) in columns.into_iter().enumerate() {
            _mm_storeu_ps(out[i].as_mut_ptr(), _mm256_castps256_ps128(v));
            _mm_storeu_ps(out[i + 4].as_mut_ptr(), _mm256_extractf128_ps::<1>(v));
        }
        out
    }
}

/// The first `groups` (up to 8) numbers of a row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn row(sides: &Sides, p: *const u8, groups: usize) -> __m256 {
    // SAFETY: as many numbers are read as there are groups.
    unsafe {
        let words = match (sides.bytes, groups) {
            (4, _) => {
                let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let exist = _mm256_cmpgt_epi32(_mm256_set1_epi32(groups as i32), places);
                return _mm256_maskload_ps(p.cast(), exist);
            }
            (_, 8) => _mm_loadu_si128(p.cast()),
            (_, 4) => _mm_set_epi64x(0, p.cast::<i64>().read_unaligned()),
            (_, 2) => _mm_setr_epi32(p.cast::<i32>().read_unaligned(), 0, 0, 0),
            (_, _) => {
                let mut copy = [0u16; 8];
                copy.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(p, 2 * groups);
                _mm_loadu_si128(copy.as_ptr().cast())
            }
        };
        if sides.f16 {
            return _mm256_cvtph_ps(words);
        }
        // A bf16 is the upper half of an f32.
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(words)))
    }
}

/// The numbers of groups `a` and `b` in lanes `4 * block + row`, where `b` may not exist.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn lanes(numbers: &Numbers, a: usize, b: usize, blocks: usize) -> __m256 {
    // SAFETY: loads of four; a unit has at most eight groups.
    let four = |i: usize| unsafe { _mm_loadu_ps(numbers[i % 8].as_ptr()) };
    existing(_mm256_insertf128_ps::<1>(_mm256_castps128_ps256(four(a)), four(b)), blocks)
}

macro_rules! mlx {
    ($name:ident: bits $bits:expr, $kind:expr, run $run:expr, moved $moved:expr, $integers:expr) => {
        impl Weights for $name {
            const VALUES: usize = 32;
            const WIDE: bool = true;
            const OFFSETS: bool = true;
            const KIND: Kind = $kind;
            const RUN: usize = $run;
            const UNIT_BYTES: usize = 32 * $bits;
            const FUSED: bool = matches!($bits, 4 | 8);
            type Head = Affine;

            fn of(d: &Gemm) -> Option<Self> {
                Sides::of(d).map(Self)
            }

            #[inline(always)]
            unsafe fn head(&self, rows: &RowPtrs, k: usize, blocks: usize) -> Affine {
                let (at, groups) = (self.0.at(k), self.0.group(32 * blocks - 1) + 1);
                // SAFETY: the numbers of the groups of `blocks` blocks from value `k` exist.
                unsafe {
                    Affine {
                        scale: numbers(&self.0, rows.scales, at, groups),
                        bias: numbers(&self.0, rows.biases, at, groups),
                    }
                }
            }

            #[inline(always)]
            unsafe fn step(&self, rows: &RowPtrs, k: usize, i: usize, blocks: usize, head: &Affine) -> Step {
                let (at, p) = ((k + 64 * i) / 8 * $bits, &rows.data);
                let (a, b) = (self.0.group(64 * i), self.0.group(64 * i + 32));
                // SAFETY: `blocks` blocks of the step exist.
                unsafe {
                    let q = [
                        $integers(p[0].add(at), blocks),
                        $integers(p[1].add(at), blocks),
                        $integers(p[2].add(at), blocks),
                        $integers(p[3].add(at), blocks),
                    ];
                    let scale = lanes(&head.scale, a, b, blocks);
                    let bias = lanes(&head.bias, a, b, blocks);
                    Step { q, scale: [scale; 2], offset: [moved::<$moved>(scale, bias); 2] }
                }
            }
        }
    };
}

mlx!(Mlx2: bits 2, Kind::Unsigned, run 8, moved 0, bits_in_order::<2>);
mlx!(Mlx3: bits 3, Kind::Unsigned, run 8, moved 0, bits_in_order::<3>);
mlx!(Mlx4: bits 4, Kind::Unsigned, run 8, moved 0, nibbles_in_order);
mlx!(Mlx5: bits 5, Kind::Unsigned, run 4, moved 0, bits_in_order::<5>);
mlx!(Mlx6: bits 6, Kind::Unsigned, run 2, moved 0, bits_in_order::<6>);
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
    let (lo, hi) = unsafe { (strided(p, 32, blocks), strided(p.add(16), 32, blocks)) };
    let flip = _mm256_set1_epi8(-128);
    (_mm256_xor_si256(lo, flip), _mm256_xor_si256(hi, flip))
}

/// 64 integers of `BITS` bits in order. Eight of them go to a lane of 64 bits, and there apart in
/// three steps: by fours, twos, ones.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bits_in_order<const BITS: usize>(p: *const u8, blocks: usize) -> (__m256i, __m256i) {
    /// Where 16 bytes for half a block are loaded from: not past the end of two blocks.
    const fn start(bits: usize, half: usize) -> usize {
        let (at, last) = (2 * bits * half, 8 * bits - 16);
        if at < last { at } else { last }
    }
    const fn eights(bits: usize) -> [[u8; 16]; 4] {
        let mut index = [[128; 16]; 4];
        let mut i = 0;
        while i < 8 * bits {
            let (half, byte) = (i / (2 * bits), i % (2 * bits));
            index[half][byte / bits * 8 + byte % bits] = (i - start(bits, half)) as u8;
            i += 1;
        }
        index
    }
    let mut copy = [0u8; 64];
    // SAFETY: a block that stands alone is copied; then two blocks are readable.
    let p = unsafe {
        if blocks < BLOCKS {
            copy.as_mut_ptr().copy_from_nonoverlapping(p, 4 * BITS);
            copy.as_ptr()
        } else {
            p
        }
    };
    // SAFETY: bytes of the two blocks, and an array of 16.
    let eight = |h: usize| unsafe {
        let index = const { &eights(BITS) }[h].as_ptr();
        _mm_shuffle_epi8(_mm_loadu_si128(p.add(start(BITS, h)).cast()), _mm_loadu_si128(index.cast()))
    };
    let apart = |x: __m256i| {
        let moved = |x: __m256i, by: usize| _mm256_sll_epi64(x, _mm_cvtsi32_si128(by as i32));
        let x = _mm256_blend_epi32::<0b1010_1010>(x, moved(x, 32 - 4 * BITS));
        let x = _mm256_blend_epi16::<0b1010_1010>(x, moved(x, 16 - 2 * BITS));
        let most = (1 << BITS) - 1;
        let low = _mm256_and_si256(x, _mm256_set1_epi16(most));
        _mm256_or_si256(low, _mm256_and_si256(moved(x, 8 - BITS), _mm256_set1_epi16(most << 8)))
    };
    (apart(halves(eight(0), eight(2))), apart(halves(eight(1), eight(3))))
}
