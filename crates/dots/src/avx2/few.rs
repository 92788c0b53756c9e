//! Few activation rows: the weights are read once, unpacked in registers, and never stored.

use super::{BLOCKS, FEW, Kind, STEP, STEPS, Step, UNIT, Weights, add_lanes, add_transposed, broadcast, dot};
use crate::dots::{AHEAD, Dots, ROWS, RowPtrs, q8_row};
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
/// As `Dots` promises, with `d.rows == 1`; the machine has AVX-VNNI if `VNNI`.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn one<W: Weights, const VNNI: bool>(w: &W, d: &Dots) {
    // SAFETY: the same contract.
    unsafe { walk::<W, VNNI, 1>(w, d, 1) }
}

/// # Safety
/// As `Dots` promises, with `d.rows <= FEW`; the machine has AVX-VNNI if `VNNI`.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn few<W: Weights, const VNNI: bool>(w: &W, d: &Dots) {
    // SAFETY: the same contract.
    unsafe { walk::<W, VNNI, FEW>(w, d, d.rows) }
}

/// `rows` is at most `R`.
///
/// # Safety
/// The caller has the AVX2 level, and AVX-VNNI if `VNNI`; as `Dots` promises.
#[inline(always)]
unsafe fn walk<W: Weights, const VNNI: bool, const R: usize>(w: &W, d: &Dots, rows: usize) {
    let apart = d.apart(ROWS);
    // SAFETY: steps stay within the rows, results within the tile.
    unsafe {
        for n in 0..apart {
            let p = RowPtrs::new(d, n, apart);
            // Chains 0 and 1, chains 2 and 3.
            let mut sums = [[_mm256_setzero_ps(); 2]; R];
            let sums = &mut sums[..rows];
            let whole = d.k / UNIT * UNIT;
            for k in (0..whole).step_by(UNIT) {
                let head = w.head(&p, k, STEPS * BLOCKS);
                prefetch::<W>(&p, k / UNIT, AHEAD);
                add::<W, VNNI>(d, sums, &w.step(&p, k, 0, BLOCKS, &head), k, 0, BLOCKS);
                add::<W, VNNI>(d, sums, &w.step(&p, k, 1, BLOCKS, &head), k, 1, BLOCKS);
                add::<W, VNNI>(d, sums, &w.step(&p, k, 2, BLOCKS, &head), k, 2, BLOCKS);
                add::<W, VNNI>(d, sums, &w.step(&p, k, 3, BLOCKS, &head), k, 3, BLOCKS);
            }
            if W::VALUES < UNIT {
                let rest = (d.k - whole) / 32;
                for i in 0..rest.div_ceil(BLOCKS) {
                    let head = w.head(&p, whole, rest);
                    let blocks = (rest - i * BLOCKS).min(BLOCKS);
                    add::<W, VNNI>(d, sums, &w.step(&p, whole, i, blocks, &head), whole, i, blocks);
                }
            }
            for (m, &sum) in sums.iter().enumerate() {
                d.put(m, (n, apart), chains(sum));
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
/// The caller has the AVX2 level, and AVX-VNNI if `VNNI`; the step's `blocks` blocks lie within the activation rows.
#[inline(always)]
unsafe fn add<W: Weights, const VNNI: bool>(
    d: &Dots,
    sums: &mut [[__m256; 2]],
    w: &Step,
    k: usize,
    i: usize,
    blocks: usize,
) {
    for (m, sum) in sums.iter_mut().enumerate() {
        let sum = &mut sum[i % 2];
        // SAFETY: the same contract.
        unsafe {
            let a = acts(d, m, k + i * STEP, blocks);
            *sum = if W::WIDE { wide::<W, VNNI>(*sum, w, &a) } else { narrow::<W, VNNI>(*sum, w, &a) };
        }
    }
}

/// What the integers are larger by when they are multiplied.
const fn bias<W: Weights, const VNNI: bool>() -> u8 {
    match W::KIND {
        Kind::Signed if VNNI => 128,
        kind => kind.bias(),
    }
}

/// Products of 32 pairs, added by fours.
///
/// # Safety
/// The machine has AVX-VNNI if `VNNI`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn fours<W: Weights, const VNNI: bool>(w: __m256i, a: __m256i) -> __m256i {
    let pairs = match W::KIND {
        // SAFETY: the caller's promise.
        _ if VNNI => return unsafe { dot(_mm256_setzero_si256(), unsigned::<W>(w), a) },
        Kind::Signed => _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)),
        Kind::Unsigned | Kind::Biased(_) => _mm256_maddubs_epi16(w, a),
    };
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

/// Products of two times 32 pairs, added by eights.
///
/// # Safety
/// The machine has AVX-VNNI if `VNNI`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn eights<W: Weights, const VNNI: bool>(w: (__m256i, __m256i), a: &Acts) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        if VNNI {
            return dot(fours::<W, VNNI>(w.0, a.lo), unsigned::<W>(w.1), a.hi);
        }
        if W::KIND == Kind::Signed {
            return _mm256_add_epi32(fours::<W, VNNI>(w.0, a.lo), fours::<W, VNNI>(w.1, a.hi));
        }
    }
    // Twice two products of 63 and 127 fit in 16 bits.
    let pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w.0, a.lo), _mm256_maddubs_epi16(w.1, a.hi));
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

/// Integers of a step from 0: 128 is added to signed ones.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unsigned<W: Weights>(w: __m256i) -> __m256i {
    if W::KIND == Kind::Signed { _mm256_xor_si256(w, _mm256_set1_epi8(-128)) } else { w }
}

/// The sum of `bias` times the activations of each half of the registers, in its four lanes: what the bias adds is the same for
/// every row.
///
/// # Safety
/// The machine has AVX-VNNI if `VNNI`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn biases<const VNNI: bool, const N: usize>(bias: u8, a: [__m256i; N]) -> __m256i {
    let bias = _mm256_set1_epi8(bias as i8);
    let zero = _mm256_setzero_si256();
    if VNNI {
        // SAFETY: the caller's promise.
        return add_lanes(a.into_iter().fold(zero, |sum, a| unsafe { dot(sum, bias, a) }));
    }
    let pairs = a.into_iter().fold(zero, |sum, a| _mm256_add_epi16(sum, _mm256_maddubs_epi16(bias, a)));
    add_lanes(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}

/// One scale per block.
///
/// # Safety
/// The machine has AVX-VNNI if `VNNI`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn wide<W: Weights, const VNNI: bool>(sum: __m256, w: &Step, a: &Acts) -> __m256 {
    // SAFETY: the caller's promise.
    let mut v = add_transposed(w.q.map(|q| unsafe { eights::<W, VNNI>(q, a) }));
    let bias = const { bias::<W, VNNI>() };
    if bias != 0 {
        // SAFETY: the caller's promise.
        v = _mm256_sub_epi32(v, unsafe { biases::<VNNI, 2>(bias, [a.lo, a.hi]) });
    }
    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(v), _mm256_mul_ps(w.scale[0], a.scale), sum);
    if !W::OFFSETS {
        return sum;
    }
    _mm256_fmadd_ps(w.offset[0], _mm256_add_ps(a.sums[0], a.sums[1]), sum)
}

/// One scale per half of a block.
///
/// # Safety
/// The machine has AVX-VNNI if `VNNI`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn narrow<W: Weights, const VNNI: bool>(sum: __m256, w: &Step, a: &Acts) -> __m256 {
    // SAFETY: the caller's promise.
    let mut lo = add_transposed(w.q.map(|q| unsafe { fours::<W, VNNI>(q.0, a.lo) }));
    // SAFETY: the caller's promise.
    let mut hi = add_transposed(w.q.map(|q| unsafe { fours::<W, VNNI>(q.1, a.hi) }));
    let bias = const { bias::<W, VNNI>() };
    if bias != 0 {
        // SAFETY: the caller's promise.
        let more = unsafe { [a.lo, a.hi].map(|a| biases::<VNNI, 1>(bias, [a])) };
        lo = _mm256_sub_epi32(lo, more[0]);
        hi = _mm256_sub_epi32(hi, more[1]);
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
        let (second, scale, sum) = if blocks == BLOCKS {
            let scale = _mm256_set1_epi64x(scales.cast::<i64>().read_unaligned());
            (_mm256_loadu_si256(q.add(k + 32).cast()), scale, broadcast(sums.cast()))
        } else {
            // The existing block's, and zeros.
            let scale = _mm256_set1_epi64x(scales.cast::<u32>().read().into());
            let sum = _mm256_set1_epi64x(sums.cast::<i64>().read_unaligned());
            (_mm256_setzero_si256(), scale, _mm256_blend_epi32::<0b1100_1100>(sum, _mm256_setzero_si256()))
        };
        // One lane of the first half in all of it, and one of the second.
        let lanes = |v, a, b| _mm256_permutevar_ps(_mm256_castsi256_ps(v), _mm256_setr_epi32(a, a, a, a, b, b, b, b));
        Acts {
            lo: _mm256_permute2x128_si256::<0x20>(first, second),
            hi: _mm256_permute2x128_si256::<0x31>(first, second),
            scale: lanes(scale, 0, 1),
            sums: [lanes(sum, 0, 2), lanes(sum, 1, 3)],
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
