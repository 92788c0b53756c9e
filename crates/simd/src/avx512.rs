//! Sixteen lanes with AVX-512 F, BW, VL and DQ.

use super::avx2::group_sums;
use super::level::Level;
use super::{ALMOST_HALF, Body, GroupSums, Q8Blocks, Simd, quantize_each};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub struct Avx512(());

type V = __m512;

// The one reason why register-only intrinsics may be called here.
macro_rules! has {
    ($e:expr) => {
        // SAFETY: a value of `Avx512` exists only where `detect` has seen it, so the machine has
        // AVX-512 F, BW, VL and DQ; the intrinsic touches no memory.
        unsafe { $e }
    };
}

impl Avx512 {
    #[inline(always)]
    fn leading(self, n: usize) -> __mmask16 {
        ((1u32 << n.min(16)) - 1) as __mmask16
    }

    /// Sixteen values to rounded integers, ties away from zero, NaN to 0, at most 127.
    #[inline(always)]
    fn rounded(self, v: V) -> __m512i {
        has!({
            let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(v, v);
            let v = _mm512_min_ps(v, _mm512_set1_ps(127.0));
            // a & b | c: the value's sign on almost one half.
            let half = _mm512_ternarylogic_epi32::<0b1110_1010>(
                _mm512_castps_si512(v),
                _mm512_castps_si512(_mm512_set1_ps(-0.0)),
                _mm512_castps_si512(_mm512_set1_ps(ALMOST_HALF)),
            );
            _mm512_maskz_cvttps_epi32(number, _mm512_add_ps(v, _mm512_castsi512_ps(half)))
        })
    }

    /// Eight blocks: what [`Simd::quantize`] does to each, with all peaks, scales and sums in one register.
    ///
    /// # Safety
    /// As [`Simd::quantize`].
    #[inline(always)]
    unsafe fn quantize8(self, x: *const f32, to: Q8Blocks) {
        // SAFETY: AVX-512 is there, see `has`; the caller promises eight blocks.
        unsafe {
            // Halves, quarters and lanes of registers are put together, until one has all peaks: that of block `i` in lane
            // `4 * i`, and that of block `i + 4` after it.
            let mut peaks = [self.splat(0.0); 8];
            for (i, peaks) in peaks.iter_mut().enumerate() {
                *peaks = self.peaks32(x.add(32 * i));
            }
            for i in 0..4 {
                let (a, b) = (peaks[2 * i], peaks[2 * i + 1]);
                peaks[i] = self.max(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
            }
            for i in 0..2 {
                let (a, b) = (peaks[2 * i], peaks[2 * i + 1]);
                peaks[i] = self.max(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
            }
            let pairs = self.max(_mm512_unpacklo_ps(peaks[0], peaks[1]), _mm512_unpackhi_ps(peaks[0], peaks[1]));
            let all = self.max(pairs, _mm512_permute_ps::<0x4e>(pairs));
            let places = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 4, 8, 12, 1, 5, 9, 13);
            let scales = self.div(_mm512_permutexvar_ps(places, all), self.splat(127.0));
            let some = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(scales, self.splat(0.0));
            let mut inverse = [0.0; 16];
            self.store(inverse.as_mut_ptr(), _mm512_maskz_div_ps(some, self.splat(1.0), scales));
            _mm256_storeu_ps(to.scales, _mm512_castps512_ps256(scales));
            // Of four registers that are packed, a quarter has four values of each.
            let by_register = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let mut sums = [_mm512_setzero_si512(); 4];
            for (i, sums) in sums.iter_mut().enumerate() {
                let mut v = [_mm512_setzero_si512(); 4];
                for (j, v) in v.iter_mut().enumerate() {
                    let x = self.load(x.add(64 * i + 16 * j));
                    *v = self.rounded(self.mul(x, self.splat(inverse[2 * i + j / 2])));
                }
                // Minus infinity became the smallest integer, which saturates to -128.
                let v = _mm512_packs_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
                _mm512_storeu_si512(to.q.add(64 * i).cast(), _mm512_permutexvar_epi32(by_register, v));
                *sums = _mm512_madd_epi16(_mm512_maddubs_epi16(_mm512_set1_epi8(1), v), _mm512_set1_epi16(1));
            }
            for n in [2, 1] {
                for i in 0..n {
                    let (a, b) = (sums[2 * i], sums[2 * i + 1]);
                    sums[i] = _mm512_add_epi32(_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
                }
            }
            let twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
            self.store(to.sums, self.mul(_mm512_permutexvar_ps(twice, scales), _mm512_cvtepi32_ps(sums[0])));
        }
    }

    /// Magnitudes of 32 values, of each two the larger, NaN aside.
    ///
    /// # Safety
    /// 32 values are readable at `x`.
    #[inline(always)]
    unsafe fn peaks32(self, x: *const f32) -> V {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (self.load(x), self.load(x.add(16))) };
        // NaN as the first operand leaves the second, so the peak never is.
        self.max(self.abs(a), self.max(self.abs(b), self.splat(0.0)))
    }

    #[inline(always)]
    fn halves(self, a: V) -> __m256 {
        has!(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a)))
    }
}

/// # Safety
/// As [`Body::run`].
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn call<B: Body>(s: Avx512, body: B) -> B::Output {
    // SAFETY: the same contract.
    unsafe { body.run(s) }
}

impl Simd for Avx512 {
    type V = V;
    const LANES: usize = 16;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn detect() -> Option<Self> {
        Level::detect().has(Level::Avx512Bw).then_some(Avx512(()))
    }

    #[inline(always)]
    unsafe fn call<B: Body>(self, body: B) -> B::Output {
        // SAFETY: the same contract; the machine has the level, for which `self` stands.
        unsafe { call(self, body) }
    }

    #[inline(always)]
    fn splat(self, v: f32) -> V {
        has!(_mm512_set1_ps(v))
    }

    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        has!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        has!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        has!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        has!(_mm512_div_ps(a, b))
    }

    /// A guess of 14 bits, and a step of Newton's: a third of a division.
    #[inline(always)]
    fn reciprocal(self, a: V) -> V {
        has!({
            let guess = _mm512_rcp14_ps(a);
            _mm512_mul_ps(guess, _mm512_fnmadd_ps(a, guess, _mm512_set1_ps(2.0)))
        })
    }

    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        has!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        has!(_mm512_max_ps(a, b))
    }

    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        has!(_mm512_min_ps(a, b))
    }

    #[inline(always)]
    fn abs(self, a: V) -> V {
        has!(_mm512_abs_ps(a))
    }

    #[inline(always)]
    fn select_lt(self, a: V, b: V, x: V, y: V) -> V {
        has!(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), y, x))
    }

    #[inline(always)]
    fn swap_pairs(self, a: V) -> V {
        has!(_mm512_permute_ps::<0b1011_0001>(a))
    }

    #[inline(always)]
    fn unzip(self, a: V, b: V) -> [V; 2] {
        has!({
            let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            [_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b)]
        })
    }

    #[inline(always)]
    fn round(self, a: V) -> V {
        has!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }

    #[inline(always)]
    fn times_power_of_two(self, a: V, n: V) -> V {
        has!(_mm512_scalef_ps(a, n))
    }

    #[inline(always)]
    fn sum(self, a: V) -> f32 {
        has!(_mm512_reduce_add_ps(a))
    }

    #[inline(always)]
    fn largest(self, a: V) -> f32 {
        has!({
            // -inf in place of NaN, so that the order of the operands does not matter.
            let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(a, a);
            _mm512_reduce_max_ps(_mm512_mask_mov_ps(_mm512_set1_ps(f32::NEG_INFINITY), number, a))
        })
    }

    #[inline(always)]
    fn sum4(self, a: [V; 4]) -> [f32; 4] {
        has!({
            let abcd = self.halves(self.part_sums(a));
            let sums = _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps::<1>(abcd));
            std::mem::transmute::<__m128, [f32; 4]>(sums)
        })
    }

    /// Sums of all four in every quarter.
    #[inline(always)]
    fn part_sums(self, a: [V; 4]) -> V {
        has!({
            let pairs = |a, b| _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
            let (ab, cd) = (pairs(a[0], a[1]), pairs(a[2], a[3]));
            let (low, high) = (_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd));
            _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high))
        })
    }

    #[inline(always)]
    unsafe fn store_sums(self, to: *mut f32, [a, b, c, d]: [V; 4]) {
        // SAFETY: AVX-512 is there, see `has`; the caller promises 16 writable values.
        unsafe {
            // First and third quarters, second and fourth; then the two.
            let halves = |a, b| {
                let (low, high) = (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
                _mm512_add_ps(low, high)
            };
            let (ab, cd) = (halves(a, b), halves(c, d));
            let (low, high) = (_mm512_shuffle_f32x4::<0x88>(ab, cd), _mm512_shuffle_f32x4::<0xdd>(ab, cd));
            _mm512_storeu_ps(to, _mm512_add_ps(low, high));
        }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> V {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: V) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(to, v) }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, n: usize) -> V {
        // SAFETY: lanes outside the mask are not read; the caller promises the others.
        unsafe { _mm512_maskz_loadu_ps(self.leading(n), from) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, v: V, n: usize) {
        // SAFETY: lanes outside the mask are not written; the caller promises the others.
        unsafe { _mm512_mask_storeu_ps(to, self.leading(n), v) }
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u8) -> V {
        // SAFETY: the caller promises 32 readable bytes. Exceptions as they are set: only then the load is part of the
        // conversion, which saves half of its work.
        unsafe { _mm512_cvt_roundph_ps::<_MM_FROUND_CUR_DIRECTION>(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    fn half(self, bits: u16) -> f32 {
        has!(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))))
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> V {
        // SAFETY: the caller promises 16 readable bytes.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u8, v: V) {
        // SAFETY: the caller promises 32 writable bytes.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }

    #[inline(always)]
    unsafe fn peak32(self, x: *const f32) -> f32 {
        // SAFETY: the caller promises 32 readable values.
        let peaks = unsafe { self.peaks32(x) };
        has!(_mm512_reduce_max_ps(peaks))
    }

    #[inline(always)]
    unsafe fn quantize32(self, x: *const f32, inverse: f32, q: *mut i8) -> GroupSums {
        let inverse = self.splat(inverse);
        // SAFETY: the caller promises 32 readable values.
        let (a, b) = unsafe { (self.load(x), self.load(x.add(16))) };
        let a = self.rounded(self.mul(a, inverse));
        let b = self.rounded(self.mul(b, inverse));
        // SAFETY: AVX-512 is there, see `has`; the caller promises 32 writable bytes.
        unsafe {
            // Minus infinity became the smallest integer, which saturates to -128.
            let packed = _mm256_set_m128i(_mm512_cvtsepi32_epi8(b), _mm512_cvtsepi32_epi8(a));
            _mm256_storeu_si256(q.cast(), packed);
            group_sums(packed)
        }
    }

    #[inline(always)]
    unsafe fn quantize(self, x: *const f32, to: Q8Blocks, n: usize) {
        let eights = n / 8 * 8;
        // SAFETY: the caller's promise.
        unsafe {
            for block in (0..eights).step_by(8) {
                self.quantize8(x.add(32 * block), to.skip(block));
            }
            quantize_each(self, x.add(32 * eights), to.skip(eights), n - eights);
        }
    }

    #[inline(always)]
    unsafe fn round32(self, x: *const f32, to: *mut u16) {
        for half in 0..2 {
            // SAFETY: AVX-512 is there, see `has`; the caller promises 32 values.
            unsafe {
                let v = _mm512_loadu_ps(x.add(16 * half));
                let bits = _mm512_castps_si512(v);
                let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
                let up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
                // NaN stays as it is: adding could carry it to a number.
                let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(v, v);
                let bits = _mm512_mask_add_epi32(bits, number, bits, up);
                let bf16 = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(bits));
                _mm256_storeu_si256(to.add(16 * half).cast(), bf16);
            }
        }
    }
}
