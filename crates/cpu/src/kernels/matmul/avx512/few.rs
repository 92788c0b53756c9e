//! Few activation rows: the weights are read once, unpacked in registers, and never stored.

use super::{BLOCKS, PAIR, ROWS, RowPtrs, STEP, Step, Weights, add_transposed, low_bits, q8_row};
use crate::kernels::matmul::dots::Dots;
use std::arch::x86_64::*;

/// How far ahead of the loads weights are asked for, in bytes.
const AHEAD: usize = 1024;

/// 128 activations and what belongs to them.
struct Acts {
    /// First and second halves of the four blocks.
    lo: __m512i,
    hi: __m512i,
    /// Scales and group sums (first and second halves) in lanes `4 * block + row`.
    scale: __m512,
    sums: [__m512; 2],
}

/// # Safety
/// As `Dots` promises, with `d.rows == R`; AVX-512 level.
#[inline(always)]
pub unsafe fn few<W: Weights, const R: usize>(w: &W, d: &Dots) {
    // SAFETY: steps stay within the rows, results within the tile.
    unsafe {
        for n in (0..d.cols).step_by(ROWS) {
            let rows = RowPtrs::new(d, n);
            let mut sums = [_mm512_setzero_ps(); R];
            let whole = d.k / PAIR * PAIR;
            for k in (0..whole).step_by(PAIR) {
                let head = w.head(&rows, k, 2 * BLOCKS);
                for half in 0..2 {
                    prefetch::<W>(&rows, k / STEP + half);
                    add::<W, R>(d, &mut sums, &w.step(&rows, k, half, BLOCKS, &head), k + half * STEP, BLOCKS);
                }
            }
            let rest = (d.k - whole) / 32;
            if rest > 0 {
                let head = w.head(&rows, whole, rest);
                for half in 0..rest.div_ceil(BLOCKS) {
                    let blocks = (rest - half * BLOCKS).min(BLOCKS);
                    let step = w.step(&rows, whole, half, blocks, &head);
                    add::<W, R>(d, &mut sums, &step, whole + half * STEP, blocks);
                }
            }
            let exist = low_bits((d.cols - n).min(ROWS)) as u8;
            for (m, &sum) in sums.iter().enumerate() {
                let out = d.out.add(m * d.out_stride + n);
                _mm_mask_storeu_ps(out, exist, chains(sum));
            }
        }
    }
}

/// Asks for the lines that lie ahead in each row.
#[inline(always)]
unsafe fn prefetch<W: Weights>(rows: &RowPtrs, step: usize) {
    // SAFETY: a prefetch may name any address.
    unsafe {
        for p in rows.data {
            for line in 0..W::STEP_BYTES.div_ceil(64) {
                let at = p.wrapping_add(step * W::STEP_BYTES + AHEAD + 64 * line);
                _mm_prefetch::<_MM_HINT_T0>(at.cast());
            }
        }
    }
}

/// Adds a step's products to the sums of every activation row.
#[inline(always)]
unsafe fn add<W: Weights, const R: usize>(d: &Dots, sums: &mut [__m512; R], w: &Step, k: usize, blocks: usize) {
    // SAFETY: `blocks` blocks from value `k` lie within the activation rows.
    unsafe {
        for (m, sum) in sums.iter_mut().enumerate() {
            let a = acts(d, m, k, blocks);
            // What the bias adds to each lane is taken off beforehand.
            let bias = _mm512_set1_epi8(W::BIAS as i8);
            let zero = _mm512_setzero_si512();
            let start = |v| if W::BIAS == 0 { v } else { _mm512_sub_epi32(zero, v) };
            if W::WIDE {
                let start = start(_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, bias, a.lo), bias, a.hi));
                let v: [__m512i; ROWS] = std::array::from_fn(|r| {
                    _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, w.lo[r], a.lo), w.hi[r], a.hi)
                });
                let scale = _mm512_mul_ps(w.scale[0], a.scale);
                *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(add_transposed(v)), scale, *sum);
                if W::OFFSETS {
                    *sum = _mm512_fmadd_ps(w.offset[0], _mm512_add_ps(a.sums[0], a.sums[1]), *sum);
                }
            } else {
                let start = [a.lo, a.hi].map(|a| start(_mm512_dpbusd_epi32(zero, bias, a)));
                for (h, (w_half, a_half)) in [(&w.lo, a.lo), (&w.hi, a.hi)].into_iter().enumerate() {
                    let v = w_half.map(|w| _mm512_dpbusd_epi32(start[h], w, a_half));
                    let scale = _mm512_mul_ps(w.scale[h], a.scale);
                    *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(add_transposed(v)), scale, *sum);
                }
                if W::OFFSETS {
                    *sum = _mm512_fmadd_ps(w.offset[0], a.sums[0], *sum);
                    *sum = _mm512_fmadd_ps(w.offset[1], a.sums[1], *sum);
                }
            }
        }
    }
}

/// Activations `k..k + 32 * blocks` of row `m`, and zeros up to 128.
#[inline(always)]
unsafe fn acts(d: &Dots, m: usize, k: usize, blocks: usize) -> Acts {
    // SAFETY: masks keep the loads within the row.
    unsafe {
        let (q, scales, sums) = q8_row(d, m);
        let a = _mm512_maskz_loadu_epi8(low_bits(32 * blocks), q.add(k).cast());
        let b = _mm512_maskz_loadu_epi8(low_bits((32 * blocks).saturating_sub(64)), q.wrapping_add(k + 64).cast());
        let firsts = _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13);
        let seconds = _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15);
        let scale = _mm_maskz_loadu_ps(low_bits(blocks) as u8, scales.add(k / 32));
        let sums = _mm256_maskz_loadu_ps(low_bits(2 * blocks) as u8, sums.add(k / 16));
        let each = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
        let twice = _mm512_add_epi32(each, each);
        Acts {
            lo: _mm512_permutex2var_epi64(a, firsts, b),
            hi: _mm512_permutex2var_epi64(a, seconds, b),
            scale: _mm512_permutexvar_ps(each, _mm512_castps128_ps512(scale)),
            sums: [
                _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(sums)),
                _mm512_permutexvar_ps(_mm512_or_si512(twice, _mm512_set1_epi32(1)), _mm512_castps256_ps512(sums)),
            ],
        }
    }
}

/// The sum of the four chains, for four weight rows.
#[inline(always)]
unsafe fn chains(sum: __m512) -> __m128 {
    // SAFETY: registers only.
    unsafe {
        let (a, b) = (_mm512_castps512_ps128(sum), _mm512_extractf32x4_ps::<1>(sum));
        let (c, d) = (_mm512_extractf32x4_ps::<2>(sum), _mm512_extractf32x4_ps::<3>(sum));
        _mm_add_ps(_mm_add_ps(a, b), _mm_add_ps(c, d))
    }
}
