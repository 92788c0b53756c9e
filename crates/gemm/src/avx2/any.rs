//! Every quantized format: the weights are unpacked by `akunu_dtype`, 256 values at a time, and the
//! products are those of the formats with kernels of their own.

use super::{Kind, Step, Weights, strided};
use crate::gemm::{Gemm, ROWS, RowPtrs, Unpacking};
use akunu_dtype::Unpacked;
use std::arch::x86_64::*;

/// A quantized format without a kernel of its own; one scale per 16 values.
pub struct Any(Unpacking);

impl Weights for Any {
    const VALUES: usize = 32;
    const WIDE: bool = false;
    const OFFSETS: bool = true;
    const KIND: Kind = Kind::Signed;
    const RUN: usize = 1;
    // Unpacking takes far longer than reading: nothing to prefetch.
    const UNIT_BYTES: usize = 0;
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
    unsafe fn step(&self, _: &RowPtrs, _: usize, i: usize, _: usize, _: &()) -> Step {
        // SAFETY: the caller has the AVX2 level; nothing is being unpacked.
        unsafe { load(self.0.rows(), i) }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load(w: &[Unpacked; ROWS], i: usize) -> Step {
    // SAFETY: 64 bytes of a row.
    let part = |row: usize, at: usize| unsafe { strided(w[row].q.as_ptr().add(64 * i + at).cast(), 32, 2) };
    // Number `2 * block + half of the block` of a row's four goes to lane `4 * block + row`.
    let lanes = |v: [&[f32; 16]; ROWS]| {
        // SAFETY: four of sixteen numbers.
        let row = |r: usize| unsafe { _mm_loadu_ps(v[r].as_ptr().add(4 * i)) };
        let (a, b) = (_mm_unpacklo_ps(row(0), row(1)), _mm_unpacklo_ps(row(2), row(3)));
        let (c, d) = (_mm_unpackhi_ps(row(0), row(1)), _mm_unpackhi_ps(row(2), row(3)));
        let blocks = |a, b| _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(a), b);
        [blocks(_mm_movelh_ps(a, b), _mm_movelh_ps(c, d)), blocks(_mm_movehl_ps(b, a), _mm_movehl_ps(d, c))]
    };
    Step {
        q: [0, 1, 2, 3].map(|r| (part(r, 0), part(r, 16))),
        scale: lanes([&w[0].scale, &w[1].scale, &w[2].scale, &w[3].scale]),
        offset: lanes([&w[0].offset, &w[1].offset, &w[2].offset, &w[3].offset]),
    }
}
