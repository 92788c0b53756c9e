//! Every quantized format: the weights are unpacked by `akunu_dtype`, 256 values at a time, and the
//! products are those of the formats with kernels of their own.

use super::{Step, Weights};
use crate::gemm::{Gemm, ROWS, RowPtrs, Unpacking};
use akunu_dtype::Unpacked;
use std::arch::x86_64::*;

/// A quantized format without a kernel of its own; one scale per 16 values.
pub struct Any(Unpacking);

impl Weights for Any {
    const VALUES: usize = 32;
    const WIDE: bool = false;
    const OFFSETS: bool = true;
    const BIAS: u8 = 128;
    // Unpacking takes far longer than reading: nothing to prefetch.
    const STEP_BYTES: usize = 0;
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
    unsafe fn step(&self, _: &RowPtrs, _: usize, half: usize, _: usize, _: &()) -> Step {
        // SAFETY: the caller has the AVX-512 level; nothing is being unpacked.
        unsafe { load(self.0.rows(), half) }
    }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn load(w: &[Unpacked; ROWS], half: usize) -> Step {
    let flip = _mm512_set1_epi8(-128);
    let (low, high) = (_mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13), _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15));
    let integers = |w: &Unpacked| {
        // SAFETY: 128 bytes of a row.
        let (a, b) = unsafe {
            let q = w.q.as_ptr().add(128 * half);
            (_mm512_loadu_si512(q.cast()), _mm512_loadu_si512(q.add(64).cast()))
        };
        let (a, b) = (_mm512_xor_si512(a, flip), _mm512_xor_si512(b, flip));
        (_mm512_permutex2var_epi64(a, low, b), _mm512_permutex2var_epi64(a, high, b))
    };
    // Number `2 * block + half of the block` of a row's eight goes to lane `4 * block + row`.
    let first = _mm512_setr_epi32(0, 8, 16, 24, 2, 10, 18, 26, 4, 12, 20, 28, 6, 14, 22, 30);
    let second = _mm512_add_epi32(first, _mm512_set1_epi32(1));
    let lanes = |v: [&[f32; 16]; ROWS]| {
        // SAFETY: eight of sixteen numbers.
        let row = |r: usize| unsafe { _mm256_loadu_ps(v[r].as_ptr().add(8 * half)) };
        let pair = |a, b| _mm512_insertf32x8::<1>(_mm512_castps256_ps512(row(a)), row(b));
        let (a, b) = (pair(0, 1), pair(2, 3));
        [_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, second, b)]
    };
    Step {
        q: [integers(&w[0]), integers(&w[1]), integers(&w[2]), integers(&w[3])],
        scale: lanes([&w[0].scale, &w[1].scale, &w[2].scale, &w[3].scale]),
        offset: lanes([&w[0].offset, &w[1].offset, &w[2].offset, &w[3].offset]),
    }
}
