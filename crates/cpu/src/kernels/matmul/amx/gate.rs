//! Gated values on their way to bf16.
//!
//! Beside the matrix unit every instruction counts: these are less than half of those that make f32, without a division.

use crate::simd::bf16::{exp2, round};
use crate::simd::math::GeluTanh;
use crate::simd::tiles::STEP;
use akunu_plan::op::Activation;
use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;

/// An activation that is `x` times the sigmoid of `x (first + third x²)`.
#[derive(Clone, Copy)]
pub struct Gate {
    first: f32,
    third: f32,
}

impl Gate {
    pub fn of(activation: u32) -> Option<Self> {
        const SILU: u32 = Activation::Silu as u32;
        const GELU_TANH: u32 = Activation::GeluTanh as u32;
        match activation {
            SILU => Some(Self { first: 1.0, third: 0.0 }),
            GELU_TANH => Some(Self { first: GeluTanh::TWO_ROOT, third: GeluTanh::CUBIC * GeluTanh::TWO_ROOT }),
            _ => None,
        }
    }

    /// 32 values of `activation(x) * u`, to 2e-4 of them before they are rounded.
    ///
    /// # Safety
    /// All three are there, and the machine has the AMX level.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512bf16")]
    pub unsafe fn round32(self, x: *const f32, u: *const f32, to: *mut u8) {
        const { assert!(STEP == 32) };
        let (first, third) = (_mm512_set1_ps(-LOG2_E * self.first), _mm512_set1_ps(-LOG2_E * self.third));
        let gated = |at: usize| {
            // SAFETY: 16 of the values.
            let (x, u) = unsafe { (_mm512_loadu_ps(x.add(at)), _mm512_loadu_ps(u.add(at))) };
            // Not for nothing: the square of a large number is infinite, and no sum with it is a number.
            let slope = if self.third == 0.0 { first } else { _mm512_fmadd_ps(_mm512_mul_ps(x, x), third, first) };
            let odds_against = exp2(_mm512_mul_ps(x, slope));
            let sigmoid = _mm512_rcp14_ps(_mm512_add_ps(odds_against, _mm512_set1_ps(1.0)));
            _mm512_mul_ps(_mm512_mul_ps(x, u), sigmoid)
        };
        // SAFETY: a line of a tile.
        unsafe { _mm512_storeu_si512(to.cast(), round(gated(0), gated(16))) }
    }
}
