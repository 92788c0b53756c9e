//! One activation row.

use super::super::{CHAINS, joined};
use super::{AHEAD, Extra, LONGEST, Packed, Side, ask, extras, multiply};
use crate::kernels::matmul::dots::{Dots, q8_row};
use crate::packed::ROWS;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// # Safety
/// As [`super::q8_packed`], with one row.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn one<P: Packed>(d: &Dots) {
    let mut room = MaybeUninit::<[Extra; LONGEST]>::uninit();
    let blocks = d.k / 32;
    // SAFETY: blocks of the rows; extras are read where they were written; results stay within the tile.
    unsafe {
        extras::<P>(d, 0, room.as_mut_ptr().cast());
        let (q, scale, _) = q8_row(d, 0);
        let row = Side { q, scale, extra: room.as_ptr().cast() };
        let x = |b: usize| row.further(d, 0, b);
        for n in (0..d.cols).step_by(ROWS) {
            let mut at = d.w.add(n * d.w_stride);
            let mut sum = [_mm512_setzero_ps(); CHAINS];
            let mut b = 0;
            while P::BLOCKS == 1 && b + 4 <= blocks {
                ask(at, 4 * ROWS * P::BYTES, AHEAD);
                let next = |i: usize| at.add(i * ROWS * P::BYTES);
                add::<P, 0, 0>(&mut sum, next(0), &P::head(next(0)), x(b));
                add::<P, 0, 1>(&mut sum, next(1), &P::head(next(1)), x(b + 1));
                add::<P, 0, 2>(&mut sum, next(2), &P::head(next(2)), x(b + 2));
                add::<P, 0, 3>(&mut sum, next(3), &P::head(next(3)), x(b + 3));
                (at, b) = (next(4), b + 4);
            }
            while P::BLOCKS == 8 && b < blocks {
                ask(at, ROWS * P::BYTES, AHEAD);
                let head = P::head(at);
                add::<P, 0, 0>(&mut sum, at, &head, x(b));
                add::<P, 1, 1>(&mut sum, at, &head, x(b + 1));
                add::<P, 2, 2>(&mut sum, at, &head, x(b + 2));
                add::<P, 3, 3>(&mut sum, at, &head, x(b + 3));
                add::<P, 4, 0>(&mut sum, at, &head, x(b + 4));
                add::<P, 5, 1>(&mut sum, at, &head, x(b + 5));
                add::<P, 6, 2>(&mut sum, at, &head, x(b + 6));
                add::<P, 7, 3>(&mut sum, at, &head, x(b + 7));
                (at, b) = (at.add(ROWS * P::BYTES), b + 8);
            }
            // Up to three that are left of blocks that lie alone.
            if b < blocks {
                ask(at, (blocks - b) * ROWS * P::BYTES, AHEAD);
                add::<P, 0, 0>(&mut sum, at, &P::head(at), x(b));
            }
            if b + 1 < blocks {
                let at = at.add(ROWS * P::BYTES);
                add::<P, 0, 1>(&mut sum, at, &P::head(at), x(b + 1));
            }
            if b + 2 < blocks {
                let at = at.add(2 * ROWS * P::BYTES);
                add::<P, 0, 2>(&mut sum, at, &P::head(at), x(b + 2));
            }
            _mm512_storeu_ps(d.out.add(n), joined(sum));
        }
    }
}

/// Adds the products of block `B` of those at `at`, and of the activations at `x`, to chain `C`.
///
/// # Safety
/// The caller has the AVX-512 level; the blocks exist, and `head` is theirs.
#[inline(always)]
unsafe fn add<P: Packed, const B: usize, const C: usize>(
    sum: &mut [__m512; CHAINS],
    at: *const u8,
    head: &P::Head,
    x: Side,
) {
    // SAFETY: the same contract.
    unsafe {
        let mut chain = [[sum[C]]];
        multiply::<P, 1, 1>(&mut chain, &[P::block::<B>(at, head)], &[x]);
        sum[C] = chain[0][0];
    }
}
