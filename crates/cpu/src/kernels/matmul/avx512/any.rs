//! Every quantized format: the weights are unpacked by `akunu_dtype`, 256 values at a time, and the
//! products are those of the formats with kernels of their own.

use super::{Step, Weights, pieces};
use crate::kernels::matmul::dots::{Dots, Integers, RowPtrs};
use akunu_dtype::{DType, Format};
use std::arch::x86_64::*;

/// A quantized format without a kernel of its own; one scale per 16 values.
pub struct Any(&'static Format);

impl Weights for Any {
    const VALUES: usize = 32;
    const WIDE: bool = false;
    const OFFSETS: bool = true;
    const BIAS: u8 = 128;
    // Unpacking takes far longer than reading: nothing to ask for ahead.
    const STEP_BYTES: usize = 0;
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
    unsafe fn step(&self, _: &RowPtrs, _: usize, half: usize, _: usize, head: &Integers) -> Step {
        // SAFETY: the caller has the AVX-512 level.
        unsafe { load(head, half) }
    }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn load(w: &Integers, half: usize) -> Step {
    let flip = _mm512_set1_epi8(-128);
    // SAFETY: 128 bytes of a row.
    let part = |row: usize, at: usize| unsafe { pieces(w.q[row].as_ptr().add(128 * half + at).cast(), 32, 4) };
    // SAFETY: lanes of four blocks.
    let floats = |v: &[[f32; 32]; 2]| [0, 1].map(|t| unsafe { _mm512_loadu_ps(v[t].as_ptr().add(16 * half)) });
    Step {
        q: [0, 1, 2, 3].map(|r| (_mm512_xor_si512(part(r, 0), flip), _mm512_xor_si512(part(r, 16), flip))),
        scale: floats(&w.scale),
        offset: floats(&w.offset),
    }
}
