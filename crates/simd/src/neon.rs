//! Four lanes with NEON, which every AArch64 machine has, with fused multiply-adds and conversions of f16.

use super::level::Level;
use super::{GroupSums, Simd};
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
pub struct Neon(());

type V = float32x4_t;

const LANES: usize = 4;

// The one reason why register-only intrinsics may be called here.
macro_rules! has {
    ($e:expr) => {
        // SAFETY: a value of `Neon` exists only where `detect` has seen it, so the machine has NEON; the intrinsic touches no
        // memory.
        unsafe { $e }
    };
}

impl Simd for Neon {
    type V = V;
    const LANES: usize = LANES;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn detect() -> Option<Self> {
        Level::detect().has(Level::Neon).then_some(Neon(()))
    }

    #[inline(always)]
    fn splat(self, v: f32) -> V {
        has!(vdupq_n_f32(v))
    }

    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        has!(vaddq_f32(a, b))
    }

    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        has!(vsubq_f32(a, b))
    }

    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        has!(vmulq_f32(a, b))
    }

    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        has!(vdivq_f32(a, b))
    }

    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        has!(vfmaq_f32(c, a, b))
    }

    /// `fmax` would return NaN, and `fmaxnm` the number.
    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        has!(vbslq_f32(vcgtq_f32(a, b), a, b))
    }

    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        has!(vbslq_f32(vcltq_f32(a, b), a, b))
    }

    #[inline(always)]
    fn abs(self, a: V) -> V {
        has!(vabsq_f32(a))
    }

    #[inline(always)]
    fn select_lt(self, a: V, b: V, x: V, y: V) -> V {
        has!(vbslq_f32(vcltq_f32(a, b), x, y))
    }

    #[inline(always)]
    fn swap_pairs(self, a: V) -> V {
        has!(vrev64q_f32(a))
    }

    #[inline(always)]
    fn unzip(self, a: V, b: V) -> [V; 2] {
        has!([vuzp1q_f32(a, b), vuzp2q_f32(a, b)])
    }

    #[inline(always)]
    fn round(self, a: V) -> V {
        has!(vrndnq_f32(a))
    }

    #[inline(always)]
    fn times_power_of_two(self, a: V, n: V) -> V {
        has!({
            let exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
            vmulq_f32(a, vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent)))
        })
    }

    #[inline(always)]
    fn sum(self, a: V) -> f32 {
        has!(vaddvq_f32(a))
    }

    #[inline(always)]
    fn largest(self, a: V) -> f32 {
        has!(vmaxnmvq_f32(a))
    }

    #[inline(always)]
    fn sum4(self, a: [V; 4]) -> [f32; 4] {
        let mut sums = [0.0; 4];
        // SAFETY: there are four.
        unsafe { self.store(sums.as_mut_ptr(), self.part_sums(a)) };
        sums
    }

    #[inline(always)]
    fn part_sums(self, a: [V; 4]) -> V {
        has!(vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3])))
    }

    #[inline(always)]
    unsafe fn store_sums(self, to: *mut f32, parts: [V; 4]) {
        for (i, part) in parts.into_iter().enumerate() {
            // SAFETY: the caller promises 16 writable values.
            unsafe { self.store(to.add(LANES * i), part) }
        }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> V {
        // SAFETY: the caller's promise.
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: V) {
        // SAFETY: the caller's promise.
        unsafe { vst1q_f32(to, v) }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, n: usize) -> V {
        let zero = self.splat(0.0);
        // SAFETY: each arm reads as many values as it names, which the caller promises.
        unsafe {
            match n {
                0 => zero,
                1 => vld1q_lane_f32::<0>(from, zero),
                2 => vcombine_f32(vld1_f32(from), vget_low_f32(zero)),
                3 => vcombine_f32(vld1_f32(from), vld1_lane_f32::<0>(from.add(2), vget_low_f32(zero))),
                _ => self.load(from),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, v: V, n: usize) {
        // SAFETY: each arm writes as many values as it names, which the caller promises.
        unsafe {
            match n {
                0 => {}
                1 => vst1q_lane_f32::<0>(to, v),
                2 => vst1_f32(to, vget_low_f32(v)),
                3 => {
                    vst1_f32(to, vget_low_f32(v));
                    vst1q_lane_f32::<2>(to.add(2), v);
                }
                _ => self.store(to, v),
            }
        }
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u8) -> V {
        // SAFETY: the caller promises 8 readable bytes.
        unsafe { vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from))) }
    }

    #[inline(always)]
    fn half(self, bits: u16) -> f32 {
        has!(vgetq_lane_f32::<0>(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits)))))
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> V {
        // SAFETY: the caller promises 4 readable bytes; bytes above them are zeros.
        unsafe {
            let four = vcreate_s8(u64::from(from.cast::<u32>().read_unaligned()));
            vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(four))))
        }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u8, v: V) {
        // SAFETY: the caller promises 8 writable bytes.
        unsafe { vst1_u8(to, vreinterpret_u8_f16(vcvt_f16_f32(v))) }
    }

    #[inline(always)]
    unsafe fn peak32(self, x: *const f32) -> f32 {
        let mut peaks = [self.splat(0.0); 2];
        for i in 0..8 {
            // SAFETY: the caller promises 32 readable values.
            let v = self.abs(unsafe { self.load(x.add(LANES * i)) });
            // NaN as the first operand leaves the second, so the peak never is.
            peaks[i % 2] = self.max(v, peaks[i % 2]);
        }
        self.largest(self.max(peaks[0], peaks[1]))
    }

    #[inline(always)]
    unsafe fn quantize32(self, x: *const f32, inverse: f32, q: *mut i8) -> GroupSums {
        // The conversion rounds ties away from zero, makes NaN 0 and saturates, as the narrowing to bytes does.
        let eight = |x: *const f32| {
            // SAFETY: eight of the 32 values that the caller promises.
            let (a, b) = unsafe { (self.load(x), self.load(x.add(LANES))) };
            has!({
                let a = vcvtaq_s32_f32(vmulq_n_f32(a, inverse));
                let b = vcvtaq_s32_f32(vmulq_n_f32(b, inverse));
                vqmovn_s16(vcombine_s16(vqmovn_s32(a), vqmovn_s32(b)))
            })
        };
        let group = |at: usize| {
            let values = x.wrapping_add(at);
            let group = has!(vcombine_s8(eight(values), eight(values.wrapping_add(2 * LANES))));
            // SAFETY: 16 of the 32 bytes that the caller promises.
            unsafe { vst1q_s8(q.add(at), group) };
            i32::from(has!(vaddlvq_s8(group)))
        };
        GroupSums { low: group(0), high: group(16) }
    }
}
