//! Few activation rows: the weights are read once, unpacked in registers, and never stored.

use super::{BLOCKS, FEW, Kind, STEP, STEPS, Step, UNIT, Weights, add_transposed, two};
use crate::kernels::matmul::dots::{Dots, ROWS, RowPtrs, q8_row};
use crate::simd;
use std::arch::x86_64::*;

/// 64 activations and what belongs to them.
struct Acts {
    /// First and second halves of the two blocks.
    lo: __m256i,
    hi: __m256i,
    /// Scales and group sums (first and second halves) in lanes `4 * block + row`.
    scale: __m256,
    sums: [__m256; 2],
}

/// # Safety
/// As `Dots` promises, with `d.rows == 1`.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn one<W: Weights>(w: &W, d: &Dots) {
    // SAFETY: the same contract.
    unsafe { walk::<W, 1>(w, d, 1) }
}

/// # Safety
/// As `Dots` promises, with `d.rows <= FEW`.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn few<W: Weights>(w: &W, d: &Dots) {
    // SAFETY: the same contract.
    unsafe { walk::<W, FEW>(w, d, d.rows) }
}

/// `rows` is at most `R`.
///
/// # Safety
/// The caller has the AVX2 level; as `Dots` promises.
#[inline(always)]
unsafe fn walk<W: Weights, const R: usize>(w: &W, d: &Dots, rows: usize) {
    let ahead = d.ahead();
    // SAFETY: steps stay within the rows, results within the tile.
    unsafe {
        for n in (0..d.cols).step_by(ROWS) {
            let p = RowPtrs::new(d, n);
            // Chains 0 and 1, chains 2 and 3.
            let mut sums = [[_mm256_setzero_ps(); 2]; R];
            let sums = &mut sums[..rows];
            let whole = d.k / UNIT * UNIT;
            for k in (0..whole).step_by(UNIT) {
                let head = w.head(&p, k, STEPS * BLOCKS);
                prefetch::<W>(&p, k / UNIT, ahead);
                add::<W>(d, sums, &w.step(&p, k, 0, BLOCKS, &head), k, 0, BLOCKS);
                add::<W>(d, sums, &w.step(&p, k, 1, BLOCKS, &head), k, 1, BLOCKS);
                add::<W>(d, sums, &w.step(&p, k, 2, BLOCKS, &head), k, 2, BLOCKS);
                add::<W>(d, sums, &w.step(&p, k, 3, BLOCKS, &head), k, 3, BLOCKS);
            }
            if W::VALUES < UNIT {
                let rest = (d.k - whole) / 32;
                for i in 0..rest.div_ceil(BLOCKS) {
                    let head = w.head(&p, whole, rest);
                    let blocks = (rest - i * BLOCKS).min(BLOCKS);
                    add::<W>(d, sums, &w.step(&p, whole, i, blocks, &head), whole, i, blocks);
                }
            }
            for (m, &sum) in sums.iter().enumerate() {
                let sum = chains(sum);
                for (n, sum) in (n..d.cols).zip(sum) {
                    *d.out.add(m * d.out_stride + n) = sum;
                }
            }
        }
    }
}

/// Asks for the lines of a unit of each row, `ahead` bytes on.
#[inline(always)]
fn prefetch<W: Weights>(rows: &RowPtrs, unit: usize, ahead: usize) {
    for p in rows.data {
        for line in 0..W::UNIT_BYTES.div_ceil(64) {
            simd::prefetch(p.wrapping_add(unit * W::UNIT_BYTES + ahead + 64 * line));
        }
    }
}

/// Adds the products of step `i` of the unit at `k` to the sums of every activation row.
///
/// # Safety
/// The caller has the AVX2 level; the step's `blocks` blocks lie within the activation rows.
#[inline(always)]
unsafe fn add<W: Weights>(d: &Dots, sums: &mut [[__m256; 2]], w: &Step, k: usize, i: usize, blocks: usize) {
    for (m, sum) in sums.iter_mut().enumerate() {
        let sum = &mut sum[i % 2];
        // SAFETY: the same contract.
        unsafe {
            let a = acts(d, m, k + i * STEP, blocks);
            *sum = if W::WIDE { wide::<W>(*sum, w, &a) } else { narrow::<W>(*sum, w, &a) };
        }
    }
}

/// Products of 32 pairs, added by fours.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fours<W: Weights>(w: __m256i, a: __m256i) -> __m256i {
    let pairs = match W::KIND {
        Kind::Signed => _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)),
        Kind::Unsigned | Kind::Biased(_) => _mm256_maddubs_epi16(w, a),
    };
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

/// Products of two times 32 pairs, added by eights.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn eights<W: Weights>(w: (__m256i, __m256i), a: &Acts) -> __m256i {
    if W::KIND == Kind::Signed {
        return _mm256_add_epi32(fours::<W>(w.0, a.lo), fours::<W>(w.1, a.hi));
    }
    // Twice two products of 63 and 127 fit in 16 bits.
    let pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w.0, a.lo), _mm256_maddubs_epi16(w.1, a.hi));
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

/// One scale per block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn wide<W: Weights>(sum: __m256, w: &Step, a: &Acts) -> __m256 {
    let mut v = add_transposed(w.q.map(|q| eights::<W>(q, a)));
    if let Kind::Biased(bias) = W::KIND {
        // What the bias adds is the same for every row.
        let bias = _mm256_set1_epi8(bias as i8);
        let more = eights::<W>((bias, bias), a);
        v = _mm256_sub_epi32(v, add_transposed([more; ROWS]));
    }
    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(v), _mm256_mul_ps(w.scale[0], a.scale), sum);
    if !W::OFFSETS {
        return sum;
    }
    _mm256_fmadd_ps(w.offset[0], _mm256_add_ps(a.sums[0], a.sums[1]), sum)
}

/// One scale per half of a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn narrow<W: Weights>(sum: __m256, w: &Step, a: &Acts) -> __m256 {
    let mut lo = add_transposed(w.q.map(|q| fours::<W>(q.0, a.lo)));
    let mut hi = add_transposed(w.q.map(|q| fours::<W>(q.1, a.hi)));
    if let Kind::Biased(bias) = W::KIND {
        let bias = _mm256_set1_epi8(bias as i8);
        lo = _mm256_sub_epi32(lo, add_transposed([fours::<W>(bias, a.lo); ROWS]));
        hi = _mm256_sub_epi32(hi, add_transposed([fours::<W>(bias, a.hi); ROWS]));
    }
    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(lo), _mm256_mul_ps(w.scale[0], a.scale), sum);
    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(hi), _mm256_mul_ps(w.scale[1], a.scale), sum);
    if !W::OFFSETS {
        return sum;
    }
    let sum = _mm256_fmadd_ps(w.offset[0], a.sums[0], sum);
    _mm256_fmadd_ps(w.offset[1], a.sums[1], sum)
}

/// Activations `k..k + 32 * blocks` of row `m`, and zeros up to 64.
///
/// # Safety
/// They lie within the row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn acts(d: &Dots, m: usize, k: usize, blocks: usize) -> Acts {
    // SAFETY: the second block is read only if it exists.
    unsafe {
        let (q, scales, sums) = q8_row(d, m);
        let (scales, sums) = (scales.add(k / 32), sums.add(k / 16));
        let first = _mm256_loadu_si256(q.add(k).cast());
        let (second, scale, [a, b]) = match blocks {
            BLOCKS => (_mm256_loadu_si256(q.add(k + 32).cast()), *scales.add(1), [*sums.add(2), *sums.add(3)]),
            _ => (_mm256_setzero_si256(), 0.0, [0.0; 2]),
        };
        Acts {
            lo: _mm256_permute2x128_si256::<0x20>(first, second),
            hi: _mm256_permute2x128_si256::<0x31>(first, second),
            scale: two(*scales, scale),
            sums: [two(*sums, a), two(*sums.add(1), b)],
        }
    }
}

/// The sum of the four chains, for four weight rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn chains(sum: [__m256; 2]) -> [f32; 4] {
    let pairs = sum.map(|v| _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v)));
    let mut out = [0.0; 4];
    // SAFETY: room for four.
    unsafe { _mm_storeu_ps(out.as_mut_ptr(), _mm_add_ps(pairs[0], pairs[1])) };
    out
}
