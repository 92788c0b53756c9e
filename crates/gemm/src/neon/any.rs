//! Every quantized format: the weights are unpacked by `akunu_dtype`, 256 values at a time.

use super::{WeightBlock, Weights};
use crate::gemm::{Gemm, ROWS, RowPtrs, Unpacking};
use akunu_dtype::Unpacked;
use std::arch::aarch64::*;

/// A quantized format without a kernel of its own.
pub struct Any<const WIDE: bool>(Unpacking);

impl<const WIDE: bool> Weights for Any<WIDE> {
    const WIDE: bool = WIDE;
    const OFFSETS: bool = true;
    type Head = ();

    fn of(d: &Gemm) -> Option<Self> {
        Unpacking::of(d).map(Self)
    }

    #[inline(always)]
    unsafe fn head(&self, rows: &RowPtrs, k: usize, blocks: usize) {
        // SAFETY: the same contract; nothing else refers to what was unpacked before.
        unsafe { self.0.unpack(rows, k, blocks) }
    }

    #[inline(always)]
    unsafe fn block(&self, _: &RowPtrs, _: usize, i: usize, _: &()) -> WeightBlock {
        // SAFETY: the caller has the NEON level; nothing is being unpacked.
        unsafe { load(self.0.rows(), i) }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn load(w: &[Unpacked; ROWS], i: usize) -> WeightBlock {
    let q = |w: &Unpacked| {
        // SAFETY: 32 of 256 bytes.
        unsafe {
            let q = w.q.as_ptr().add(32 * i);
            (vld1q_s8(q), vld1q_s8(q.add(16)))
        }
    };
    let lanes = |v: [f32; ROWS]| {
        // SAFETY: the load is the array.
        unsafe { vld1q_f32(v.as_ptr()) }
    };
    let scale = |h: usize| lanes([0, 1, 2, 3].map(|r| w[r].scale[2 * i + h]));
    let offset = |h: usize| lanes([0, 1, 2, 3].map(|r| w[r].offset[2 * i + h]));
    WeightBlock {
        q: [q(&w[0]), q(&w[1]), q(&w[2]), q(&w[3])],
        scale: [scale(0), scale(1)],
        offset: [offset(0), offset(1)],
    }
}
