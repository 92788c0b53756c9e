//! Machines without VNNI: products of bytes are added in 16 bits for as long as they fit, which is a whole block for integers of
//! four bits and eight values for those of up to six. Integers of eight bits become 16 first, and so do the activations.
//!
//! Otherwise as [`super::small_m`], and the same to the bit. One activation row reads in several streams, as in [`super::gemv`].

use super::super::{CHAINS, joined};
use super::small_m::Factors;
use super::sums::Sums;
use super::{LONGEST, Packed};
use crate::avx2::times_bytes;
use crate::each_block;
use crate::gemm::{AHEAD, Gemm, STREAMS, q8_row};
use crate::packed::ROWS;
use crate::simd::prefetch;
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Activation rows that are multiplied at a time, at most.
const MAX_ROWS: usize = 8;
/// Blocks of activations that there is room for: of rows that are very long, fewer are multiplied in one walk.
const MAX_BLOCKS: usize = 2 * LONGEST;

/// What waits in memory.
#[repr(C, align(64))]
struct Scratch {
    /// Of pairs of streams or of activation rows.
    sum: Sums<MAX_ROWS>,
    /// Blocks of 16-bit activations: of every four the first and the third, then the others.
    words: [[[i16; 4]; 8]; MAX_BLOCKS],
    factors: [Factors; MAX_BLOCKS],
}

/// A block of activation rows.
#[derive(Clone, Copy)]
struct ActBlocks {
    /// The first one's integers or words; the next one's are a stride further.
    q: *const u8,
    stride: usize,
    /// The next one's are so many further.
    factors: *const Factors,
    apart: usize,
}

/// The kernel of a format.
///
/// # Safety
/// As [`super::q8_packed`], but the machine need not have VNNI.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
pub unsafe fn q8_packed_no_vnni<P: Packed>(d: &Gemm) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    let blocks = d.k / 32;
    let most = MAX_BLOCKS / blocks.max(1);
    // SAFETY: rows of the tile; there is room for their blocks.
    unsafe {
        Sums::begin(&raw mut (*s).sum, blocks);
        for m in (0..d.rows).step_by(most) {
            let rows = most.min(d.rows - m);
            for row in 0..rows {
                prepare::<P>(d, s, m, row);
            }
            if rows == 1 {
                let rest = walk::<P>(d, s, m, 0, STREAMS / 2);
                walk::<P>(d, s, m, rest, 1);
                continue;
            }
            for n in (0..d.cols).step_by(2 * ROWS) {
                small_m::<P>(d, s, (m, rows), n);
            }
        }
    }
}

/// Prepares activation row `m + row`.
///
/// # Safety
/// As [`q8_packed_no_vnni`]; there is room for it.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn prepare<P: Packed>(d: &Gemm, s: *mut Scratch, m: usize, row: usize) {
    let blocks = d.k / 32;
    // SAFETY: blocks of the row.
    unsafe {
        let (q, scale, sums) = q8_row(d, m + row);
        let to = (&raw mut (*s).factors).cast::<Factors>().add(row * blocks);
        let words = (&raw mut (*s).words).cast::<__m512i>().add(row * blocks);
        for b in 0..blocks {
            let v = _mm256_loadu_si256(q.add(32 * b).cast());
            let extra = if P::OFFSETS {
                [(*sums.add(2 * b) + *sums.add(2 * b + 1)).to_bits() as i32; 2]
            } else {
                let [first, second] = times_bytes(P::BIAS, v);
                if P::WIDE { [-(first + second); 2] } else { [-first, -second] }
            };
            *to.add(b) = Factors { scale: *scale.add(b), extra };
            if P::BITS == 8 {
                let order =
                    _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
                _mm512_store_si512(words.add(b), _mm512_cvtepi8_epi16(_mm256_shuffle_epi8(v, order)));
            }
        }
    }
}

/// One activation row and weight rows from `n` on, as many as `streams` pairs of streams share evenly; the last walk, of one, takes
/// all. Returns the first that is left.
///
/// # Safety
/// As [`q8_packed_no_vnni`]; the row is prepared.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn walk<P: Packed>(d: &Gemm, s: *mut Scratch, m: usize, n: usize, streams: usize) -> usize {
    let left = d.cols - n;
    let apart = if streams == 1 { left.div_ceil(2 * ROWS) * ROWS } else { left / (2 * streams * ROWS) * ROWS };
    for n in (n..n + apart).step_by(ROWS) {
        // SAFETY: groups of the tile.
        unsafe { products::<P, 1>(d, s, (m, 0), (n, apart, streams), true) }
    }
    n + 2 * streams * apart
}

/// The prepared activation rows from `m` on and 32 weight rows, which stay in the cache meanwhile.
///
/// # Safety
/// As [`q8_packed_no_vnni`].
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn small_m<P: Packed>(d: &Gemm, s: *mut Scratch, (m, rows): (usize, usize), n: usize) {
    let mut row = 0;
    while row < rows {
        // SAFETY: rows of the tile.
        unsafe {
            row += match rows - row {
                1 => {
                    products::<P, 1>(d, s, (m, row), (n, ROWS, 1), row == 0);
                    1
                }
                2..MAX_ROWS => {
                    products::<P, 2>(d, s, (m, row), (n, ROWS, 1), row == 0);
                    2
                }
                _ => {
                    products::<P, MAX_ROWS>(d, s, (m, row), (n, ROWS, 1), row == 0);
                    MAX_ROWS
                }
            }
        }
    }
}

/// The products of `R` activation rows, `m + row` the first, with some pairs of groups of 16 weight rows: the first at row `n`, each
/// `apart` from the last. A group that is not there has the one before it in its place.
///
/// # Safety
/// As [`q8_packed_no_vnni`]: the rows are prepared.
#[inline(never)]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn products<P: Packed, const R: usize>(
    d: &Gemm,
    s: *mut Scratch,
    (m, row): (usize, usize),
    (n, apart, pairs): (usize, usize, usize),
    prefetches: bool,
) {
    debug_assert!(R * pairs <= MAX_ROWS);
    let blocks = d.k / 32;
    let bytes = ROWS * P::BYTES / P::BLOCKS;
    // SAFETY: blocks of the rows; results of the tile.
    unsafe {
        let sum = &raw mut (*s).sum;
        let (q, ..) = q8_row(d, m + row);
        let factors = (&raw const (*s).factors).cast::<Factors>().add(row * blocks);
        let words = (&raw const (*s).words).cast::<u8>().add(64 * row * blocks);
        let exists = |group: usize| n + group * apart < d.cols;
        let at = |group: usize| d.w.add((n + group * apart) * d.w_stride);
        for first in (0..blocks).step_by(P::BLOCKS) {
            for g in 0..pairs {
                let skip = first / P::BLOCKS * ROWS * P::BYTES;
                let p = [at(2 * g).add(skip), at(2 * g + usize::from(exists(2 * g + 1))).add(skip)];
                let heads = [P::head(p[0]), P::head(p[1])];
                each_block!(P, |ODD, pair| {
                    let i = 2 * pair + ODD;
                    for p in p.iter().filter(|_| prefetches) {
                        for line in (0..bytes).step_by(64) {
                            prefetch(p.wrapping_add(i * bytes + AHEAD + line));
                        }
                    }
                    let b = first + i;
                    let (q, stride) =
                        if P::BITS == 8 { (words.add(64 * b), 64 * blocks) } else { (q.add(32 * b), d.x_stride) };
                    let x = ActBlocks { q, stride, factors: factors.add(b), apart: blocks };
                    add::<P, R, ODD>((Sums::at(sum, b % CHAINS, R * g), b < CHAINS), (p, &heads, pair), x);
                });
            }
        }
        for (group, r) in
            (0..2 * pairs).filter(|&group| exists(group)).flat_map(|group| (0..R).map(move |r| (group, r)))
        {
            let mut chains = [_mm512_setzero_ps(); CHAINS];
            for (c, chain) in chains.iter_mut().enumerate() {
                let at = Sums::at(sum, c, R * (group / 2) + r).cast::<f32>();
                *chain = _mm512_load_ps(at.add(group % 2 * ROWS));
            }
            _mm512_storeu_ps(d.out.add((m + row + r) * d.out_stride + n + group * apart), joined(chains));
        }
    }
}

/// Adds the products of the `R` blocks at `x` with block `2 * pair + ODD` of those at both `p` to their sums, or begins them.
///
/// # Safety
/// The caller has AVX-512 F, BW, VL and DQ; the blocks and the sums exist, and the heads are theirs.
#[inline(always)]
unsafe fn add<P: Packed, const R: usize, const ODD: usize>(
    (sums, begins): (*mut [f32; 2 * ROWS], bool),
    (p, heads, pair): ([*const u8; 2], &[P::Head; 2], usize),
    x: ActBlocks,
) {
    macro_rules! part {
        ($part:literal) => {{
            let v = integers::<P, R, ODD, $part>(p, pair, x);
            let b = 2 * pair + ODD;
            let w = [P::scales(p[0], &heads[0], b), P::scales(p[1], &heads[1], b)];
            for (r, v) in v.iter().enumerate() {
                let Factors { scale, extra } = *x.factors.add(r * x.apart);
                for (half, (v, w)) in v.iter().zip(&w).enumerate() {
                    let at = sums.add(r).cast::<f32>().add(half * ROWS);
                    let v = if P::BIAS == 0 { *v } else { _mm512_add_epi32(*v, _mm512_set1_epi32(extra[$part])) };
                    let before = _mm512_maskz_load_ps(if begins && $part == 0 { 0 } else { !0 }, at);
                    let scale = _mm512_mul_ps(w.scale[$part], _mm512_set1_ps(scale));
                    let mut sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(v), scale, before);
                    if P::OFFSETS {
                        let of = _mm512_set1_ps(f32::from_bits(extra[$part] as u32));
                        sum = _mm512_fmadd_ps(w.offset[$part], of, sum);
                    }
                    _mm512_store_ps(at, sum);
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

/// The integer sums of the first (`PART` 0) or the second half of a block or, of a wide format, of all of it; the bias is not taken
/// off.
///
/// # Safety
/// As [`add`].
#[inline(always)]
unsafe fn integers<P: Packed, const R: usize, const ODD: usize, const PART: usize>(
    p: [*const u8; 2],
    pair: usize,
    x: ActBlocks,
) -> [[__m512i; 2]; R] {
    // SAFETY: the same contract.
    unsafe {
        // With four rows or fewer nobody goes to the second base, which may then lie outside.
        let bases = [x.q, x.q.wrapping_add(4 * x.stride)];
        let offsets = [0, x.stride, 2 * x.stride, 3 * x.stride];
        let mut v = [[_mm512_setzero_si512(); 2]; R];
        macro_rules! quads {
            ($($i:literal $j:literal)*) => {$(
                let w = [P::quad::<ODD, $i>(p[0], pair), P::quad::<ODD, $i>(p[1], pair)];
                let u = [P::quad::<ODD, $j>(p[0], pair), P::quad::<ODD, $j>(p[1], pair)];
                for (r, v) in v.iter_mut().enumerate() {
                    let at = (bases[r / 4], offsets[r % 4]);
                    match P::BITS {
                        4 => {
                            short::<$i>(v, w, at);
                            short::<$j>(v, u, at);
                        }
                        5 | 6 => twice::<$i>(v, [w, u], at),
                        _ => {
                            words::<$i>(v, w, at);
                            words::<$j>(v, u, at);
                        }
                    }
                }
            )*};
        }
        if P::WIDE || PART == 0 {
            quads!(0 1 2 3);
        }
        if P::WIDE || PART == 1 {
            quads!(4 5 6 7);
        }
        if P::BITS == 4 {
            for [v0, v1] in &mut v {
                *v0 = _mm512_madd_epi16(*v0, _mm512_set1_epi16(1));
                *v1 = _mm512_madd_epi16(*v1, _mm512_set1_epi16(1));
            }
        }
        v
    }
}

// In assembly, as in `small_m` and for the same reasons.

/// Adds products of quad `I` to sums of 16 bits.
///
/// # Safety
/// The block of activations exists.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn short<const I: usize>([v0, v1]: &mut [__m512i; 2], [w0, w1]: [__m512i; 2], (q, offset): (*const u8, usize)) {
    // SAFETY: a quad of the block; the instructions change nothing but registers.
    unsafe {
        let (_x, _y): (__m512i, __m512i);
        asm!(
            "vpbroadcastd {x}, dword ptr [{q} + {offset} + 4 * {i}]",
            "vpmaddubsw {y}, {w0}, {x}",
            "vpmaddubsw {x}, {w1}, {x}",
            "vpaddw {v0}, {v0}, {y}",
            "vpaddw {v1}, {v1}, {x}",
            x = out(zmm_reg) _x,
            y = out(zmm_reg) _y,
            q = in(reg) q,
            offset = in(reg) offset,
            i = const I,
            w0 = in(zmm_reg) w0,
            w1 = in(zmm_reg) w1,
            v0 = inout(zmm_reg) *v0,
            v1 = inout(zmm_reg) *v1,
            options(readonly, nostack, preserves_flags)
        );
    }
}

/// Adds products of quad `I` and the next: twice two products of 63 and 127 fit in 16 bits.
///
/// # Safety
/// The block of activations exists.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn twice<const I: usize>(
    [v0, v1]: &mut [__m512i; 2],
    [w, u]: [[__m512i; 2]; 2],
    (q, offset): (*const u8, usize),
) {
    // SAFETY: quads of the block; the instructions change nothing but registers.
    unsafe {
        let (_x, _y): (__m512i, __m512i);
        let (_a, _b): (__m512i, __m512i);
        asm!(
            "vpbroadcastd {x}, dword ptr [{q} + {offset} + 4 * {i}]",
            "vpbroadcastd {y}, dword ptr [{q} + {offset} + 4 * {i} + 4]",
            "vpmaddubsw {a}, {w0}, {x}",
            "vpmaddubsw {b}, {u0}, {y}",
            "vpmaddubsw {x}, {w1}, {x}",
            "vpmaddubsw {y}, {u1}, {y}",
            "vpaddw {a}, {a}, {b}",
            "vpaddw {x}, {x}, {y}",
            "vpmaddwd {a}, {a}, {ones}",
            "vpmaddwd {x}, {x}, {ones}",
            "vpaddd {v0}, {v0}, {a}",
            "vpaddd {v1}, {v1}, {x}",
            x = out(zmm_reg) _x,
            y = out(zmm_reg) _y,
            a = out(zmm_reg) _a,
            b = out(zmm_reg) _b,
            q = in(reg) q,
            offset = in(reg) offset,
            i = const I,
            ones = in(zmm_reg) _mm512_set1_epi16(1),
            w0 = in(zmm_reg) w[0],
            w1 = in(zmm_reg) w[1],
            u0 = in(zmm_reg) u[0],
            u1 = in(zmm_reg) u[1],
            v0 = inout(zmm_reg) *v0,
            v1 = inout(zmm_reg) *v1,
            options(readonly, nostack, preserves_flags)
        );
    }
}

/// Adds products of quad `I` as words.
///
/// # Safety
/// The block of activations exists, as words.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq")]
unsafe fn words<const I: usize>([v0, v1]: &mut [__m512i; 2], [w0, w1]: [__m512i; 2], (q, offset): (*const u8, usize)) {
    let even = |w| _mm512_and_si512(w, _mm512_set1_epi16(255));
    let odd = |w| _mm512_srli_epi16::<8>(w);
    // SAFETY: a quad of the block; the instructions change nothing but registers.
    unsafe {
        let (_x, _y): (__m512i, __m512i);
        let _a: __m512i;
        asm!(
            "vpbroadcastd {x}, dword ptr [{q} + {offset} + 8 * {i}]",
            "vpbroadcastd {y}, dword ptr [{q} + {offset} + 8 * {i} + 4]",
            "vpmaddwd {a}, {w0}, {x}",
            "vpmaddwd {x}, {w1}, {x}",
            "vpaddd {v0}, {v0}, {a}",
            "vpmaddwd {a}, {u0}, {y}",
            "vpmaddwd {y}, {u1}, {y}",
            "vpaddd {v1}, {v1}, {x}",
            "vpaddd {v0}, {v0}, {a}",
            "vpaddd {v1}, {v1}, {y}",
            x = out(zmm_reg) _x,
            y = out(zmm_reg) _y,
            a = out(zmm_reg) _a,
            q = in(reg) q,
            offset = in(reg) offset,
            i = const I,
            w0 = in(zmm_reg) even(w0),
            w1 = in(zmm_reg) even(w1),
            u0 = in(zmm_reg) odd(w0),
            u1 = in(zmm_reg) odd(w1),
            v0 = inout(zmm_reg) *v0,
            v1 = inout(zmm_reg) *v1,
            options(readonly, nostack, preserves_flags)
        );
    }
}
