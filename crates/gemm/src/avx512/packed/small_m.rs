//! Small-M GEMM: up to eight activation rows at a time, whose integer sums with 32 weight rows are in registers.
//!
//! A broadcast from memory takes as long as one `vpdpbusd` or two, so 32 weight rows share it. A `vpdpbusd` waits five cycles
//! for the one before it, in which ten others can begin: with eight activation rows there are sixteen. Weights are
//! unpacked four values at a time, for each of these groups of rows again: all at once, they would need the registers, or
//! keep the products waiting. A sum is read and written once for the eight `vpdpbusd` of a block.

use super::super::CHAINS;
use super::sums::Sums;
use super::{Extra, LONGEST, Packed, Pair, Scales, extras};
use crate::each_block;
use crate::gemm::{Gemm, q8_row};
use crate::packed::ROWS;
use crate::simd::prefetch_far;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Activation rows that are multiplied at a time, at most.
const MAX_ROWS: usize = 8;
/// Blocks of theirs, at most: of rows that are very long, fewer are multiplied at a time.
const MAX_BLOCKS: usize = MAX_ROWS * LONGEST / 2;

/// Blocks of 32 weight rows that are multiplied while as many after them are prefetched, about.
const STRETCH: usize = 96;

/// Of so many activation rows, those that are multiplied at a time. There are not kernels for all numbers.
fn together(rows: usize) -> usize {
    match rows {
        1..=4 | 6 => rows,
        5 => 3,
        7 => 4,
        9 | 10 | 12 | 13 => 6,
        _ => MAX_ROWS,
    }
}

/// What waits in memory.
#[repr(C, align(64))]
struct Scratch {
    sum: Sums<MAX_ROWS>,
    factors: [Factors; MAX_BLOCKS],
    /// Of one row, until they are among its factors.
    extra: [Extra; LONGEST],
}

/// What a block of an activation row has beside its integers.
#[derive(Clone, Copy)]
pub struct Factors {
    pub scale: f32,
    pub extra: Extra,
}

/// Blocks of activation rows that are multiplied at a time.
#[derive(Clone, Copy)]
struct ActBlocks {
    /// The first one's integers; the next one's are a stride further.
    q: *const u8,
    stride: usize,
    factors: *const Factors,
}

/// # Safety
/// As [`super::q8_packed`].
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn small_m<P: Packed>(d: &Gemm) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    let most = MAX_BLOCKS / (d.k / 32).max(1);
    let mut m = 0;
    while m < d.rows {
        let count = together((d.rows - m).min(most));
        // SAFETY: rows of the tile; their factors fit.
        unsafe {
            match count {
                1 => {
                    let (x, out) = (d.x.add(m * d.x_stride), d.out.add(m * d.out_stride));
                    super::gemv::gemv::<P>(&Gemm { x, rows: 1, out, ..*d });
                }
                2 => rows::<P, 2>(d, s, m),
                3 => rows::<P, 3>(d, s, m),
                4 => rows::<P, 4>(d, s, m),
                6 => rows::<P, 6>(d, s, m),
                _ => rows::<P, MAX_ROWS>(d, s, m),
            }
        }
        m += count;
    }
}

/// Prefetches weights that follow those at hand: beside every block one line of each of as many streams as a block has lines. The
/// hardware prefetchers look after each page alone, and so bring most where the streams are in different pages.
struct Prefetch {
    at: *const u8,
    apart: usize,
}

impl Prefetch {
    /// What begins at `at`, beside so many blocks.
    fn new(at: *const u8, blocks: usize) -> Self {
        // Odd, so that the streams are not in the same set of a cache. The line that is then left out between two of them comes
        // by itself.
        Self { at, apart: 64 * (blocks | 1) }
    }

    #[inline(always)]
    fn step<P: Packed>(&mut self) {
        for i in 0..(2 * ROWS * P::BYTES / P::BLOCKS).div_ceil(64) {
            prefetch_far(self.at.wrapping_add(i * self.apart));
        }
        self.at = self.at.wrapping_add(64);
    }
}

/// The results of `R` activation rows from `m`.
///
/// # Safety
/// As [`small_m`]: they exist, and there is room for their factors.
#[inline(never)]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn rows<P: Packed, const R: usize>(d: &Gemm, s: *mut Scratch, m: usize) {
    // SAFETY: the same contract.
    unsafe {
        let factors = (&raw mut (*s).factors).cast::<Factors>();
        for r in 0..R {
            let extra = (&raw mut (*s).extra).cast::<Extra>();
            extras::<P>(d, m + r, extra);
            let (_, scale, _) = q8_row(d, m + r);
            for b in 0..d.k / 32 {
                *factors.add(R * b + r) = Factors { scale: *scale.add(b), extra: *extra.add(b) };
            }
        }
        let sum = &raw mut (*s).sum;
        Sums::begin(sum, d.k / 32);
        let (blocks, pairs) = (d.k / 32, d.cols.div_ceil(2 * ROWS));
        let stretches = (pairs * blocks / STRETCH).clamp(1, pairs.max(1));
        for stretch in 0..stretches {
            let [first, end] = [stretch, stretch + 1].map(|i| pairs * i / stretches);
            let next = if end < pairs { d.w.wrapping_add(end * 2 * ROWS * d.w_stride) } else { d.next };
            let mut ahead = Prefetch::new(next, (end - first) * blocks);
            for n in (first..end).map(|pair| pair * 2 * ROWS) {
                columns::<P, R>(d, sum, ActBlocks { q: q8_row(d, m).0, stride: d.x_stride, factors }, n, &mut ahead);
                for r in 0..R {
                    Sums::finish(sum, r, d, m + r, n);
                }
            }
        }
    }
}

/// The sums of weight rows from `n` and the activation rows that begin with `x`.
///
/// # Safety
/// As [`rows`], and `x` has their factors.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn columns<P: Packed, const R: usize>(
    d: &Gemm,
    sum: *mut Sums<MAX_ROWS>,
    mut x: ActBlocks,
    n: usize,
    ahead: &mut Prefetch,
) {
    // SAFETY: blocks of the rows; their sums.
    unsafe {
        let mut w = Pair::new(d, n);
        for first in (0..d.k / 32).step_by(P::BLOCKS) {
            let heads = w.heads::<P>();
            each_block!(P, |ODD, pair| {
                ahead.step::<P>();
                let b = first + 2 * pair + ODD;
                add::<P, R, ODD>((Sums::at(sum, b % CHAINS, 0), b < CHAINS), (w.p, &heads, pair), x);
                x = ActBlocks { q: x.q.add(32), factors: x.factors.add(R), ..x };
            });
            w.advance::<P>();
        }
    }
}

/// Adds the products of the `R` blocks at `x` with block `2 * pair + ODD` of those at both `p` to their sums, or begins them.
///
/// # Safety
/// The caller has the AVX-512 level; the blocks and the sums exist, and the heads are theirs.
#[inline(always)]
unsafe fn add<P: Packed, const R: usize, const ODD: usize>(
    (sums, begins): (*mut [f32; 2 * ROWS], bool),
    (p, heads, pair): ([*const u8; 2], &[P::Head; 2], usize),
    x: ActBlocks,
) {
    // SAFETY: the same contract.
    unsafe {
        let b = 2 * pair + ODD;
        let scales = [P::scales(p[0], &heads[0], b), P::scales(p[1], &heads[1], b)];
        // With four rows or fewer nobody goes to the second base, which may then lie outside.
        let bases = [x.q, x.q.wrapping_add(4 * x.stride)];
        let offsets = [0, x.stride, 2 * x.stride, 3 * x.stride];
        let mut v = starts::<P, R>(x, 0);
        macro_rules! quads {
            ($($i:literal)*) => {$(
                let w = [P::quad::<ODD, $i>(p[0], pair), P::quad::<ODD, $i>(p[1], pair)];
                for (r, v) in v.iter_mut().enumerate() {
                    add_quad::<$i>(v, w, (bases[r / 4], offsets[r % 4]));
                }
            )*};
        }
        quads!(0 1 2 3);
        if !P::WIDE {
            add_scaled::<P, R>((sums, begins), &v, &scales, x, 0);
            v = starts::<P, R>(x, 1);
        }
        quads!(4 5 6 7);
        add_scaled::<P, R>((sums, P::WIDE && begins), &v, &scales, x, if P::WIDE { 0 } else { 1 });
    }
}

/// Integer sums without products.
///
/// # Safety
/// As [`add`].
#[inline(always)]
unsafe fn starts<P: Packed, const R: usize>(x: ActBlocks, part: usize) -> [[__m512i; 2]; R] {
    // SAFETY: the same contract.
    unsafe {
        let mut v = [[_mm512_setzero_si512(); 2]; R];
        for (r, v) in v.iter_mut().enumerate().filter(|_| P::BIAS != 0) {
            *v = [_mm512_set1_epi32((*x.factors.add(r)).extra[part]); 2];
        }
        v
    }
}

/// Adds the products of quad `I` of the activation block at `q` and `offset` bytes.
///
/// # Safety
/// The block exists.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn add_quad<const I: usize>(
    [v0, v1]: &mut [__m512i; 2],
    [w0, w1]: [__m512i; 2],
    (q, offset): (*const u8, usize),
) {
    // SAFETY: a quad of the block; the instructions change nothing but registers.
    unsafe {
        // The compiler would load the broadcasts of all rows first, and have no registers left for them. For the same reason
        // this is not said to be pure: what is not stays in its order.
        let _quad: __m512i;
        std::arch::asm!(
            "vpbroadcastd {quad}, dword ptr [{q} + {offset} + 4 * {i}]",
            "vpdpbusd {v0}, {w0}, {quad}",
            "vpdpbusd {v1}, {w1}, {quad}",
            quad = out(zmm_reg) _quad,
            q = in(reg) q,
            offset = in(reg) offset,
            i = const I,
            v0 = inout(zmm_reg) *v0,
            v1 = inout(zmm_reg) *v1,
            w0 = in(zmm_reg) w0,
            w1 = in(zmm_reg) w1,
            options(readonly, nostack, preserves_flags)
        );
    }
}

/// Adds the integer sums of one or both halves of a block to the sums, or begins them.
///
/// # Safety
/// As [`add`].
#[inline(always)]
unsafe fn add_scaled<P: Packed, const R: usize>(
    (sums, begins): (*mut [f32; 2 * ROWS], bool),
    v: &[[__m512i; 2]; R],
    w: &[Scales; 2],
    x: ActBlocks,
    part: usize,
) {
    // What begins has nothing before it.
    let before = if begins { 0 } else { !0 };
    // SAFETY: the same contract.
    unsafe {
        for (r, v) in v.iter().enumerate() {
            let Factors { scale, extra } = *x.factors.add(r);
            for (half, (v, w)) in v.iter().zip(w).enumerate() {
                let at = sums.add(r).cast::<f32>().add(half * ROWS);
                let scale = _mm512_mul_ps(w.scale[part], _mm512_set1_ps(scale));
                let before = _mm512_maskz_load_ps(before, at);
                let mut sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(*v), scale, before);
                if P::OFFSETS {
                    let of = _mm512_set1_ps(f32::from_bits(extra[part] as u32));
                    sum = _mm512_fmadd_ps(w.offset[part], of, sum);
                }
                _mm512_store_ps(at, sum);
            }
        }
    }
}
