//! AVX2 dot products with int8 activations: the shape all formats share.
//!
//! As in `avx512`, at half the width: a step is 64 values (two blocks of 32) of four weight rows.
//! A format fills a [`Step`] with the first halves of the two blocks in one register and the second
//! halves in another, scales and offsets in lanes `4 * block + row`. Adding up a 4×4 transpose of
//! four rows leaves one lane per (block, row), and two registers hold the four chains of `generic`.
//!
//! Products come from `vpmaddubsw`, unsigned times signed bytes added in pairs to 16 bits. Integers
//! of up to six bits are kept unsigned and cannot overflow that; those of eight bits are signed, and
//! give their sign to the activation. Where the machine has it, `vpdpbusd` multiplies the same and adds
//! by fours to 32 bits: nothing overflows, and integers of eight bits are biased like others.

mod any;
mod blocks;
mod float;
mod grids;
mod mlx;
mod packed;
mod panel;
mod small_m;
mod superblocks;

pub use any::Any;
pub use blocks::*;
pub use float::{bf16, f16, f32, f32_any, f32_packed};
pub use grids::*;
pub use mlx::{Mlx2, Mlx3, Mlx4, Mlx5, Mlx6, Mlx8};
pub use packed::{q8_packed, q8_packed_vnni};
pub use superblocks::*;

use super::gemm::{Gemm, ROWS, RowPtrs};
use akunu_dtype::q8;
use std::arch::asm;
use std::arch::x86_64::*;

/// Values of a step.
pub const STEP: usize = 64;
/// Blocks of a step.
pub const BLOCKS: usize = STEP / q8::BLOCK;
/// Values of the largest unit whose scales are unpacked together.
pub const UNIT: usize = 256;
/// Steps of a unit.
pub const STEPS: usize = UNIT / STEP;
/// With up to this many activation rows weights are not unpacked to memory.
pub const SMALL_M: usize = 4;

/// 64 values of four weight rows.
#[derive(Clone, Copy)]
pub struct Step {
    /// First and second halves of the two blocks, per row.
    pub q: [(__m256i, __m256i); ROWS],
    /// Lanes `4 * block + row`; the second entry is for second halves and unused if wide.
    pub scale: [__m256; 2],
    pub offset: [__m256; 2],
}

/// What the integers of a step are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The format's, from 0.
    Unsigned,
    /// Larger than the format's by this, from 0.
    Biased(u8),
    /// The format's, of eight bits.
    Signed,
}

impl Kind {
    pub const fn bias(self) -> u8 {
        match self {
            Kind::Biased(bias) => bias,
            Kind::Unsigned | Kind::Signed => 0,
        }
    }
}

/// A weight format. Its functions are inlined whole into the kernels, which have the features.
pub trait Weights {
    /// Values of a block.
    const VALUES: usize;
    /// One scale per 32 values, not per 16.
    const WIDE: bool;
    /// Has offsets.
    const OFFSETS: bool;
    const KIND: Kind;
    /// How many products of a panel can be added in 16 bits: 8, 4, 2 or 1.
    const RUN: usize;
    /// Data bytes of 256 values.
    const UNIT_BYTES: usize;
    /// Whether products with one activation row have a kernel of the format's own, which keeps weights in registers.
    const FUSED: bool = false;
    /// What is prepared for a unit.
    type Head: Copy;

    /// The format of `d`, if it is this one.
    fn of(d: &Gemm) -> Option<Self>
    where
        Self: Sized;

    /// Prepares the unit at value `k`, a multiple of [`UNIT`].
    ///
    /// # Safety
    /// The caller has the AVX2 level; `blocks` whole blocks from value `k` lie within the rows.
    unsafe fn head(&self, rows: &RowPtrs, k: usize, blocks: usize) -> Self::Head;

    /// Step `i` of the unit at `k`, of which `blocks` (1 or 2) blocks exist. Lanes of a block that
    /// does not have scale and offset 0.
    ///
    /// # Safety
    /// The caller has the AVX2 level; the blocks lie within the rows; `head` is that of the rows at `k`,
    /// the last that was made.
    unsafe fn step(&self, rows: &RowPtrs, k: usize, i: usize, blocks: usize, head: &Self::Head) -> Step;
}

/// The kernel of a format.
///
/// # Safety
/// As [`Gemm`] promises; the machine has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn q8<W: Weights>(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { all_rows::<W, false>(d) }
}

/// The kernel of a format, for machines that add products of bytes to 32 bits.
///
/// # Safety
/// As [`Gemm`] promises; the machine has AVX2, FMA, F16C and AVX-VNNI.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn q8_vnni<W: Weights>(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { all_rows::<W, true>(d) }
}

/// # Safety
/// As [`q8`], and as [`q8_vnni`] if `VNNI`.
#[inline(always)]
unsafe fn all_rows<W: Weights, const VNNI: bool>(d: &Gemm) {
    let Some(w) = W::of(d) else { return };
    if W::FUSED && d.rows == 1 {
        // SAFETY: the same contract.
        return unsafe { small_m::gemv::<W, VNNI>(&w, d) };
    }
    // SAFETY: the same contract; who calls it names blocks of the rows, and has room for their steps.
    let unpack = |rows: &RowPtrs, k: usize, blocks: usize, to: *mut Step| unsafe { unit(&w, rows, k, blocks, to) };
    let form = Form {
        unpack: &unpack,
        unit_bytes: W::UNIT_BYTES,
        kind: W::KIND,
        run: W::RUN,
        wide: W::WIDE,
        offsets: W::OFFSETS,
    };
    // SAFETY: the same contract.
    unsafe {
        match d.rows {
            0 => {}
            1..=SMALL_M => small_m::small_m::<VNNI>(&form, d),
            _ => panel::panel::<VNNI>(&form, d),
        }
    }
}

/// What is left of a format once it is unpacked: all but one of the kernels know no more.
struct Form<'a> {
    /// Unpacks the unit at a value of four weight rows, of which so many blocks exist, to as many steps.
    unpack: &'a dyn Fn(&RowPtrs, usize, usize, *mut Step),
    unit_bytes: usize,
    kind: Kind,
    run: usize,
    wide: bool,
    offsets: bool,
}

/// Unpacks a unit: the one function that is compiled for every format.
///
/// # Safety
/// As [`Weights::head`]; there is room for the steps.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn unit<W: Weights>(w: &W, rows: &RowPtrs, k: usize, blocks: usize, to: *mut Step) {
    // SAFETY: the same contract.
    unsafe {
        let head = w.head(rows, k, blocks);
        for i in 0..blocks.div_ceil(BLOCKS) {
            let exist = if W::VALUES == UNIT { BLOCKS } else { (blocks - i * BLOCKS).min(BLOCKS) };
            *to.add(i) = w.step(rows, k, i, exist, &head);
        }
    }
}

// Pieces that formats are made of. They ask for the features themselves, so that their intrinsics
// become instructions before anything is inlined into the kernels.

/// Two registers of 16 bytes as one.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn halves(a: __m128i, b: __m128i) -> __m256i {
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b)
}

/// Two pieces of 16 bytes, `stride` apart; the first stands in for a second that does not exist.
///
/// # Safety
/// Pieces `0..blocks` are readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn strided(p: *const u8, stride: usize, blocks: usize) -> __m256i {
    // SAFETY: existing pieces only.
    unsafe { halves(_mm_loadu_si128(p.cast()), _mm_loadu_si128(p.add(stride * (blocks - 1)).cast())) }
}

/// 16 bytes in both halves.
///
/// # Safety
/// 16 bytes are readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn broadcast(p: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast())) }
}

/// Low and high nibbles of every byte.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn nibbles(z: __m256i) -> (__m256i, __m256i) {
    let mask = _mm256_set1_epi8(15);
    (_mm256_and_si256(z, mask), _mm256_and_si256(_mm256_srli_epi16::<4>(z), mask))
}

/// `v`, with 0 in the lanes of a second block that does not exist.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn existing(v: __m256, blocks: usize) -> __m256 {
    if blocks == BLOCKS { v } else { _mm256_blend_ps::<0xf0>(v, _mm256_setzero_ps()) }
}

/// Adds the products of 32 pairs of unsigned and signed bytes, by fours. It is assembly, because the intrinsic could only be
/// inlined into functions that exist for AVX-VNNI alone.
///
/// # Safety
/// The machine has AVX-VNNI.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dot(sum: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
    let mut sum = sum;
    // SAFETY: the caller has the instruction; registers only.
    unsafe {
        asm!(
            "{{vex}} vpdpbusd {sum}, {unsigned}, {signed}",
            sum = inout(ymm_reg) sum,
            unsigned = in(ymm_reg) unsigned,
            signed = in(ymm_reg) signed,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Adds up each half's four lanes of four registers: lane `4 * half + row`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_transposed(v: [__m256i; ROWS]) -> __m256i {
    let pairs = |a, b| _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (a, b) = (pairs(v[0], v[1]), pairs(v[2], v[3]));
    _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b))
}

/// The sum of each half's four lanes, in all of them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_lanes(v: __m256i) -> __m256i {
    let pairs = _mm256_add_epi32(v, _mm256_shuffle_epi32::<0b01_00_11_10>(v));
    _mm256_add_epi32(pairs, _mm256_shuffle_epi32::<0b10_11_00_01>(pairs))
}

/// The sums of 16 signed bytes each, times an unsigned one that is 128 or less.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn times_bytes(times: u8, v: __m256i) -> [i32; 2] {
    let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(times as i8), v);
    let sums = add_lanes(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    [_mm256_extract_epi32::<0>(sums), _mm256_extract_epi32::<4>(sums)]
}

/// Transposes the 4×4 32-bit lanes of both halves.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn transposed(v: [__m256i; ROWS]) -> [__m256i; 4] {
    let (a, b) = (_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
    let (c, d) = (_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
    [_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)]
}
