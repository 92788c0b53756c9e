//! Integer sums of a block: 16 weight rows with some activation rows.
//!
//! In assembly, because the compiler would load the broadcasts of all rows first and have no registers left for the sums. For the
//! same reason it is not said to be pure: what is not stays in its order.

use super::{HALVES, Kind, Packed};
use crate::avx2::dot;
use std::arch::asm;
use std::arch::x86_64::*;

/// Sums of one activation row.
pub type Sums = [__m256i; HALVES];

/// Activation rows: the first one's block, the next one's a stride further.
#[derive(Clone, Copy)]
pub struct Activations {
    pub q: *const u8,
    pub stride: usize,
}

/// The products of block `2 * pair + ODD` of the weights at `p` with a block of `R` activation rows, of the first (`PART` 0) or the second half
/// of a block or, of a wide format, of all of it; what biases add is not taken off.
///
/// # Safety
/// The blocks exist; the machine has the AVX2 level, and AVX-VNNI if `VNNI`.
#[inline(always)]
pub unsafe fn sums<P: Packed, const VNNI: bool, const ODD: usize, const PART: usize, const R: usize>(
    p: *const u8,
    pair: usize,
    x: Activations,
) -> [Sums; R] {
    // SAFETY: the same contract.
    unsafe {
        let mut v = [[_mm256_setzero_si256(); HALVES]; R];
        macro_rules! quads {
            ($($i:literal)*) => {$(
                let w = [P::quad::<ODD, $i>(p, 0, pair), P::quad::<ODD, $i>(p, 1, pair)];
                for (r, v) in v.iter_mut().enumerate() {
                    let at = (x.q, r * x.stride);
                    match P::KIND {
                        _ if VNNI => fours::<P, $i>(v, w, at),
                        Kind::Signed => signed::<$i>(v, w, at),
                        _ => short::<$i>(v, w, at),
                    }
                }
            )*};
        }
        macro_rules! pairs {
            ($($i:literal $j:literal)*) => {$(
                let w = [
                    [P::quad::<ODD, $i>(p, 0, pair), P::quad::<ODD, $i>(p, 1, pair)],
                    [P::quad::<ODD, $j>(p, 0, pair), P::quad::<ODD, $j>(p, 1, pair)],
                ];
                for (r, v) in v.iter_mut().enumerate() {
                    twice::<$i>(v, w, (x.q, r * x.stride));
                }
            )*};
        }
        let by_pairs = !VNNI && P::KIND != Kind::Signed && !P::SHORT;
        match (by_pairs, P::WIDE || PART == 0, P::WIDE || PART == 1) {
            (true, true, true) => {
                pairs!(0 1 2 3 4 5 6 7);
            }
            (true, true, false) => {
                pairs!(0 1 2 3);
            }
            (true, ..) => {
                pairs!(4 5 6 7);
            }
            (false, true, true) => {
                quads!(0 1 2 3 4 5 6 7);
            }
            (false, true, false) => {
                quads!(0 1 2 3);
            }
            (false, ..) => {
                quads!(4 5 6 7);
            }
        }
        if !VNNI && P::SHORT {
            // A flattened iterator would keep the sums in memory.
            for [v0, v1] in &mut v {
                *v0 = _mm256_madd_epi16(*v0, _mm256_set1_epi16(1));
                *v1 = _mm256_madd_epi16(*v1, _mm256_set1_epi16(1));
            }
        }
        v
    }
}

/// Adds products of unsigned integers to sums of 16 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn short<const I: usize>([v0, v1]: &mut Sums, [w0, w1]: [__m256i; HALVES], (q, offset): (*const u8, usize)) {
    // SAFETY: four bytes; the instructions change nothing but registers.
    unsafe {
        let _x: __m256i;
        let _product: __m256i;
        asm!(
            "vpbroadcastd {x}, dword ptr [{q} + {offset} + 4 * {i}]",
            "vpmaddubsw {product}, {w0}, {x}",
            "vpmaddubsw {x}, {w1}, {x}",
            "vpaddw {v0}, {v0}, {product}",
            "vpaddw {v1}, {v1}, {x}",
            x = out(ymm_reg) _x,
            product = out(ymm_reg) _product,
            q = in(reg) q,
            offset = in(reg) offset,
            i = const I,
            w0 = in(ymm_reg) w0,
            w1 = in(ymm_reg) w1,
            v0 = inout(ymm_reg) *v0,
            v1 = inout(ymm_reg) *v1,
            options(readonly, nostack, preserves_flags)
        );
    }
}

/// Adds products of two quads of integers of up to six bits, from 0: twice two products of 63 and 127 fit in 16 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn twice<const I: usize>([v0, v1]: &mut Sums, [w, u]: [[__m256i; HALVES]; 2], (q, offset): (*const u8, usize)) {
    // SAFETY: eight bytes; the instructions change nothing but registers.
    unsafe {
        let (_x, _y): (__m256i, __m256i);
        let (_a, _b): (__m256i, __m256i);
        asm!(
            "vpbroadcastd {x}, dword ptr [{q} + {offset} + 4 * {i}]",
            "vpbroadcastd {y}, dword ptr [{q} + {offset} + 4 * {i} + 4]",
            "vpmaddubsw {a}, {w0}, {x}",
            "vpmaddubsw {b}, {u0}, {y}",
            "vpmaddubsw {x}, {w1}, {x}",
            "vpmaddubsw {y}, {u1}, {y}",
            "vpaddw {a}, {a}, {b}",
            "vpaddw {x}, {x}, {y}",
            "vpmaddwd {a}, {a}, [{ones}]",
            "vpmaddwd {x}, {x}, [{ones}]",
            "vpaddd {v0}, {v0}, {a}",
            "vpaddd {v1}, {v1}, {x}",
            x = out(ymm_reg) _x,
            y = out(ymm_reg) _y,
            a = out(ymm_reg) _a,
            b = out(ymm_reg) _b,
            q = in(reg) q,
            offset = in(reg) offset,
            i = const I,
            ones = in(reg) &ONES,
            w0 = in(ymm_reg) w[0],
            w1 = in(ymm_reg) w[1],
            u0 = in(ymm_reg) u[0],
            u1 = in(ymm_reg) u[1],
            v0 = inout(ymm_reg) *v0,
            v1 = inout(ymm_reg) *v1,
            options(readonly, nostack, preserves_flags)
        );
    }
}

#[repr(align(32))]
struct Ones(#[expect(dead_code, reason = "read by instructions")] [i16; 16]);
static ONES: Ones = Ones([1; 16]);

/// Adds products of signed integers of eight bits, which give their sign to the activations.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn signed<const I: usize>([v0, v1]: &mut Sums, [w0, w1]: [__m256i; HALVES], (q, offset): (*const u8, usize)) {
    // SAFETY: four bytes; the instructions change nothing but registers.
    unsafe {
        let (_x, _y): (__m256i, __m256i);
        asm!(
            "vpbroadcastd {x}, dword ptr [{q} + {offset} + 4 * {i}]",
            "vpsignb {y}, {x}, {w0}",
            "vpsignb {x}, {x}, {w1}",
            "vpmaddubsw {y}, {a0}, {y}",
            "vpmaddubsw {x}, {a1}, {x}",
            "vpmaddwd {y}, {y}, [{ones}]",
            "vpmaddwd {x}, {x}, [{ones}]",
            "vpaddd {v0}, {v0}, {y}",
            "vpaddd {v1}, {v1}, {x}",
            x = out(ymm_reg) _x,
            y = out(ymm_reg) _y,
            q = in(reg) q,
            offset = in(reg) offset,
            i = const I,
            ones = in(reg) &ONES,
            w0 = in(ymm_reg) w0,
            w1 = in(ymm_reg) w1,
            a0 = in(ymm_reg) _mm256_abs_epi8(w0),
            a1 = in(ymm_reg) _mm256_abs_epi8(w1),
            v0 = inout(ymm_reg) *v0,
            v1 = inout(ymm_reg) *v1,
            options(readonly, nostack, preserves_flags)
        );
    }
}

/// Adds products of integers that begin at 0: 128 is added to signed ones.
///
/// # Safety
/// Four bytes are readable; the machine has AVX-VNNI.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn fours<P: Packed, const I: usize>(v: &mut Sums, w: [__m256i; HALVES], (q, offset): (*const u8, usize)) {
    // SAFETY: the same contract.
    unsafe {
        let x = _mm256_set1_epi32(q.add(offset + 4 * I).cast::<i32>().read());
        for (v, w) in v.iter_mut().zip(w) {
            let w = if P::KIND == Kind::Signed { _mm256_xor_si256(w, _mm256_set1_epi8(-128)) } else { w };
            *v = dot(*v, w, x);
        }
    }
}
