//! The portable vector: four lanes in an array, which compilers turn into the target's own.

use super::{ALMOST_HALF, GroupSums, Simd};
use half::f16;

#[derive(Clone, Copy)]
pub struct Generic(());

const LANES: usize = 4;
type V = [f32; LANES];

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> V {
    [f(0), f(1), f(2), f(3)]
}

impl Simd for Generic {
    type V = V;
    const LANES: usize = LANES;
    const REGISTERS: usize = 16;
    const CONVERTS: bool = false;

    #[inline(always)]
    fn detect() -> Option<Self> {
        Some(Generic(()))
    }

    #[inline(always)]
    fn splat(self, v: f32) -> V {
        [v; LANES]
    }

    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        each(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        each(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        each(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        each(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        each(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn abs(self, a: V) -> V {
        each(|i| a[i].abs())
    }

    #[inline(always)]
    fn select_lt(self, a: V, b: V, x: V, y: V) -> V {
        each(|i| if a[i] < b[i] { x[i] } else { y[i] })
    }

    #[inline(always)]
    fn swap_pairs(self, a: V) -> V {
        [a[1], a[0], a[3], a[2]]
    }

    #[inline(always)]
    fn unzip(self, a: V, b: V) -> [V; 2] {
        [[a[0], a[2], b[0], b[2]], [a[1], a[3], b[1], b[3]]]
    }

    #[inline(always)]
    fn round(self, a: V) -> V {
        // Adding 1.5 * 2^23 leaves no room for a fraction.
        const SHIFT: f32 = 12_582_912.0;
        each(|i| (a[i] + SHIFT) - SHIFT)
    }

    #[inline(always)]
    fn times_power_of_two(self, a: V, n: V) -> V {
        each(|i| a[i] * f32::from_bits((n[i] as i32).wrapping_add(127).cast_unsigned() << 23))
    }

    #[inline(always)]
    fn sum(self, a: V) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }

    #[inline(always)]
    fn largest(self, a: V) -> f32 {
        a[0].max(a[2]).max(a[1].max(a[3]))
    }

    #[inline(always)]
    fn sum4(self, a: [V; 4]) -> [f32; 4] {
        [self.sum(a[0]), self.sum(a[1]), self.sum(a[2]), self.sum(a[3])]
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> V {
        // SAFETY: the caller's promise; the read is unaligned.
        unsafe { from.cast::<V>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: V) {
        // SAFETY: the caller's promise; the write is unaligned.
        unsafe { to.cast::<V>().write_unaligned(v) }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, n: usize) -> V {
        let mut v = [0.0; LANES];
        for (i, lane) in v.iter_mut().enumerate().take(n) {
            // SAFETY: `i < n`, within the caller's promise.
            *lane = unsafe { from.add(i).read_unaligned() };
        }
        v
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, v: V, n: usize) {
        for (i, lane) in v.into_iter().enumerate().take(n) {
            // SAFETY: `i < n`, within the caller's promise.
            unsafe { to.add(i).write_unaligned(lane) }
        }
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u8) -> V {
        // SAFETY: the caller's promise; the read is unaligned.
        let bits = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        each(|i| self.half(bits[i]))
    }

    #[inline(always)]
    fn half(self, bits: u16) -> f32 {
        // The f16 exponent read as an f32's is 112 too small; multiplying puts it right, for
        // subnormals too. Infinity and NaN have the largest exponent in both.
        const SHIFT_EXPONENT: f32 = f32::from_bits((127 + 112) << 23);
        let (sign, rest) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7FFF) << 13);
        let finite = (f32::from_bits(rest) * SHIFT_EXPONENT).to_bits();
        f32::from_bits(sign | if rest >= 0x7C00 << 13 { rest | 0x7F80_0000 } else { finite })
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> V {
        // SAFETY: the caller's promise; bytes have no alignment.
        let q = unsafe { from.cast::<[i8; LANES]>().read() };
        each(|i| f32::from(q[i]))
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u8, v: V) {
        let bits = v.map(|v| f16::from_f32(v).to_bits());
        // SAFETY: the caller's promise; the write is unaligned.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(bits) }
    }

    #[inline(always)]
    unsafe fn peak32(self, x: *const f32) -> f32 {
        // SAFETY: the caller's promise; the read is unaligned.
        let x = unsafe { x.cast::<[f32; 32]>().read_unaligned() };
        let mut peaks = [0.0f32; 8];
        for eight in x.chunks_exact(8) {
            for (peak, v) in peaks.iter_mut().zip(eight) {
                let v = v.abs();
                *peak = if v > *peak { v } else { *peak };
            }
        }
        peaks.into_iter().fold(0.0, |a, b| if b > a { b } else { a })
    }

    #[inline(always)]
    unsafe fn quantize32(self, x: *const f32, inverse: f32, q: *mut i8) -> GroupSums {
        // SAFETY: the caller's promise; the read is unaligned.
        let x = unsafe { x.cast::<[f32; 32]>().read_unaligned() };
        let mut out = [0i8; 32];
        let mut sums = [0i32; 2];
        for (half, sum) in sums.iter_mut().enumerate() {
            for i in 16 * half..16 * half + 16 {
                let v = (x[i] * inverse).clamp(-128.0, 127.0);
                let rounded = (v + ALMOST_HALF.copysign(v)) as i32;
                out[i] = rounded as i8;
                *sum += rounded;
            }
        }
        // SAFETY: the caller's promise; bytes have no alignment.
        unsafe { q.cast::<[i8; 32]>().write_unaligned(out) };
        GroupSums { low: sums[0], high: sums[1] }
    }
}
