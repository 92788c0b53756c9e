//! Every quantized format: the weights are unpacked by `akunu_dtype`, 256 values at a time, and the
//! products are those of the formats with kernels of their own.

use super::{Kind, Step, Weights, pieces};
use crate::kernels::matmul::dots::{Dots, Integers, RowPtrs};
use akunu_dtype::{DType, Format};
use std::arch::x86_64::*;

/// A quantized format without a kernel of its own; one scale per 16 values.
pub struct Any(&'static Format);

impl Weights for Any {
    const VALUES: usize = 32;
    const WIDE: bool = false;
    const OFFSETS: bool = true;
    const KIND: Kind = Kind::Signed;
    const RUN: usize = 1;
    // Unpacking takes far longer than reading: nothing to ask for ahead.
    const UNIT_BYTES: usize = 0;
    type Head = Integers;

    fn of(d: &Dots) -> Option<Self> {
        Some(Self(DType::from_index(d.dtype)?.format()))
    }

    #[inline(always)]
    unsafe fn head(&self, rows: &RowPtrs, k: usize, blocks: usize) -> Integers {
        // SAFETY: the same contract.
        unsafe { Integers::unpack(self.0, rows, k, blocks) }
    }

    #[inline(always)]
    unsafe fn step(&self, _: &RowPtrs, _: usize, i: usize, _: usize, head: &Integers) -> Step {
        // SAFETY: the caller has the AVX2 level.
        unsafe { load(head, i) }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load(w: &Integers, i: usize) -> Step {
    // SAFETY: 64 bytes of a row.
    let part = |row: usize, at: usize| unsafe { pieces(w.q[row].as_ptr().add(64 * i + at).cast(), 32, 2) };
    // SAFETY: lanes of two blocks.
    let floats = |v: &[[f32; 32]; 2]| [0, 1].map(|t| unsafe { _mm256_loadu_ps(v[t].as_ptr().add(8 * i)) });
    Step { q: [0, 1, 2, 3].map(|r| (part(r, 0), part(r, 16))), scale: floats(&w.scale), offset: floats(&w.offset) }
}
