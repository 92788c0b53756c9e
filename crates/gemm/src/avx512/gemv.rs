//! One activation row: the weights are read once, unpacked, and multiplied at once.

use super::{BLOCKS, Form, PAIR, STEP, Step, Weights, add_transposed, low_bits};
use crate::gemm::{AHEAD, Gemm, ROWS, RowPtrs, q8_row};
use crate::simd;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// 128 activations and what belongs to them.
pub struct Acts {
    /// First and second halves of the four blocks.
    pub lo: __m512i,
    pub hi: __m512i,
    /// Scales and group sums (first and second halves) in lanes `4 * block + row`.
    pub scale: __m512,
    pub sums: [__m512; 2],
}

/// Weights that are unpacked two steps at a time.
///
/// # Safety
/// As `Gemm` promises, with `d.rows == 1`.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn gemv(form: &Form<'_>, d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { if form.wide { walk::<true>(form, d) } else { walk::<false>(form, d) } }
}

/// # Safety
/// As [`gemv`].
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn walk<const WIDE: bool>(form: &Form<'_>, d: &Gemm) {
    let apart = d.apart(ROWS);
    let mut room = MaybeUninit::<[Step; 2]>::uninit();
    let steps = room.as_mut_ptr().cast::<Step>();
    // SAFETY: steps stay within the rows, results within the tile; as many steps are read as were unpacked.
    unsafe {
        for n in 0..apart {
            let p = RowPtrs::new(d, n, apart);
            let mut sum = _mm512_setzero_ps();
            for k in (0..d.k).step_by(PAIR) {
                let blocks = ((d.k - k) / 32).min(2 * BLOCKS);
                prefetch(&p, k, AHEAD, form.step_bytes);
                (form.unpack)(&p, k, blocks, steps);
                for half in 0..blocks.div_ceil(BLOCKS) {
                    let a = acts(d, 0, k + half * STEP, (blocks - half * BLOCKS).min(BLOCKS));
                    let step = &*steps.add(half);
                    sum = match WIDE {
                        true => wide(sum, step, &a, form.offsets, form.bias),
                        false => narrow(sum, step, &a, form.offsets, form.bias),
                    };
                }
            }
            let mut sums = [0.0; ROWS];
            _mm_storeu_ps(sums.as_mut_ptr(), chains(sum));
            d.put(0, (n, apart), sums);
        }
    }
}

/// Weights that stay in registers.
///
/// # Safety
/// As [`gemv`].
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn fused<W: Weights>(w: &W, d: &Gemm) {
    let apart = d.apart(ROWS);
    // SAFETY: steps stay within the rows, results within the tile.
    unsafe {
        for n in 0..apart {
            let p = RowPtrs::new(d, n, apart);
            let mut sum = _mm512_setzero_ps();
            let whole = d.k / PAIR * PAIR;
            for k in (0..whole).step_by(PAIR) {
                let head = w.head(&p, k, 2 * BLOCKS);
                prefetch(&p, k, AHEAD, W::STEP_BYTES);
                sum = add::<W>(sum, &w.step(&p, k, 0, BLOCKS, &head), &acts(d, 0, k, BLOCKS));
                sum = add::<W>(sum, &w.step(&p, k, 1, BLOCKS, &head), &acts(d, 0, k + STEP, BLOCKS));
            }
            if W::VALUES < PAIR {
                // Known numbers of blocks, the usual ones, need no masks.
                sum = match (d.k - whole) / 32 {
                    0 => sum,
                    2 => last(w, d, &p, whole, 2, sum),
                    4 => last(w, d, &p, whole, 4, sum),
                    6 => last(w, d, &p, whole, 6, sum),
                    rest => last(w, d, &p, whole, rest, sum),
                };
            }
            let mut sums = [0.0; ROWS];
            _mm_storeu_ps(sums.as_mut_ptr(), chains(sum));
            d.put(0, (n, apart), sums);
        }
    }
}

/// Adds the products of the `rest` blocks from value `from` on, fewer than two steps.
///
/// # Safety
/// As [`gemv`].
#[inline(always)]
unsafe fn last<W: Weights>(w: &W, d: &Gemm, p: &RowPtrs, from: usize, rest: usize, mut sum: __m512) -> __m512 {
    for half in 0..rest.div_ceil(BLOCKS) {
        let blocks = (rest - half * BLOCKS).min(BLOCKS);
        // SAFETY: blocks that exist.
        unsafe {
            let head = w.head(p, from, rest);
            let step = w.step(p, from, half, blocks, &head);
            sum = add::<W>(sum, &step, &acts(d, 0, from + half * STEP, blocks));
        }
    }
    sum
}

/// Prefetches the lines of the two steps at value `k` of each row, `ahead` bytes on.
#[inline(always)]
pub fn prefetch(rows: &RowPtrs, k: usize, ahead: usize, step_bytes: usize) {
    for p in rows.data {
        for line in 0..(2 * step_bytes).div_ceil(64) {
            simd::prefetch(p.wrapping_add(k / STEP * step_bytes + ahead + 64 * line));
        }
    }
}

/// Adds a step's products.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn add<W: Weights>(sum: __m512, w: &Step, a: &Acts) -> __m512 {
    match W::WIDE {
        true => wide(sum, w, a, W::OFFSETS, W::BIAS),
        false => narrow(sum, w, a, W::OFFSETS, W::BIAS),
    }
}

/// What the bias adds to each lane, to be taken off beforehand.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn start(bias: u8, a: __m512i, b: Option<__m512i>) -> __m512i {
    let zero = _mm512_setzero_si512();
    if bias == 0 {
        return zero;
    }
    let bias = _mm512_set1_epi8(bias as i8);
    let v = _mm512_dpbusd_epi32(zero, bias, a);
    _mm512_sub_epi32(zero, b.map_or(v, |b| _mm512_dpbusd_epi32(v, bias, b)))
}

/// One scale per block; `bias` is what integers are larger by than the format's.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn wide(sum: __m512, w: &Step, a: &Acts, offsets: bool, bias: u8) -> __m512 {
    let start = start(bias, a.lo, Some(a.hi));
    let v = w.q.map(|(lo, hi)| _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, lo, a.lo), hi, a.hi));
    let scale = _mm512_mul_ps(w.scale[0], a.scale);
    let sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(add_transposed(v)), scale, sum);
    if !offsets {
        return sum;
    }
    _mm512_fmadd_ps(w.offset[0], _mm512_add_ps(a.sums[0], a.sums[1]), sum)
}

/// One scale per half of a block.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn narrow(sum: __m512, w: &Step, a: &Acts, offsets: bool, bias: u8) -> __m512 {
    let (lo, hi) = (start(bias, a.lo, None), start(bias, a.hi, None));
    let lo = add_transposed(w.q.map(|q| _mm512_dpbusd_epi32(lo, q.0, a.lo)));
    let hi = add_transposed(w.q.map(|q| _mm512_dpbusd_epi32(hi, q.1, a.hi)));
    let sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(lo), _mm512_mul_ps(w.scale[0], a.scale), sum);
    let sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(hi), _mm512_mul_ps(w.scale[1], a.scale), sum);
    if !offsets {
        return sum;
    }
    let sum = _mm512_fmadd_ps(w.offset[0], a.sums[0], sum);
    _mm512_fmadd_ps(w.offset[1], a.sums[1], sum)
}

/// Activations `k..k + 32 * blocks` of row `m`, and zeros up to 128.
///
/// # Safety
/// They lie within the row.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn acts(d: &Gemm, m: usize, k: usize, blocks: usize) -> Acts {
    // SAFETY: masks keep the loads within the row.
    let (a, b, scale, sums) = unsafe {
        let (q, scales, sums) = q8_row(d, m);
        (
            _mm512_maskz_loadu_epi8(low_bits(32 * blocks), q.add(k).cast()),
            _mm512_maskz_loadu_epi8(low_bits((32 * blocks).saturating_sub(64)), q.wrapping_add(k + 64).cast()),
            _mm_maskz_loadu_ps(low_bits(blocks) as u8, scales.add(k / 32)),
            _mm256_maskz_loadu_ps(low_bits(2 * blocks) as u8, sums.add(k / 16)),
        )
    };
    let each = |index| _mm512_permutexvar_ps(index, _mm512_castps256_ps512(sums));
    let block = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    Acts {
        lo: _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13), b),
        hi: _mm512_permutex2var_epi64(a, _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15), b),
        scale: _mm512_permutexvar_ps(block, _mm512_castps128_ps512(scale)),
        sums: [
            each(_mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6)),
            each(_mm512_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 7)),
        ],
    }
}

/// The sum of the four chains, for four weight rows.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub fn chains(sum: __m512) -> __m128 {
    let (a, b) = (_mm512_castps512_ps128(sum), _mm512_extractf32x4_ps::<1>(sum));
    let (c, d) = (_mm512_extractf32x4_ps::<2>(sum), _mm512_extractf32x4_ps::<3>(sum));
    _mm_add_ps(_mm_add_ps(a, b), _mm_add_ps(c, d))
}
