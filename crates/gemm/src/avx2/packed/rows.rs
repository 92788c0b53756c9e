//! The kernels: some activation rows at a time, whose integer sums with 16 weight rows are in registers.
//!
//! The sums of products wait in memory, a chain of four in turn: there are no registers left for them, and a block reads and
//! writes one but once. Weights are unpacked again for every few activation rows, or to memory for many.

use super::bytes::{self, Bytes};
use super::integers::{self, Activations};
use super::{HALVES, Kind, LANES, Packed, Scales};
use crate::avx2::times_bytes;
use crate::each_block;
use crate::gemm::{AHEAD, Gemm, STREAMS, q8_row};
use crate::generic::Q8_CHAINS as CHAINS;
use crate::packed::ROWS;
use crate::simd::prefetch;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Activation rows that are multiplied at a time, at most.
const MAX_ROWS: usize = 4;
/// Blocks of activations whose factors there is room for: of rows that are very long, fewer are multiplied in one walk.
const MAX_BLOCKS: usize = MAX_ROWS * crate::packed::MAX_COLS / 32;

/// Blocks of a weight row that is unpacked once for many activation rows, at most.
const UNPACKED_BLOCKS: usize = 512;

/// From how many activation rows on that pays: scales of superblocks take long to unpack.
const fn many_rows<P: Packed>() -> usize {
    if P::BLOCKS > 1 { 6 } else { 16 }
}

/// Room for 16 unpacked weight rows.
#[repr(C, align(64))]
struct Unpacked([[u8; ROWS * bytes::BYTES]; UNPACKED_BLOCKS]);

/// What a block of an activation row has beside its integers: what takes the bias off the integer sums of its halves, or the sum
/// that offsets are multiplied with, as bits. A wide format takes the first.
#[derive(Clone, Copy)]
struct Factors {
    scale: f32,
    extra: [i32; 2],
}

/// The sums of 16 weight rows by chain, of an activation row in a stream.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Sums([[f32; ROWS]; CHAINS]);

/// The kernel of a format.
///
/// # Safety
/// As [`Gemm`] promises, of packed weights: their rows, and the tile's, come by 16 and have no more than
/// [`crate::packed::MAX_COLS`] values. The machine has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn q8_packed<P: Packed>(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { all_rows::<P, false>(d) }
}

/// The kernel of a format, for machines that add products of bytes to 32 bits.
///
/// # Safety
/// As [`q8_packed`]; the machine has AVX-VNNI.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn q8_packed_vnni<P: Packed>(d: &Gemm) {
    // SAFETY: the same contract.
    unsafe { all_rows::<P, true>(d) }
}

/// # Safety
/// As [`q8_packed`], and as [`q8_packed_vnni`] if `VNNI`.
#[inline(always)]
unsafe fn all_rows<P: Packed, const VNNI: bool>(d: &Gemm) {
    let mut room = MaybeUninit::<[Factors; MAX_BLOCKS]>::uninit();
    let factors = room.as_mut_ptr().cast::<Factors>();
    let blocks = d.k / 32;
    let most = MAX_BLOCKS / blocks.max(1);
    // SAFETY: rows of the tile, whose factors fit.
    unsafe {
        for m in (0..d.rows).step_by(most) {
            let rows = most.min(d.rows - m);
            for row in 0..rows {
                put_factors::<P, VNNI>(d, m + row, factors.add(row * blocks));
            }
            if rows == 1 {
                let rest = walk::<P, VNNI>(d, m, 0, STREAMS, factors);
                walk::<P, VNNI>(d, m, rest, 1, factors);
                continue;
            }
            if rows >= many_rows::<P>() && blocks <= UNPACKED_BLOCKS {
                unpacked_gemm::<P, VNNI>(d, (m, rows), factors);
                continue;
            }
            for n in (0..d.cols).step_by(ROWS) {
                small_m::<P, VNNI>(d, (m, rows), n, factors);
            }
        }
    }
}

/// Activation rows from `m` on: weights are unpacked once for all of them.
///
/// # Safety
/// As [`q8_packed`]; the factors are the activation rows', and weight rows have at most [`UNPACKED_BLOCKS`] blocks.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn unpacked_gemm<P: Packed, const VNNI: bool>(d: &Gemm, (m, rows): (usize, usize), factors: *const Factors) {
    let mut room = MaybeUninit::<Unpacked>::uninit();
    let w = room.as_mut_ptr().cast::<u8>();
    for n in (0..d.cols).step_by(ROWS) {
        // SAFETY: weight rows of the tile, for which there is room.
        unsafe {
            bytes::unpack::<P>(d, n, w);
            let w_stride = d.k / 32 * bytes::BYTES;
            let part = Gemm { w, w_stride, cols: ROWS, out: d.out.add(n), ..*d };
            small_m::<Bytes<P::Like>, VNNI>(&part, (m, rows), 0, factors);
        }
    }
}

/// What the integers are larger by when they are multiplied.
const fn bias<P: Packed, const VNNI: bool>() -> u8 {
    match P::KIND {
        Kind::Signed if VNNI => 128,
        kind => kind.bias(),
    }
}

/// Writes the factors of activation row `m`.
///
/// # Safety
/// As [`q8_packed`]; there is room for them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn put_factors<P: Packed, const VNNI: bool>(d: &Gemm, m: usize, to: *mut Factors) {
    const { assert!(!P::OFFSETS || P::WIDE && bias::<P, VNNI>() == 0) };
    // SAFETY: blocks of the row.
    unsafe {
        let (q, scale, sums) = q8_row(d, m);
        for b in 0..d.k / 32 {
            let extra = if P::OFFSETS {
                [(*sums.add(2 * b) + *sums.add(2 * b + 1)).to_bits() as i32; 2]
            } else {
                let [first, second] = times_bytes(bias::<P, VNNI>(), _mm256_loadu_si256(q.add(32 * b).cast()));
                if P::WIDE { [-(first + second); 2] } else { [-first, -second] }
            };
            *to.add(b) = Factors { scale: *scale.add(b), extra };
        }
    }
}

/// One activation row, `m`, and weight rows from `n` on, as many as `streams` share evenly; returns the first that is left.
///
/// # Safety
/// As [`q8_packed`], and the factors are the row's.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn walk<P: Packed, const VNNI: bool>(
    d: &Gemm,
    m: usize,
    n: usize,
    streams: usize,
    factors: *const Factors,
) -> usize {
    let apart = (d.cols - n) / (streams * ROWS) * ROWS;
    for n in (n..n + apart).step_by(ROWS) {
        // SAFETY: groups of the tile.
        unsafe { products::<P, VNNI, 1>(d, m, (n, apart, streams), factors, true) }
    }
    n + streams * apart
}

/// Activation rows from `m` on and 16 weight rows, which stay in the cache meanwhile.
///
/// # Safety
/// As [`q8_packed`], and the factors are the activation rows'.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn small_m<P: Packed, const VNNI: bool>(d: &Gemm, (m, rows): (usize, usize), n: usize, factors: *const Factors) {
    // Two quads of weights at a time leave fewer registers for sums.
    let most = if VNNI || P::SHORT { MAX_ROWS } else { MAX_ROWS / 2 };
    let mut done = 0;
    while done < rows {
        // SAFETY: rows of the tile.
        unsafe {
            let factors = factors.add(done * (d.k / 32));
            let (m, prefetches) = (m + done, done == 0);
            done += match (rows - done).min(most) {
                1 => {
                    products::<P, VNNI, 1>(d, m, (n, 0, 1), factors, prefetches);
                    1
                }
                MAX_ROWS => {
                    products::<P, VNNI, MAX_ROWS>(d, m, (n, 0, 1), factors, prefetches);
                    MAX_ROWS
                }
                _ => {
                    products::<P, VNNI, 2>(d, m, (n, 0, 1), factors, prefetches);
                    2
                }
            }
        }
    }
}

/// The products of `R` activation rows from `m` on and some groups of 16 weight rows, the first at row `n` and each `apart` from the
/// last.
///
/// # Safety
/// As [`q8_packed`]: they are the tile's, and the factors the activation rows'.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn products<P: Packed, const VNNI: bool, const R: usize>(
    d: &Gemm,
    m: usize,
    (n, apart, groups): (usize, usize, usize),
    factors: *const Factors,
    prefetches: bool,
) {
    let blocks = d.k / 32;
    let bytes = ROWS * P::BYTES / P::BLOCKS;
    let mut room = MaybeUninit::<[Sums; STREAMS]>::uninit();
    let sums = room.as_mut_ptr().cast::<[Sums; R]>();
    // SAFETY: blocks of the rows; results of the tile; `R * groups` is `STREAMS` at most.
    unsafe {
        sums.write_bytes(0, groups);
        let sums = std::slice::from_raw_parts_mut(sums, groups);
        let (q, ..) = q8_row(d, m);
        for first in (0..blocks).step_by(P::BLOCKS) {
            for (g, sums) in sums.iter_mut().enumerate() {
                let p = d.w.add((n + g * apart) * d.w_stride + first / P::BLOCKS * ROWS * P::BYTES);
                let heads: [P::Head; HALVES] = [P::head(p, 0), P::head(p, 1)];
                each_block!(P, |ODD, pair| {
                    let i = 2 * pair + ODD;
                    if prefetches {
                        for line in (0..bytes).step_by(64) {
                            prefetch(p.wrapping_add(i * bytes + AHEAD + line));
                        }
                    }
                    let b = first + i;
                    let x = Activations { q: q.add(32 * b), stride: d.x_stride };
                    add::<P, VNNI, ODD, R>(sums, b, (p, &heads, pair), (x, factors.add(b), blocks));
                });
            }
        }
        for (g, sums) in sums.iter().enumerate() {
            for (r, Sums(sums)) in sums.iter().enumerate() {
                let to = d.out.add((m + r) * d.out_stride + n + g * apart);
                for at in (0..ROWS).step_by(LANES) {
                    let [a, b, c, d] = std::array::from_fn(|chain| _mm256_load_ps(sums[chain][at..].as_ptr()));
                    _mm256_storeu_ps(to.add(at), _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)));
                }
            }
        }
    }
}

/// Adds the products of block `2 * pair + ODD` of those at `p` with block `b` of `R` activation rows.
///
/// # Safety
/// The caller has the AVX2 level, and AVX-VNNI if `VNNI`; the blocks exist, and heads and factors are theirs.
#[inline(always)]
unsafe fn add<P: Packed, const VNNI: bool, const ODD: usize, const R: usize>(
    sums: &mut [Sums; R],
    b: usize,
    (p, heads, pair): (*const u8, &[P::Head; HALVES], usize),
    (x, factors, blocks): (Activations, *const Factors, usize),
) {
    macro_rules! part {
        ($part:literal) => {{
            let v = integers::sums::<P, VNNI, ODD, $part, R>(p, pair, x);
            let i = 2 * pair + ODD;
            let w: [Scales; HALVES] = [P::scales(p, 0, &heads[0], i), P::scales(p, 1, &heads[1], i)];
            for (r, (v, Sums(sums))) in v.into_iter().zip(sums.iter_mut()).enumerate() {
                let Factors { scale, extra } = *factors.add(r * blocks);
                for (half, (v, w)) in v.into_iter().zip(w).enumerate() {
                    let at = sums[b % CHAINS][half * LANES..].as_mut_ptr();
                    let unbiased = bias::<P, VNNI>() == 0;
                    let v = if unbiased { v } else { _mm256_add_epi32(v, _mm256_set1_epi32(extra[$part])) };
                    let scale = _mm256_mul_ps(w.scale[$part], _mm256_set1_ps(scale));
                    let mut sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(v), scale, _mm256_load_ps(at));
                    if P::OFFSETS {
                        sum = _mm256_fmadd_ps(w.offset, _mm256_set1_ps(f32::from_bits(extra[0] as u32)), sum);
                    }
                    _mm256_store_ps(at, sum);
                }
            }
        }};
    }
    // SAFETY: the same contract.
    unsafe {
        part!(0);
        if !P::WIDE {
            part!(1);
        }
    }
}
