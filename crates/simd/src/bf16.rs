//! Numbers on their way to bf16, with AVX-512: what is rounded to 8 bits need not be computed to 24.

use std::arch::x86_64::*;

/// Two registers of f32 as one of bf16.
///
/// # Safety
/// Only where a caller has other features: then the machine must have these.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub fn round(low: __m512, high: __m512) -> __m512i {
    // SAFETY: both are 64 bytes of plain data.
    unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(high, low)) }
}

/// `2^x` to 9e-5 of it, a twentieth of what rounding to bf16 does; at least the smallest normal number, since smaller ones
/// take a hundred times as long to make.
///
/// # Safety
/// Only where a caller has other features: then the machine must have these.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub fn exp2(x: __m512) -> __m512 {
    let x = _mm512_max_ps(x, _mm512_set1_ps(-126.0));
    // What `x` is above the next whole number below; the whole number is `scalef`'s.
    let f = _mm512_reduce_ps::<0x09>(x);
    let mut p = _mm512_set1_ps(0.077_067_04);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.227_645));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.695_116_8));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0));
    _mm512_scalef_ps(p, x)
}

/// Two registers of f32 as bf16, those of a lane side by side: to the nearest, from the middle away from 0. Some that are no
/// numbers would become one.
///
/// # Safety
/// Only where a caller has other features: then the machine must have these.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn round_pairs(even: __m512, odd: __m512) -> __m512i {
    let half = _mm512_set1_epi32(0x8000);
    let [even, odd] = [even, odd].map(|v| _mm512_add_epi32(_mm512_castps_si512(v), half));
    // even | odd & mask
    _mm512_ternarylogic_epi32::<0xf8>(_mm512_srli_epi32::<16>(even), odd, _mm512_set1_epi32(0xffff_0000_u32 as i32))
}
