//! Weights that are unpacked once for many activation rows: a byte for each, and their scales as f32.

use super::{HALVES, Kind, Packed, Scales, line};
use crate::each_block;
use crate::gemm::Gemm;
use crate::packed::ROWS;
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// The blocks of a format, unpacked.
pub struct Bytes<P>(PhantomData<P>);

/// Bytes of an unpacked block of one row.
pub const BYTES: usize = 32 + 3 * 4;

/// Where the numbers that follow the integers of 16 rows are.
const NUMBERS: [usize; 3] = [32 * ROWS, 36 * ROWS, 40 * ROWS];

impl<P: Packed> Packed for Bytes<P> {
    const BLOCKS: usize = 1;
    const BYTES: usize = BYTES;
    const WIDE: bool = P::WIDE;
    const OFFSETS: bool = P::OFFSETS;
    const KIND: Kind = P::KIND;
    const SHORT: bool = P::SHORT;
    type Like = P::Like;
    type Head = ();

    #[inline(always)]
    unsafe fn head(_: *const u8, _: usize) {}

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn quad<const ODD: usize, const I: usize>(p: *const u8, half: usize, _: usize) -> __m256i {
        // SAFETY: bytes of the block.
        unsafe { line(p, 64 * I, half) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn scales(p: *const u8, half: usize, _: &(), _: usize) -> Scales {
        // SAFETY: numbers of the block.
        let [first, second, offset] = unsafe { NUMBERS.map(|at| _mm256_castsi256_ps(line(p, at, half))) };
        Scales { scale: [first, if P::WIDE { first } else { second }], offset }
    }
}

/// Unpacks 16 weight rows of the tile from `n` on.
///
/// # Safety
/// As [`super::q8_packed`]; there is room for them.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn unpack<P: Packed>(d: &Gemm, n: usize, to: *mut u8) {
    // SAFETY: blocks of the rows, and of those they are unpacked to.
    unsafe {
        for first in (0..d.k / 32).step_by(P::BLOCKS) {
            let p = d.w.add(n * d.w_stride + first / P::BLOCKS * ROWS * P::BYTES);
            for half in 0..HALVES {
                let head = P::head(p, half);
                each_block!(P, |ODD, pair| {
                    let to = to.add((first + 2 * pair + ODD) * ROWS * BYTES + 32 * half);
                    block::<P, ODD>((p, half, &head), pair, to);
                });
            }
        }
    }
}

/// Unpacks block `2 * pair + ODD` of those at `p`, of eight rows.
///
/// # Safety
/// As [`unpack`], and the head is theirs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn block<P: Packed, const ODD: usize>((p, half, head): (*const u8, usize, &P::Head), pair: usize, to: *mut u8) {
    // SAFETY: bytes of the block, and of that it is unpacked to.
    unsafe {
        let put = |at: usize, v: __m256i| _mm256_store_si256(to.add(at).cast(), v);
        macro_rules! quads {
            ($($i:literal)*) => {$(put(64 * $i, P::quad::<ODD, $i>(p, half, pair));)*};
        }
        quads!(0 1 2 3 4 5 6 7);
        let Scales { scale, offset } = P::scales(p, half, head, 2 * pair + ODD);
        for (at, v) in NUMBERS.into_iter().zip([scale[0], scale[1], offset]) {
            put(at, _mm256_castps_si256(v));
        }
    }
}
