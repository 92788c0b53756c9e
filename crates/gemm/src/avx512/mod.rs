//! AVX-512 VNNI dot products with int8 activations: the shape all formats share.
//!
//! Work goes in steps: 128 values (four blocks of 32) of four weight rows. A format fills a
//! [`Step`]: its integers, made unsigned by adding `BIAS`, with the first halves of the four blocks
//! in one register and the second halves in another; scales and offsets in lanes `4 * block + row`.
//! `vpdpbusd` leaves four partial sums per block, and adding up a 4×4 transpose of four rows leaves
//! one lane per (block, row): the four chains of `generic` for four weight rows in one register.
//! Integer sums are exact, so only that last register's order matters, and it is the definition's.
//!
//! [`gemv`] does this for one activation row, straight from the weights; [`small_m`] for up to [`SMALL_M`] where a format is
//! unpacked by steps; [`panel`] from weights that are unpacked once for several rows. [`packed`] is for weights that lie in
//! the order that a panel has them in.

mod any;
mod blocks;
mod float;
mod gemv;
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
pub use packed::{Packed, WeightBlock, q8_packed, q8_packed_no_vnni, q8_packed_tiles};
pub use superblocks::*;

use super::gemm::{Gemm, ROWS, RowPtrs};
use akunu_dtype::q8;
use panel::Lanes;
use std::arch::x86_64::*;

/// Values of a step.
pub const STEP: usize = 128;
/// Blocks of a step.
pub const BLOCKS: usize = STEP / q8::BLOCK;
/// Values of the largest unit whose scales are unpacked together: two steps.
pub const PAIR: usize = 2 * STEP;
/// Chains of a sum.
const CHAINS: usize = super::generic::Q8_CHAINS;
/// With up to this many activation rows, weights that are unpacked by steps stay in registers.
pub const SMALL_M: usize = 16;

/// 128 values of four weight rows.
#[derive(Clone, Copy)]
pub struct Step {
    /// First and second halves of the four blocks, per row.
    pub q: [(__m512i, __m512i); ROWS],
    /// Lanes `4 * block + row`; the second entry is for second halves and unused if wide.
    pub scale: [__m512; 2],
    pub offset: [__m512; 2],
}

/// Unpacks the block at a pointer, and those of the 15 weight rows that follow at a stride below 2^27.
///
/// Unsafe because of the pointers and because the caller must have the AVX-512 level.
pub type LanesFn = unsafe fn(*const u8, usize, Lanes);

/// A weight format. Its functions are inlined whole into the kernels, which have the features.
pub trait Weights {
    /// Values of a block.
    const VALUES: usize;
    /// One scale per 32 values, not per 16.
    const WIDE: bool;
    /// Has offsets.
    const OFFSETS: bool;
    /// What the integers of a step are larger by than the format's.
    const BIAS: u8;
    /// Data bytes of 128 values.
    const STEP_BYTES: usize;
    /// How a block of 16 weight rows is unpacked, where that is faster than by steps.
    const LANES: Option<LanesFn> = None;
    /// Whether products with one activation row have a kernel of the format's own, which keeps weights in registers.
    const FUSED: bool = false;
    /// What is prepared for two steps at a time.
    type Head: Copy;

    /// The format of `d`, if it is this one.
    fn of(d: &Gemm) -> Option<Self>
    where
        Self: Sized;

    /// Prepares the two steps at value `k`, a multiple of [`PAIR`].
    ///
    /// # Safety
    /// The caller has the AVX-512 level; `blocks` whole blocks from value `k` lie within the rows.
    unsafe fn head(&self, rows: &RowPtrs, k: usize, blocks: usize) -> Self::Head;

    /// Step `half` of the two at `k`, of which `blocks` (1 to 4) blocks exist. Lanes of blocks that
    /// do not have scale and offset 0.
    ///
    /// # Safety
    /// The caller has the AVX-512 level; the blocks lie within the rows; `head` is that of the rows at `k`,
    /// the last that was made.
    unsafe fn step(&self, rows: &RowPtrs, k: usize, half: usize, blocks: usize, head: &Self::Head) -> Step;
}

/// The kernel of a format.
///
/// # Safety
/// As [`Gemm`] promises; the machine has AVX-512 F, BW, VL, DQ and VNNI.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn q8<W: Weights>(d: &Gemm) {
    let Some(w) = W::of(d) else { return };
    if W::FUSED && d.rows == 1 {
        // SAFETY: the same contract.
        return unsafe { gemv::fused(&w, d) };
    }
    // SAFETY: the same contract.
    unsafe {
        by_form(&w, |form| match d.rows {
            0 => {}
            1 => gemv::gemv(form, d),
            2..=SMALL_M if form.lanes.is_none() => small_m::small_m(form, d),
            _ => panel::panel(form, d),
        });
    }
}

/// What is left of a format once it is unpacked: all but one of the kernels know no more.
pub struct Form<'a> {
    /// Unpacks the two steps at a value of four weight rows, of which so many blocks exist, as far as they do.
    pub unpack: &'a dyn Fn(&RowPtrs, usize, usize, *mut Step),
    pub lanes: Option<LanesFn>,
    pub values: usize,
    pub step_bytes: usize,
    pub bias: u8,
    pub wide: bool,
    pub offsets: bool,
}

/// Gives a format's form to a kernel.
///
/// # Safety
/// The machine has the AVX-512 level; the kernel unpacks blocks that exist, and has room for their steps.
#[inline(always)]
pub unsafe fn by_form<W: Weights>(w: &W, kernel: impl FnOnce(&Form<'_>)) {
    // SAFETY: the caller's promise.
    let unpack = |rows: &RowPtrs, k: usize, blocks: usize, to: *mut Step| unsafe { pair(w, rows, k, blocks, to) };
    kernel(&Form {
        unpack: &unpack,
        lanes: W::LANES,
        values: W::VALUES,
        step_bytes: W::STEP_BYTES,
        bias: W::BIAS,
        wide: W::WIDE,
        offsets: W::OFFSETS,
    });
}

/// Unpacks two steps: the one function that is compiled for every format.
///
/// # Safety
/// As [`Weights::head`]; there is room for the steps.
#[inline(never)]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn pair<W: Weights>(w: &W, rows: &RowPtrs, k: usize, blocks: usize, to: *mut Step) {
    // SAFETY: the same contract.
    unsafe {
        let head = w.head(rows, k, blocks);
        for half in 0..blocks.div_ceil(BLOCKS) {
            let exist = if W::VALUES == PAIR { BLOCKS } else { (blocks - half * BLOCKS).min(BLOCKS) };
            *to.add(half) = w.step(rows, k, half, exist, &head);
        }
    }
}

// Pieces that formats are made of. They ask for the features themselves, so that their intrinsics
// become instructions before anything is inlined into the kernels.

/// The sum of the chains.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
fn joined(c: [__m512; CHAINS]) -> __m512 {
    _mm512_add_ps(_mm512_add_ps(c[0], c[1]), _mm512_add_ps(c[2], c[3]))
}

/// A mask of the low `n` of 64 bits.
#[inline(always)]
pub fn low_bits(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// The lanes `4 * block + row` of the blocks that exist.
#[inline(always)]
pub fn block_lanes(blocks: usize) -> u16 {
    low_bits(ROWS * blocks) as u16
}

/// Four pieces of 16 bytes, `stride` apart; the last that exists stands in for those that do not.
///
/// # Safety
/// Pieces `0..blocks` are readable, `blocks >= 1`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn strided(p: *const u8, stride: usize, blocks: usize) -> __m512i {
    // SAFETY: existing pieces only.
    let piece = |i: usize| unsafe { _mm_loadu_si128(p.add(stride * i.min(blocks - 1)).cast()) };
    quarters([piece(0), piece(1), piece(2), piece(3)])
}

/// Four registers of 16 bytes as one.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub fn quarters(q: [__m128i; 4]) -> __m512i {
    let z = _mm512_castsi128_si512(q[0]);
    let z = _mm512_inserti32x4::<1>(z, q[1]);
    let z = _mm512_inserti32x4::<2>(z, q[2]);
    _mm512_inserti32x4::<3>(z, q[3])
}

/// 16 bytes in every quarter.
///
/// # Safety
/// 16 bytes are readable.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
pub unsafe fn broadcast(p: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(p.cast())) }
}

/// Low and high nibbles of every byte.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub fn nibbles(z: __m512i) -> (__m512i, __m512i) {
    let mask = _mm512_set1_epi8(15);
    (_mm512_and_si512(z, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(z), mask))
}

/// 16 f16 numbers in the low half.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub fn low_f16(z: __m512i) -> __m512 {
    _mm512_cvtph_ps(_mm512_castsi512_si256(z))
}

/// 16 f16 numbers in the high half.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub fn high_f16(z: __m512i) -> __m512 {
    _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(z))
}

/// Four bytes of each of 16 rows, `stride` apart.
///
/// # Safety
/// They are readable, `stride < 2^27`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn words(p: *const u8, stride: usize) -> __m512i {
    let rows = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let at = _mm512_mullo_epi32(rows, _mm512_set1_epi32(stride as i32));
    // SAFETY: the caller's promise.
    unsafe { _mm512_i32gather_epi32::<1>(at, p.cast()) }
}

/// Adds up each quarter's four lanes of four registers: lane `4 * quarter + row`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn add_transposed(v: [__m512i; ROWS]) -> __m512i {
    let pairs = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (a, b) = (pairs(v[0], v[1]), pairs(v[2], v[3]));
    _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
}

/// Transposes the 4×4 32-bit lanes of every quarter.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn transposed(v: [__m512i; ROWS]) -> [__m512i; 4] {
    let (a, b) = (_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    let (c, d) = (_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    [_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c), _mm512_unpacklo_epi64(b, d), _mm512_unpackhi_epi64(b, d)]
}
