//! NEON dot products with int8 activations: the shape all formats share.
//!
//! Work goes by blocks: 32 values of four weight rows. Products of bytes are added up to four partial sums per row, and
//! pairwise additions leave one lane per row; a register for each of the four chains of `generic` adds those up. Without
//! `sdot` bytes are multiplied to 16 bits. Where the machine has it, `smmla` takes two activation rows at a time: one
//! instruction multiplies eight values of two weight rows with eight of both. Integer sums are exact, so only the order of the
//! chains matters, and it is the definition's.

mod any;
mod blocks;
mod float;
mod superblocks;

pub use any::Any;
pub use blocks::{Q4_0, Q4_1, Q8_0};
pub use float::{bf16, f16, f32, f32_any};
pub use superblocks::{Q4K, Q6K};

use super::gemm::{Gemm, ROWS, RowPtrs, q8_row};
use std::arch::aarch64::*;
use std::arch::asm;

/// The formats that `akunu_dtype` unpacks: with one scale per block, and with one per half of it.
macro_rules! unpacked {
    (wide $($wide:ident)*, narrow $($narrow:ident)*) => {
        $(pub type $wide = Any<true>;)*
        $(pub type $narrow = Any<false>;)*
    };
}
unpacked! {
    wide Q5_0 Q5_1 Q5K Iq1S Iq2Xxs Iq3Xxs Iq3S Iq4Nl Iq4Xs Mxfp4 Mlx2 Mlx3 Mlx4 Mlx5 Mlx6 Mlx8,
    narrow Q2K Q3K Iq1M Iq2Xs Iq2S
}

/// Values of the largest unit whose scales are unpacked together.
pub const UNIT: usize = 256;
/// Chains of a sum, as in `generic`.
const CHAINS: usize = 4;
/// Activation rows that share an unpacked block.
const TILE: usize = 4;

/// 32 values of four weight rows.
#[derive(Clone, Copy)]
pub struct WeightBlock {
    /// First and second halves, per row.
    pub q: [Integers; ROWS],
    /// A lane per row; the second entry is for second halves and unused if wide.
    pub scale: [float32x4_t; 2],
    pub offset: [float32x4_t; 2],
}

/// A weight format.
pub trait Weights {
    /// One scale per 32 values, not per 16.
    const WIDE: bool;
    /// Has offsets.
    const OFFSETS: bool;
    /// What is prepared for a unit.
    type Head;

    /// The format of `d`, if it is this one.
    fn of(d: &Gemm) -> Option<Self>
    where
        Self: Sized;

    /// Prepares the unit at value `k`, a multiple of [`UNIT`].
    ///
    /// # Safety
    /// The caller has the NEON level; `blocks` whole blocks from value `k` lie within the rows.
    unsafe fn head(&self, rows: &RowPtrs, k: usize, blocks: usize) -> Self::Head;

    /// Block `i` of the unit at `k`.
    ///
    /// # Safety
    /// The caller has the NEON level; the block lies within the rows; `head` is that of the rows at
    /// `k`, the last that was made.
    unsafe fn block(&self, rows: &RowPtrs, k: usize, i: usize, head: &Self::Head) -> WeightBlock;
}

/// The instructions that multiply bytes.
trait Multiply {
    /// Whether activation rows go in pairs, with `smmla`.
    const PAIRS: bool;

    /// Adds 16 products to four sums.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn dot(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t;
}

/// NEON alone.
struct Widened;
/// With dot products.
struct Dotted;
/// With products of matrices too.
struct Matrices;

impl Multiply for Widened {
    const PAIRS: bool = false;
    #[inline(always)]
    unsafe fn dot(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: the same contract.
        unsafe { vpadalq_s16(vpadalq_s16(sum, vmull_s8(vget_low_s8(a), vget_low_s8(b))), vmull_high_s8(a, b)) }
    }
}

impl Multiply for Dotted {
    const PAIRS: bool = false;
    #[inline(always)]
    unsafe fn dot(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: the same contract.
        unsafe { sdot(sum, a, b) }
    }
}

impl Multiply for Matrices {
    const PAIRS: bool = true;
    #[inline(always)]
    unsafe fn dot(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: the same contract.
        unsafe { sdot(sum, a, b) }
    }
}

/// The kernel of a format.
///
/// # Safety
/// As [`Gemm`] promises; the machine has NEON.
#[target_feature(enable = "neon")]
pub unsafe fn q8<W: Weights>(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { all_rows::<W, Widened>(d) }
}

/// The kernel of a format, for machines with dot products of bytes.
///
/// # Safety
/// As [`Gemm`] promises; the machine has the dot-product instructions.
#[target_feature(enable = "neon,dotprod")]
pub unsafe fn q8_dotprod<W: Weights>(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { all_rows::<W, Dotted>(d) }
}

/// The kernel of a format, for machines that multiply matrices of bytes.
///
/// # Safety
/// As [`Gemm`] promises; the machine has the dot-product and the matrix instructions.
#[target_feature(enable = "neon,dotprod,i8mm")]
pub unsafe fn q8_i8mm<W: Weights>(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { all_rows::<W, Matrices>(d) }
}

/// Every product; activation rows in pairs where the instructions take two.
///
/// # Safety
/// As [`Gemm`] promises; the machine has the instructions of `I`.
#[inline(always)]
unsafe fn all_rows<W: Weights, I: Multiply>(d: &Gemm) {
    let Some(w) = W::of(d) else { return };
    let mut m = 0;
    while m < d.rows {
        // SAFETY: the same contract; rows of the tile.
        m += unsafe {
            match d.rows - m {
                TILE.. if I::PAIRS => rows::<W, I, TILE, true>(&w, d, m),
                TILE.. => rows::<W, I, TILE, false>(&w, d, m),
                2.. if I::PAIRS => rows::<W, I, 2, true>(&w, d, m),
                _ => rows::<W, I, 1, false>(&w, d, m),
            }
        };
    }
}

/// Products of activation rows `m..m + M` with every weight row; returns `M`.
///
/// # Safety
/// As [`all_rows`]; `M` rows from `m` on are there, an even number if in `PAIRS`.
#[inline(always)]
unsafe fn rows<W: Weights, I: Multiply, const M: usize, const PAIRS: bool>(w: &W, d: &Gemm, m: usize) -> usize {
    // SAFETY: blocks stay within the rows, results within the tile.
    unsafe {
        let x: [_; M] = std::array::from_fn(|i| q8_row(d, m + i));
        for n in (0..d.cols).step_by(ROWS) {
            let p = RowPtrs::new(d, n, 1);
            let mut sums = [[vdupq_n_f32(0.0); CHAINS]; M];
            for k in (0..d.k).step_by(UNIT) {
                let blocks = (UNIT / 32).min((d.k - k) / 32);
                let head = w.head(&p, k, blocks);
                for i in (0..blocks).step_by(CHAINS) {
                    for chain in 0..CHAINS.min(blocks - i) {
                        let block = w.block(&p, k, i + chain, &head);
                        let b = k / 32 + i + chain;
                        if PAIRS {
                            let q = [zip(block.q[0], block.q[1]), zip(block.q[2], block.q[3])];
                            for (sum, x) in sums.as_chunks_mut::<2>().0.iter_mut().zip(x.as_chunks::<2>().0) {
                                let v = matrix_products::<W>(&q, &zip(integers(x[0], b), integers(x[1], b)));
                                sum[0][chain] = add::<W>(sum[0][chain], &block, v[0], x[0], b);
                                sum[1][chain] = add::<W>(sum[1][chain], &block, v[1], x[1], b);
                            }
                            continue;
                        }
                        for (sum, x) in sums.iter_mut().zip(x) {
                            let v = dot_products::<W, I>(&block, integers(x, b));
                            sum[chain] = add::<W>(sum[chain], &block, v, x, b);
                        }
                    }
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                let mut out = [0.0; ROWS];
                vst1q_f32(out.as_mut_ptr(), vaddq_f32(vaddq_f32(sum[0], sum[1]), vaddq_f32(sum[2], sum[3])));
                for (n, out) in (n..d.cols).zip(out) {
                    *d.out.add((m + i) * d.out_stride + n) = out;
                }
            }
        }
    }
    M
}

/// An activation row: integers, scales, sums.
type Row = (*const u8, *const f32, *const f32);
/// 32 values: first and second half.
type Integers = (int8x16_t, int8x16_t);
/// Sums of products, a lane per weight row: of the block if it is wide, else of its halves.
type Products = [int32x4_t; 2];

/// Block `b` of an activation row.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn integers(x: Row, b: usize) -> Integers {
    // SAFETY: a block of the row.
    unsafe { (vld1q_s8(x.0.add(32 * b).cast()), vld1q_s8(x.0.add(32 * b + 16).cast())) }
}

/// The products of four weight rows with an activation row.
///
/// # Safety
/// The machine has the instructions of `I`.
#[inline(always)]
unsafe fn dot_products<W: Weights, I: Multiply>(w: &WeightBlock, x: Integers) -> Products {
    // SAFETY: the same contract.
    unsafe {
        let mut sums = [[vdupq_n_s32(0); ROWS]; 2];
        // Loops, since closures would be compiled without the instructions.
        for (r, q) in w.q.into_iter().enumerate() {
            sums[0][r] = I::dot(sums[0][r], q.0, x.0);
            let second = if W::WIDE { 0 } else { 1 };
            sums[second][r] = I::dot(sums[second][r], q.1, x.1);
        }
        [lanes(sums[0]), lanes(sums[1])]
    }
}

/// Two rows of 32 values, by eights: the first row's, then the second's.
#[inline]
#[target_feature(enable = "neon")]
fn zip(a: Integers, b: Integers) -> [int8x16_t; 4] {
    let wide = |v: Integers| [vreinterpretq_s64_s8(v.0), vreinterpretq_s64_s8(v.1)];
    let (a, b) = (wide(a), wide(b));
    [vzip1q_s64(a[0], b[0]), vzip2q_s64(a[0], b[0]), vzip1q_s64(a[1], b[1]), vzip2q_s64(a[1], b[1])]
        .map(|v| vreinterpretq_s8_s64(v))
}

/// The products of two pairs of weight rows with a pair of activation rows.
#[inline]
#[target_feature(enable = "neon,dotprod,i8mm")]
fn matrix_products<W: Weights>(w: &[[int8x16_t; 4]; 2], x: &[int8x16_t; 4]) -> [Products; 2] {
    let zero = vdupq_n_s32(0);
    // Of each pair of weight rows: the first with both activation rows, then the second.
    let by_row = |v: [int32x4_t; 2]| [vuzp1q_s32(v[0], v[1]), vuzp2q_s32(v[0], v[1])];
    let half = |sums: [int32x4_t; 2], h: usize| {
        [0, 1].map(|p| smmla(smmla(sums[p], w[p][2 * h], x[2 * h]), w[p][2 * h + 1], x[2 * h + 1]))
    };
    if W::WIDE {
        return by_row(half(half([zero; 2], 0), 1)).map(|v| [v, zero]);
    }
    let (first, second) = (by_row(half([zero; 2], 0)), by_row(half([zero; 2], 1)));
    [[first[0], second[0]], [first[1], second[1]]]
}

/// Adds the products of a block, which is the activation row's block `b`.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn add<W: Weights>(sum: float32x4_t, w: &WeightBlock, v: Products, x: Row, b: usize) -> float32x4_t {
    // SAFETY: a block of the activation row.
    let (scale, sums) = unsafe { (*x.1.add(b), [*x.2.add(2 * b), *x.2.add(2 * b + 1)]) };
    let step = |sum, v, w_scale| vfmaq_f32(sum, vcvtq_f32_s32(v), vmulq_n_f32(w_scale, scale));
    if W::WIDE {
        let sum = step(sum, v[0], w.scale[0]);
        return if W::OFFSETS { vfmaq_n_f32(sum, w.offset[0], sums[0] + sums[1]) } else { sum };
    }
    let sum = step(step(sum, v[0], w.scale[0]), v[1], w.scale[1]);
    if !W::OFFSETS {
        return sum;
    }
    vfmaq_n_f32(vfmaq_n_f32(sum, w.offset[0], sums[0]), w.offset[1], sums[1])
}

/// Adds up the lanes of four registers, one lane each.
#[inline]
#[target_feature(enable = "neon")]
fn lanes(v: [int32x4_t; ROWS]) -> int32x4_t {
    vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]))
}

/// Adds the products of 16 pairs, by fours. The intrinsic is not stable.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: the caller has the instruction; registers only.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Adds the products of two rows of eight with two rows of eight. The intrinsic is not stable.
#[inline]
#[target_feature(enable = "neon,dotprod,i8mm")]
fn smmla(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: the caller has the instruction; registers only.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// The f16 of each row at its pointer.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn f16s(p: [*const u8; ROWS]) -> float32x4_t {
    // SAFETY: the caller's blocks have these numbers.
    let bits = p.map(|p| unsafe { p.cast::<u16>().read_unaligned() });
    // SAFETY: the load is the array.
    vcvt_f32_f16(vreinterpret_f16_u16(unsafe { vld1_u16(bits.as_ptr()) }))
}
