//! GEMV: groups of 16 weight rows in several streams, a block of each in turn.

use super::super::{CHAINS, joined};
use super::{ActBlock, Extra, LONGEST, Packed, WeightBlock, extras, prefetch_bytes};
use crate::gemm::{AHEAD, Gemm, STREAMS, q8_row};
use crate::packed::ROWS;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// # Safety
/// As [`super::q8_packed`], with one row.
#[inline(never)]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn gemv<P: Packed>(d: &Gemm) {
    let mut room = MaybeUninit::<[Extra; LONGEST]>::uninit();
    // SAFETY: the extras are those of the row, and there is room for them.
    unsafe {
        extras::<P>(d, 0, room.as_mut_ptr().cast());
        let (q, scale, _) = q8_row(d, 0);
        let x = ActBlock { q, scale, extra: room.as_ptr().cast() };
        let rest = walk::<P, STREAMS>(d, 0, x);
        let rest = walk::<P, 2>(d, rest, x);
        walk::<P, 1>(d, rest, x);
    }
}

/// Weight rows from `n` on, as many as `G` streams share evenly; returns the first that is left.
///
/// # Safety
/// As [`gemv`]; `x` is the activation row with its extras.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn walk<P: Packed, const G: usize>(d: &Gemm, n: usize, x: ActBlock) -> usize {
    let apart = (d.cols - n) / (G * ROWS) * ROWS;
    for n in (n..n + apart).step_by(ROWS) {
        // SAFETY: groups of the tile.
        unsafe { groups::<P, G>(d, (n, apart), x) }
    }
    n + G * apart
}

/// The sums of `G` groups of 16 weight rows, the first at row `n` and each `apart` from the last.
///
/// # Safety
/// As [`walk`]: the groups are the tile's.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn groups<P: Packed, const G: usize>(d: &Gemm, (n, apart): (usize, usize), x: ActBlock) {
    let blocks = d.k / 32;
    let bytes = ROWS * P::BYTES / P::BLOCKS;
    let mut sum = [[_mm512_setzero_ps(); CHAINS]; G];
    // SAFETY: blocks of the rows; results stay within the tile.
    unsafe {
        for b in (0..blocks).step_by(P::BLOCKS.max(CHAINS)) {
            let at = |g: usize, b: usize| d.w.add((n + g * apart) * d.w_stride + b / P::BLOCKS * ROWS * P::BYTES);
            let heads: [P::Head; G] = std::array::from_fn(|g| P::head(at(g, b)));
            let count = if P::BLOCKS == 8 { std::hint::black_box(8) } else { CHAINS };
            for first in (0..count).step_by(CHAINS) {
                // The block of chain `C` and the last bit of its number.
                macro_rules! add {
                    ($($C:literal $odd:literal)*) => {$(
                        let i = first + $C;
                        if P::BLOCKS == 8 || b + i < blocks {
                            let x = x.further(d, 0, b + i);
                            for (g, sum) in sum.iter_mut().enumerate() {
                                let at = at(g, b + i);
                                prefetch_bytes(at.add(i % P::BLOCKS * bytes), bytes, AHEAD);
                                let w = P::block::<$odd>(at, &heads[g], i % P::BLOCKS / 2);
                                sum[$C] = multiply::<P>(sum[$C], &w, x);
                            }
                        }
                    )*};
                }
                add!(0 0 1 1 2 0 3 1);
            }
        }
        for (g, sum) in sum.into_iter().enumerate() {
            _mm512_storeu_ps(d.out.add(n + g * apart), joined(sum));
        }
    }
}

/// A sum with the products of a block.
///
/// # Safety
/// The block of activations exists.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn multiply<P: Packed>(mut sum: __m512, w: &WeightBlock, x: ActBlock) -> __m512 {
    let parts = if P::WIDE { 1 } else { 2 };
    // SAFETY: the caller's block.
    unsafe {
        let scale = _mm512_set1_ps(*x.scale);
        for part in 0..parts {
            let mut v = _mm512_set1_epi32(if P::BIAS == 0 { 0 } else { (*x.extra)[part] });
            for (i, q) in w.q.iter().enumerate().skip(4 * part).take(8 / parts) {
                v = _mm512_dpbusd_epi32(v, *q, _mm512_set1_epi32(x.q.add(4 * i).cast::<i32>().read()));
            }
            sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(v), _mm512_mul_ps(w.scales.scale[part], scale), sum);
        }
        if P::OFFSETS {
            sum = _mm512_fmadd_ps(w.scales.offset[0], _mm512_set1_ps(f32::from_bits((*x.extra)[0] as u32)), sum);
        }
    }
    sum
}
