//! Vectors of f32 at every level: kernel bodies are written once over [`Simd`] and instantiated
//! per level by the backend.
//!
//! A value of a [`Simd`] type is the proof that the machine has its level: only `detect`
//! makes one. Every method is `inline(always)`, so that after inlining the instructions
//! stand inside the `target_feature` function of the level and become single instructions there.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
pub mod bf16;
mod generic;
pub mod level;
pub mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
pub mod tiles;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use generic::Generic;
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;

/// Integers of one int8 block, and how its two groups of 16 sum up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSums {
    pub low: i32,
    pub high: i32,
}

/// Where blocks of 32 values are quantized to, as `akunu_dtype::q8` has them: the integers, a scale for each block, and two
/// sums.
#[derive(Clone, Copy)]
pub struct Q8Blocks {
    pub q: *mut i8,
    pub scales: *mut f32,
    pub sums: *mut f32,
}

impl Q8Blocks {
    /// Those from the `n`th on.
    #[inline(always)]
    pub fn skip(self, n: usize) -> Self {
        Self {
            q: self.q.wrapping_add(32 * n),
            scales: self.scales.wrapping_add(n),
            sums: self.sums.wrapping_add(2 * n),
        }
    }
}

/// Prefetches a cache line before it is needed; any address will do.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch may name any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch may name any address; it changes neither registers nor memory.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Prefetches all lines of `values` numbers before they are needed; any address will do.
#[inline(always)]
pub fn prefetch_row(at: *const f32, values: usize) {
    (0..values).step_by(64 / size_of::<f32>()).for_each(|i| prefetch(at.wrapping_add(i).cast()));
}

/// Prefetches a cache line that is needed later, into L2.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub fn prefetch_far(at: *const u8) {
    // SAFETY: a prefetch may name any address.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast()) }
}

/// A part of a kernel: see [`Simd::call`].
pub trait Body {
    type Output;

    /// To be implemented `inline(always)`.
    ///
    /// # Safety
    /// As the type that implements it says.
    unsafe fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// A level's vector of `LANES` f32 values.
pub trait Simd: Copy {
    type V: Copy;
    const LANES: usize;
    /// Vector registers of the level, for kernels that keep tiles in them.
    const REGISTERS: usize;
    /// Whether f16 and int8 values become f32 in an instruction or two.
    const CONVERTS: bool = true;

    /// The level's vectors, where this machine has its instructions: holding one is the proof.
    fn detect() -> Option<Self>;

    /// Runs a part of a kernel as a function of its own, which is compiled once a level and not into every kernel that has it.
    ///
    /// # Safety
    /// As [`Body::run`].
    #[inline(never)]
    unsafe fn call<B: Body>(self, body: B) -> B::Output {
        // SAFETY: the same contract.
        unsafe { body.run(self) }
    }

    fn splat(self, v: f32) -> Self::V;
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `1 / a` to a unit or two, for numbers from 1 to 1e30.
    #[inline(always)]
    fn reciprocal(self, a: Self::V) -> Self::V {
        self.div(self.splat(1.0), a)
    }
    /// `a * b + c`, fused where the level has it.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a > b ? a : b` per lane: `b` where either is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a < b ? a : b` per lane: `b` where either is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    fn abs(self, a: Self::V) -> Self::V;
    /// `a < b ? x : y` per lane.
    fn select_lt(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;
    /// Lanes 2i and 2i+1 exchanged.
    fn swap_pairs(self, a: Self::V) -> Self::V;
    /// The even lanes of two vectors, and the odd ones.
    fn unzip(self, a: Self::V, b: Self::V) -> [Self::V; 2];
    /// To the nearest integer, ties to even, for magnitudes below 2^22.
    fn round(self, a: Self::V) -> Self::V;
    /// `a * 2^n` for lanes of `n` that hold whole numbers in -126..=127.
    fn times_power_of_two(self, a: Self::V, n: Self::V) -> Self::V;
    /// Sum of the lanes.
    fn sum(self, a: Self::V) -> f32;
    /// Largest lane, NaN aside.
    fn largest(self, a: Self::V) -> f32;
    /// Sums of the lanes of four vectors.
    fn sum4(self, a: [Self::V; 4]) -> [f32; 4];
    /// The sums of the lanes of four vectors, begun; [`Self::store_sums`] ends them as [`Self::sum4`] would.
    #[inline(always)]
    fn part_sums(self, a: [Self::V; 4]) -> Self::V {
        let sums = self.sum4(a);
        // SAFETY: there are four.
        unsafe { self.load_first(sums.as_ptr(), 4) }
    }
    /// Sixteen sums, of four times four vectors.
    /// # Safety
    /// 16 values are writable at `to`.
    #[inline(always)]
    unsafe fn store_sums(self, to: *mut f32, parts: [Self::V; 4]) {
        for (i, part) in parts.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { self.store_first(to.add(4 * i), part, 4) }
        }
    }

    /// # Safety
    /// `LANES` values are readable at `from`; no alignment is asked for.
    unsafe fn load(self, from: *const f32) -> Self::V;
    /// # Safety
    /// `LANES` values are writable at `to`.
    unsafe fn store(self, to: *mut f32, v: Self::V);
    /// The first `n < LANES` lanes; the others are 0.
    /// # Safety
    /// `n` values are readable at `from`.
    unsafe fn load_first(self, from: *const f32, n: usize) -> Self::V;
    /// # Safety
    /// `n <= LANES` values are writable at `to`.
    unsafe fn store_first(self, to: *mut f32, v: Self::V, n: usize);
    /// The first `n` lanes, or all, which is faster; the others are 0.
    /// # Safety
    /// `n <= LANES` values are readable at `from`.
    #[inline(always)]
    unsafe fn load_some(self, from: *const f32, n: usize) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { if n == Self::LANES { self.load(from) } else { self.load_first(from, n) } }
    }
    /// # Safety
    /// As [`Self::store_first`].
    #[inline(always)]
    unsafe fn store_some(self, to: *mut f32, v: Self::V, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { if n == Self::LANES { self.store(to, v) } else { self.store_first(to, v, n) } }
    }
    /// `LANES` f16 values as f32.
    /// # Safety
    /// `2 * LANES` bytes are readable at `from`.
    unsafe fn load_f16(self, from: *const u8) -> Self::V;
    /// One f16, by its bits.
    fn half(self, bits: u16) -> f32;
    /// `LANES` int8 values as f32.
    /// # Safety
    /// `LANES` bytes are readable at `from`.
    unsafe fn load_i8(self, from: *const i8) -> Self::V;
    /// Rounds to f16, ties to even.
    /// # Safety
    /// `2 * LANES` bytes are writable at `to`.
    unsafe fn store_f16(self, to: *mut u8, v: Self::V);
    /// Largest magnitude of 32 values, NaN aside.
    /// # Safety
    /// 32 values are readable at `x`.
    unsafe fn peak32(self, x: *const f32) -> f32;
    /// `q[i] = round(x[i] * inverse)`, ties away from zero, for 32 values; NaN becomes 0.
    /// # Safety
    /// 32 values are readable at `x` and 32 bytes writable at `q`.
    unsafe fn quantize32(self, x: *const f32, inverse: f32, q: *mut i8) -> GroupSums;
    /// Quantizes `n` blocks.
    /// # Safety
    /// `32 * n` values are readable at `x`, and there is room for so many blocks.
    #[inline(always)]
    unsafe fn quantize(self, x: *const f32, to: Q8Blocks, n: usize) {
        // SAFETY: the same contract.
        unsafe { quantize_each(self, x, to, n) }
    }
    /// 32 values to bf16, ties to even.
    /// # Safety
    /// Both have room for 32 values.
    unsafe fn round32(self, x: *const f32, to: *mut u16) {
        for i in 0..32 {
            // SAFETY: the caller's promise.
            unsafe { *to.add(i) = (akunu_dtype::tiles::round(*x.add(i)).to_bits() >> 16) as u16 };
        }
    }
}

/// Quantizes `n` blocks, one after the other.
///
/// # Safety
/// As [`Simd::quantize`].
#[inline(always)]
unsafe fn quantize_each<S: Simd>(s: S, x: *const f32, to: Q8Blocks, n: usize) {
    for block in 0..n {
        // SAFETY: the caller's promise.
        unsafe {
            let (x, to) = (x.add(32 * block), to.skip(block));
            let scale = s.peak32(x) / 127.0;
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            let integers = s.quantize32(x, inverse, to.q);
            *to.scales = scale;
            *to.sums = scale * integers.low as f32;
            *to.sums.add(1) = scale * integers.high as f32;
        }
    }
}

/// The largest f32 below one half. Added with a value's sign before the fraction is cut off, it rounds ties away from
/// zero; one half itself would also carry 0.49999997 to 1.
const ALMOST_HALF: f32 = 0.499_999_97;
