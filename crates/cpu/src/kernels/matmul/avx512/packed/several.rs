//! Several activation rows: the blocks of 32 weight rows are in registers while all activation rows pass by, four at a time.
//!
//! A broadcast from memory takes as long as one `vpdpbusd` or two, so 32 weight rows share it. A sum is read and written once
//! for the eight `vpdpbusd` of a block.

use super::super::{CHAINS, joined};
use super::{Block, Extra, LONGEST, Packed, Side, ask, extras, extras_len, multiply};
use crate::kernels::matmul::dots::{Dots, q8_row};
use crate::packed::ROWS;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Activation rows that are multiplied at a time, at most, and whose sums wait.
const MOST: usize = 4;
pub const TILE: usize = 64;

/// The body for every block of 32 weight rows from `$n` on, with its number and the blocks of both halves; the same block
/// of the next 32 weight rows is asked for. If there are but 16 weight rows, they stand in for the others.
macro_rules! each_pair {
    ($format:ty, $d:expr, $n:expr, |$b:ident, $w:ident| $body:block) => {{
        let group = ROWS * $d.w_stride;
        let second = if $n + ROWS < $d.cols { group } else { 0 };
        let ahead = 2 * group;
        let mut p = [$d.w.add($n * $d.w_stride), $d.w.add($n * $d.w_stride + second)];
        for first in (0..$d.k / 32).step_by(<$format>::BLOCKS) {
            let heads = [<$format>::head(p[0]), <$format>::head(p[1])];
            for $b in first..first + <$format>::BLOCKS {
                // Asked for all at once, the lines of a superblock would have to wait for each other.
                let part = ROWS * <$format>::BYTES / <$format>::BLOCKS;
                ask(p[0].add(($b - first) * part), part, ahead);
                ask(p[1].add(($b - first) * part), part, ahead);
                let $w = blocks::<$format>(p, &heads, $b - first);
                $body
            }
            p = [p[0].add(ROWS * <$format>::BYTES), p[1].add(ROWS * <$format>::BYTES)];
        }
    }};
}
pub(super) use each_pair;

/// What waits in memory.
#[repr(C, align(64))]
struct Scratch {
    sum: Sums,
    extra: [Extra; MOST * LONGEST],
}

/// The sums of 32 weight rows, by chain and activation row.
#[repr(C, align(64))]
pub struct Sums([[[f32; 2 * ROWS]; TILE]; CHAINS]);

impl Sums {
    /// Those of a chain and an activation row.
    ///
    /// # Safety
    /// `s` has room for them.
    #[inline(always)]
    pub unsafe fn at(s: *mut Self, chain: usize, row: usize) -> *mut [f32; 2 * ROWS] {
        // SAFETY: the caller's promise.
        unsafe { &raw mut (*s).0[chain][row] }
    }

    /// Begins: chains that `blocks` blocks leave out have no products.
    ///
    /// # Safety
    /// `s` has room for all.
    pub unsafe fn begin(s: *mut Self, blocks: usize) {
        for chain in blocks..CHAINS {
            // SAFETY: a chain of `s`.
            unsafe { Self::at(s, chain, 0).write_bytes(0, TILE) }
        }
    }

    /// Adds up the chains of an activation row, and writes what exists of weight rows from `n` as row `m` of the tile.
    ///
    /// # Safety
    /// As [`super::q8_packed`]: the rows exist, and all chains were written.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub unsafe fn finish(s: *mut Self, row: usize, d: &Dots, m: usize, n: usize) {
        // SAFETY: the same contract.
        unsafe {
            for half in 0..if n + ROWS < d.cols { 2 } else { 1 } {
                let mut chains = [_mm512_setzero_ps(); CHAINS];
                for (c, chain) in chains.iter_mut().enumerate() {
                    *chain = _mm512_load_ps(Self::at(s, c, row).cast::<f32>().add(half * ROWS));
                }
                _mm512_storeu_ps(d.out.add(m * d.out_stride + n + half * ROWS), joined(chains));
            }
        }
    }
}

/// # Safety
/// As [`super::q8_packed`].
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn several<P: Packed>(d: &Dots) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    let most = (MOST * LONGEST / extras_len(d).max(1)).min(TILE);
    // SAFETY: room for all.
    unsafe { Sums::begin(&raw mut (*s).sum, d.k / 32) };
    for m0 in (0..d.rows).step_by(most) {
        let rows = most.min(d.rows - m0);
        // SAFETY: rows and columns of the tile; the extras of `most` rows fit.
        unsafe {
            let extra = (&raw mut (*s).extra).cast::<Extra>();
            for m in 0..rows {
                extras::<P>(d, m0 + m, extra.add(m * extras_len(d)));
            }
            let (q, scale, _) = q8_row(d, m0);
            let x = Side { q, scale, extra };
            for n in (0..d.cols).step_by(2 * ROWS) {
                columns::<P>(d, s, (x, rows), n);
                for m in 0..rows {
                    Sums::finish(&raw mut (*s).sum, m, d, m0 + m, n);
                }
            }
        }
    }
}

/// The sums of weight rows from `n` and the activation rows that begin at `x`.
///
/// # Safety
/// As [`several`]: they exist, and their extras.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn columns<P: Packed>(d: &Dots, s: *mut Scratch, (x, rows): (Side, usize), n: usize) {
    // SAFETY: blocks of the rows; sums of the scratch.
    unsafe {
        each_pair!(P, d, n, |b, w| {
            let (mut m, mut x) = (0, x.further(d, 0, b));
            while m < rows {
                let sum = (Sums::at(&raw mut (*s).sum, b % CHAINS, m), b < CHAINS);
                // As even groups as there are.
                let count = (rows - m).div_ceil((rows - m).div_ceil(MOST));
                match count {
                    1 => add::<P, 1>(d, sum, &w, x),
                    2 => add::<P, 2>(d, sum, &w, x),
                    3 => add::<P, 3>(d, sum, &w, x),
                    _ => add::<P, MOST>(d, sum, &w, x),
                }
                (m, x) = (m + count, x.further(d, count, 0));
            }
        });
    }
}

/// Block `b` of those that lie together at both places.
///
/// # Safety
/// The caller has the AVX-512 level; the blocks exist, and the heads are theirs.
#[inline(always)]
pub unsafe fn blocks<P: Packed>(p: [*const u8; 2], heads: &[P::Head; 2], b: usize) -> [Block; 2] {
    // SAFETY: the same contract.
    unsafe {
        match b {
            0 => [P::block::<0>(p[0], &heads[0]), P::block::<0>(p[1], &heads[1])],
            1 => [P::block::<1>(p[0], &heads[0]), P::block::<1>(p[1], &heads[1])],
            2 => [P::block::<2>(p[0], &heads[0]), P::block::<2>(p[1], &heads[1])],
            3 => [P::block::<3>(p[0], &heads[0]), P::block::<3>(p[1], &heads[1])],
            4 => [P::block::<4>(p[0], &heads[0]), P::block::<4>(p[1], &heads[1])],
            5 => [P::block::<5>(p[0], &heads[0]), P::block::<5>(p[1], &heads[1])],
            6 => [P::block::<6>(p[0], &heads[0]), P::block::<6>(p[1], &heads[1])],
            _ => [P::block::<7>(p[0], &heads[0]), P::block::<7>(p[1], &heads[1])],
        }
    }
}

/// Adds the products of the block at `x`, and of `R - 1` rows after it, to their sums, or begins them.
///
/// # Safety
/// The caller has the AVX-512 level; the blocks and the sums exist.
#[inline(always)]
unsafe fn add<P: Packed, const R: usize>(
    d: &Dots,
    (sums, begins): (*mut [f32; 2 * ROWS], bool),
    w: &[Block; 2],
    x: Side,
) {
    // SAFETY: the same contract.
    unsafe {
        let sums = sums.cast::<[__m512; 2]>();
        let mut sum = [[_mm512_setzero_ps(); 2]; R];
        if !begins {
            sum = std::array::from_fn(|r| *sums.add(r));
        }
        multiply::<P, R, 2>(&mut sum, w, &std::array::from_fn(|r| x.further(d, r, 0)));
        for (r, sum) in sum.into_iter().enumerate() {
            *sums.add(r) = sum;
        }
    }
}
