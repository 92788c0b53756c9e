//! Sums that wait in memory.

use super::super::{CHAINS, joined};
use crate::gemm::Gemm;
use crate::packed::ROWS;
use std::arch::x86_64::*;

/// The sums of 32 weight rows, by chain and activation row: where they wait while their products are made.
#[repr(C, align(64))]
pub struct Sums<const M: usize>([[[f32; 2 * ROWS]; M]; CHAINS]);

impl<const M: usize> Sums<M> {
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
            unsafe { Self::at(s, chain, 0).write_bytes(0, M) }
        }
    }

    /// Adds up the chains of an activation row, and writes what exists of weight rows from `n` as row `m` of the tile.
    ///
    /// # Safety
    /// As [`super::q8_packed`]: the rows exist, and all chains were written.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
    pub unsafe fn finish(s: *mut Self, row: usize, d: &Gemm, m: usize, n: usize) {
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
