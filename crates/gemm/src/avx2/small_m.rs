//! Small-M GEMM, and GEMV: weights are read once, unpacked by 256 values of four rows, and multiplied with every row.

use super::{BLOCKS, Form, Kind, SMALL_M, STEP, STEPS, Step, UNIT, Weights, add_lanes, add_transposed, broadcast, dot};
use crate::gemm::{AHEAD, Gemm, ROWS, RowPtrs, q8_row};
use crate::simd;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// 64 activations and what belongs to them.
struct Acts {
    /// First and second halves of the two blocks.
    lo: __m256i,
    hi: __m256i,
    /// Scales and group sums (first and second halves) in lanes `4 * block + row`.
    scale: __m256,
    sums: [__m256; 2],
}

/// One row and weights that stay in registers.
///
/// # Safety
/// As `Gemm` promises, with `d.rows == 1`; the machine has AVX-VNNI if `VNNI`.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn gemv<W: Weights, const VNNI: bool>(w: &W, d: &Gemm) {
    let apart = d.apart(ROWS);
    // SAFETY: steps stay within the rows, results within the tile.
    unsafe {
        for n in 0..apart {
            let p = RowPtrs::new(d, n, apart);
            // Chains 0 and 1, chains 2 and 3.
            let mut sum = [_mm256_setzero_ps(); 2];
            for k in (0..d.k).step_by(UNIT) {
                let blocks = ((d.k - k) / 32).min(STEPS * BLOCKS);
                let head = w.head(&p, k, blocks);
                prefetch(&p, k / UNIT, W::UNIT_BYTES);
                for i in 0..blocks / BLOCKS {
                    let (step, a) = (w.step(&p, k, i, BLOCKS, &head), acts(d, 0, k + i * STEP, BLOCKS));
                    sum[i % 2] = products::<W, VNNI>(sum[i % 2], &step, &a);
                }
                if W::VALUES < UNIT && !blocks.is_multiple_of(BLOCKS) {
                    let i = blocks / BLOCKS;
                    let (step, a) = (w.step(&p, k, i, 1, &head), acts(d, 0, k + i * STEP, 1));
                    sum[i % 2] = products::<W, VNNI>(sum[i % 2], &step, &a);
                }
            }
            d.put(0, (n, apart), chains(sum));
        }
    }
}

/// A sum with the products of a step.
#[inline(always)]
unsafe fn products<W: Weights, const VNNI: bool>(sum: __m256, w: &Step, a: &Acts) -> __m256 {
    // SAFETY: the caller has the level.
    unsafe {
        match (W::KIND == Kind::Signed, W::WIDE) {
            (true, true) => wide::<true, VNNI>(sum, w, a, W::OFFSETS, 0),
            (true, false) => narrow::<true, VNNI>(sum, w, a, W::OFFSETS, 0),
            (false, true) => wide::<false, VNNI>(sum, w, a, W::OFFSETS, W::KIND.bias()),
            (false, false) => narrow::<false, VNNI>(sum, w, a, W::OFFSETS, W::KIND.bias()),
        }
    }
}

/// Up to [`SMALL_M`] rows, and weights that are unpacked by units.
///
/// # Safety
/// As `Gemm` promises, with `d.rows <= SMALL_M`; the machine has AVX-VNNI if `VNNI`.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn small_m<const VNNI: bool>(form: &Form<'_>, d: &Gemm) {
    // SAFETY: the same contract.
    unsafe {
        match (form.kind == Kind::Signed, form.wide) {
            (true, true) => walk::<true, true, VNNI>(form, d),
            (true, false) => walk::<true, false, VNNI>(form, d),
            (false, true) => walk::<false, true, VNNI>(form, d),
            (false, false) => walk::<false, false, VNNI>(form, d),
        }
    }
}

/// # Safety
/// As [`small_m`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn walk<const SIGNED: bool, const WIDE: bool, const VNNI: bool>(form: &Form<'_>, d: &Gemm) {
    let apart = d.apart(ROWS);
    let mut room = MaybeUninit::<[Step; STEPS]>::uninit();
    let steps = room.as_mut_ptr().cast::<Step>();
    let bias = form.kind.bias();
    // SAFETY: steps stay within the rows, results within the tile; as many steps are read as were unpacked.
    unsafe {
        for n in 0..apart {
            let p = RowPtrs::new(d, n, apart);
            // Chains 0 and 1, chains 2 and 3.
            let mut sums = [[_mm256_setzero_ps(); 2]; SMALL_M];
            for k in (0..d.k).step_by(UNIT) {
                let blocks = ((d.k - k) / 32).min(STEPS * BLOCKS);
                prefetch(&p, k / UNIT, form.unit_bytes);
                (form.unpack)(&p, k, blocks, steps);
                for (m, sum) in sums[..d.rows].iter_mut().enumerate() {
                    for i in 0..blocks.div_ceil(BLOCKS) {
                        let (step, sum) = (&*steps.add(i), &mut sum[i % 2]);
                        let a = acts(d, m, k + i * STEP, (blocks - i * BLOCKS).min(BLOCKS));
                        *sum = match WIDE {
                            true => wide::<SIGNED, VNNI>(*sum, step, &a, form.offsets, bias),
                            false => narrow::<SIGNED, VNNI>(*sum, step, &a, form.offsets, bias),
                        };
                    }
                }
            }
            for (m, &sum) in sums[..d.rows].iter().enumerate() {
                d.put(m, (n, apart), chains(sum));
            }
        }
    }
}

/// Prefetches the lines of a unit of each row, some ahead.
#[inline(always)]
fn prefetch(rows: &RowPtrs, unit: usize, unit_bytes: usize) {
    for p in rows.data {
        for line in 0..unit_bytes.div_ceil(64) {
            simd::prefetch(p.wrapping_add(unit * unit_bytes + AHEAD + 64 * line));
        }
    }
}

/// Products of 32 pairs, added by fours.
///
/// # Safety
/// The machine has AVX-VNNI if `VNNI`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn fours<const SIGNED: bool, const VNNI: bool>(w: __m256i, a: __m256i) -> __m256i {
    let pairs = match SIGNED {
        // SAFETY: the caller's promise.
        _ if VNNI => return unsafe { dot(_mm256_setzero_si256(), unsigned::<SIGNED>(w), a) },
        true => _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)),
        false => _mm256_maddubs_epi16(w, a),
    };
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

/// Products of two times 32 pairs, added by eights.
///
/// # Safety
/// The machine has AVX-VNNI if `VNNI`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn eights<const SIGNED: bool, const VNNI: bool>(w: (__m256i, __m256i), a: &Acts) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        if VNNI {
            return dot(fours::<SIGNED, VNNI>(w.0, a.lo), unsigned::<SIGNED>(w.1), a.hi);
        }
        if SIGNED {
            return _mm256_add_epi32(fours::<SIGNED, VNNI>(w.0, a.lo), fours::<SIGNED, VNNI>(w.1, a.hi));
        }
    }
    // Twice two products of 63 and 127 fit in 16 bits.
    let pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w.0, a.lo), _mm256_maddubs_epi16(w.1, a.hi));
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

/// Integers of a step from 0: 128 is added to signed ones.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn unsigned<const SIGNED: bool>(w: __m256i) -> __m256i {
    if SIGNED { _mm256_xor_si256(w, _mm256_set1_epi8(-128)) } else { w }
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

/// One scale per block; `bias` is what unsigned integers are larger by than the format's.
///
/// # Safety
/// The machine has AVX-VNNI if `VNNI`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn wide<const SIGNED: bool, const VNNI: bool>(
    sum: __m256,
    w: &Step,
    a: &Acts,
    offsets: bool,
    bias: u8,
) -> __m256 {
    // SAFETY: the caller's promise.
    let mut v = add_transposed(w.q.map(|q| unsafe { eights::<SIGNED, VNNI>(q, a) }));
    let bias = if SIGNED && VNNI { 128 } else { bias };
    if bias != 0 {
        // SAFETY: the caller's promise.
        v = _mm256_sub_epi32(v, unsafe { biases::<VNNI, 2>(bias, [a.lo, a.hi]) });
    }
    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(v), _mm256_mul_ps(w.scale[0], a.scale), sum);
    if !offsets {
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
unsafe fn narrow<const SIGNED: bool, const VNNI: bool>(
    sum: __m256,
    w: &Step,
    a: &Acts,
    offsets: bool,
    bias: u8,
) -> __m256 {
    // SAFETY: the caller's promise.
    let mut lo = add_transposed(w.q.map(|q| unsafe { fours::<SIGNED, VNNI>(q.0, a.lo) }));
    // SAFETY: the caller's promise.
    let mut hi = add_transposed(w.q.map(|q| unsafe { fours::<SIGNED, VNNI>(q.1, a.hi) }));
    let bias = if SIGNED && VNNI { 128 } else { bias };
    if bias != 0 {
        // SAFETY: the caller's promise.
        let more = unsafe { [a.lo, a.hi].map(|a| biases::<VNNI, 1>(bias, [a])) };
        lo = _mm256_sub_epi32(lo, more[0]);
        hi = _mm256_sub_epi32(hi, more[1]);
    }
    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(lo), _mm256_mul_ps(w.scale[0], a.scale), sum);
    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(hi), _mm256_mul_ps(w.scale[1], a.scale), sum);
    if !offsets {
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
unsafe fn acts(d: &Gemm, m: usize, k: usize, blocks: usize) -> Acts {
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
