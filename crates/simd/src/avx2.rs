//! Eight lanes with AVX2, FMA and F16C.

use super::level::Level;
use super::{ALMOST_HALF, Body, GroupSums, Simd};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub struct Avx2(());

type V = __m256;

// The one reason why register-only intrinsics may be called here.
macro_rules! has {
    ($e:expr) => {
        // SAFETY: a value of `Avx2` exists only where `detect` has seen it, so the machine has AVX2,
        // FMA and F16C; the intrinsic touches no memory.
        unsafe { $e }
    };
}

/// Sums of the two halves of 32 int8 values.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
pub(super) unsafe fn group_sums(q: __m256i) -> GroupSums {
    // SAFETY: the caller's promise.
    unsafe {
        // Unsigned sums of eight bytes each, every byte 128 too large.
        let shifted = _mm256_xor_si256(q, _mm256_set1_epi8(-128));
        let eights = _mm256_sad_epu8(shifted, _mm256_setzero_si256());
        let halves = _mm256_add_epi64(eights, _mm256_shuffle_epi32::<0b0100_1110>(eights));
        let low = _mm_cvtsi128_si32(_mm256_castsi256_si128(halves));
        let high = _mm_cvtsi128_si32(_mm256_extracti128_si256::<1>(halves));
        GroupSums { low: low - 16 * 128, high: high - 16 * 128 }
    }
}

/// Masks of `n` leading lanes are read from the middle of this: `n` ones, then zeros.
static LEADING: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

impl Avx2 {
    #[inline(always)]
    fn leading(self, n: usize) -> __m256i {
        let n = n.min(8);
        // SAFETY: 8 integers from index 8 - n <= 8 lie inside the 16 of `LEADING`.
        unsafe { _mm256_loadu_si256(LEADING.as_ptr().add(8 - n).cast()) }
    }

    #[inline(always)]
    fn sum128(self, a: __m128) -> f32 {
        has!({
            let pairs = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps::<1>(pairs, pairs)))
        })
    }

    /// Eight values to rounded integers, ties away from zero, NaN to 0, at most 127.
    #[inline(always)]
    fn rounded(self, v: V) -> __m256i {
        has!({
            let v = _mm256_and_ps(v, _mm256_cmp_ps::<_CMP_ORD_Q>(v, v));
            let v = _mm256_min_ps(v, _mm256_set1_ps(127.0));
            let sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0));
            _mm256_cvttps_epi32(_mm256_add_ps(v, _mm256_or_ps(sign, _mm256_set1_ps(ALMOST_HALF))))
        })
    }

    /// Largest lane of four, none of which is NaN.
    #[inline(always)]
    fn largest128(self, a: __m128) -> f32 {
        has!({
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps::<1>(a, a)))
        })
    }
}

/// # Safety
/// As [`Body::run`].
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn call<B: Body>(s: Avx2, body: B) -> B::Output {
    // SAFETY: the same contract.
    unsafe { body.run(s) }
}

impl Simd for Avx2 {
    type V = V;
    const LANES: usize = 8;
    const REGISTERS: usize = 16;

    #[inline(always)]
    fn detect() -> Option<Self> {
        Level::detect().has(Level::Avx2).then_some(Avx2(()))
    }

    #[inline(always)]
    unsafe fn call<B: Body>(self, body: B) -> B::Output {
        // SAFETY: the same contract; the machine has the level, for which `self` stands.
        unsafe { call(self, body) }
    }

    #[inline(always)]
    fn splat(self, v: f32) -> V {
        has!(_mm256_set1_ps(v))
    }

    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        has!(_mm256_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        has!(_mm256_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        has!(_mm256_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        has!(_mm256_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        has!(_mm256_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        has!(_mm256_max_ps(a, b))
    }

    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        has!(_mm256_min_ps(a, b))
    }

    #[inline(always)]
    fn abs(self, a: V) -> V {
        has!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), a))
    }

    #[inline(always)]
    fn select_lt(self, a: V, b: V, x: V, y: V) -> V {
        has!(_mm256_blendv_ps(y, x, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)))
    }

    #[inline(always)]
    fn swap_pairs(self, a: V) -> V {
        has!(_mm256_permute_ps::<0b1011_0001>(a))
    }

    #[inline(always)]
    fn unzip(self, a: V, b: V) -> [V; 2] {
        // Two of `a`, two of `b`, and again.
        let in_order = |v: V| has!(_mm256_castpd_ps(_mm256_permute4x64_pd::<0b1101_1000>(_mm256_castps_pd(v))));
        [in_order(has!(_mm256_shuffle_ps::<0x88>(a, b))), in_order(has!(_mm256_shuffle_ps::<0xdd>(a, b)))]
    }

    #[inline(always)]
    fn round(self, a: V) -> V {
        has!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }

    #[inline(always)]
    fn times_power_of_two(self, a: V, n: V) -> V {
        has!({
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
        })
    }

    #[inline(always)]
    fn sum(self, a: V) -> f32 {
        self.sum128(has!(_mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a))))
    }

    #[inline(always)]
    fn largest(self, a: V) -> f32 {
        has!({
            // -inf in place of NaN, so that the order of the operands does not matter.
            let number = _mm256_cmp_ps::<_CMP_ORD_Q>(a, a);
            let a = _mm256_blendv_ps(_mm256_set1_ps(f32::NEG_INFINITY), a, number);
            self.largest128(_mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a)))
        })
    }

    #[inline(always)]
    fn sum4(self, a: [V; 4]) -> [f32; 4] {
        has!({
            let abcd = self.part_sums(a);
            let sums = _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps::<1>(abcd));
            std::mem::transmute::<__m128, [f32; 4]>(sums)
        })
    }

    /// Sums of all four in both halves.
    #[inline(always)]
    fn part_sums(self, a: [V; 4]) -> V {
        has!(_mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3])))
    }

    #[inline(always)]
    unsafe fn store_sums(self, to: *mut f32, parts: [V; 4]) {
        for (i, two) in parts.as_chunks::<2>().0.iter().enumerate() {
            // SAFETY: AVX2 is there, see `has`; the caller promises 16 writable values.
            unsafe {
                let low = _mm256_permute2f128_ps::<0x20>(two[0], two[1]);
                let high = _mm256_permute2f128_ps::<0x31>(two[0], two[1]);
                _mm256_storeu_ps(to.add(8 * i), _mm256_add_ps(low, high));
            }
        }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> V {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: V) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(to, v) }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, n: usize) -> V {
        // SAFETY: lanes outside the mask are not read; the caller promises the others.
        unsafe { _mm256_maskload_ps(from, self.leading(n)) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, v: V, n: usize) {
        // SAFETY: lanes outside the mask are not written; the caller promises the others.
        unsafe { _mm256_maskstore_ps(to, self.leading(n), v) }
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u8) -> V {
        // SAFETY: the caller promises 16 readable bytes.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    fn half(self, bits: u16) -> f32 {
        has!(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))))
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> V {
        // SAFETY: the caller promises 8 readable bytes.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u8, v: V) {
        // SAFETY: the caller promises 16 writable bytes.
        unsafe { _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }

    #[inline(always)]
    unsafe fn peak32(self, x: *const f32) -> f32 {
        let mut peak = self.splat(0.0);
        for i in 0..4 {
            // SAFETY: the caller promises 32 readable values.
            let v = self.abs(unsafe { self.load(x.add(8 * i)) });
            // NaN as the first operand leaves the second, so the peak never is.
            peak = self.max(v, peak);
        }
        has!(self.largest128(_mm_max_ps(_mm256_castps256_ps128(peak), _mm256_extractf128_ps::<1>(peak))))
    }

    #[inline(always)]
    unsafe fn quantize32(self, x: *const f32, inverse: f32, q: *mut i8) -> GroupSums {
        let inverse = self.splat(inverse);
        // SAFETY: the caller promises 32 readable values.
        let (a, b, c, d) = unsafe { (self.load(x), self.load(x.add(8)), self.load(x.add(16)), self.load(x.add(24))) };
        let a = self.rounded(self.mul(a, inverse));
        let b = self.rounded(self.mul(b, inverse));
        let c = self.rounded(self.mul(c, inverse));
        let d = self.rounded(self.mul(d, inverse));
        // SAFETY: AVX2 is there, see `has`; the caller promises 32 writable bytes.
        unsafe {
            // The packs work within 128-bit halves and leave groups of four values in the order
            // a0 b0 c0 d0 a1 b1 c1 d1.
            let packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            let packed = _mm256_permutevar8x32_epi32(packed, order);
            _mm256_storeu_si256(q.cast(), packed);
            group_sums(packed)
        }
    }
}
