//! GEMM: weights are unpacked once per panel, to bytes that sixteen weight rows
//! interleave by four values, and multiplied from there.
//!
//! A panel is 512 values of up to 32 weight rows. Lanes are weight rows, a broadcast of four
//! activation bytes multiplies them all, and eight products make a block's integer sum for eight
//! weight rows with no adding across lanes. `vpmaddubsw` wants one side unsigned: the weights where
//! the format's integers are; where they are biased, the activations, copied with 128 added, and
//! sums begin at what that adds, `-128 * Σ q`. Signed weights of eight bits would overflow its sums: with
//! them both sides become 16 bits, for `vpmaddwd`. `vpdpbusd` takes all weights as biased ones.
//! Each chain of a row has its own running sum, kept in memory between panels.

use super::{BLOCKS, Form, Kind, STEPS, Step, dot, transposed};
use crate::gemm::{Gemm, ROWS, RowPtrs, q8_row};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Values of a panel.
const PANEL: usize = 512;
const PANEL_BLOCKS: usize = PANEL / 32;
/// Weight rows of a panel, of those that are interleaved, and of a register.
const COLS: usize = 32;
const GROUP: usize = WIDTH * LANES;
const LANES: usize = 8;
/// Activation rows that share an unpacked panel.
const TILE: usize = 64;
/// Activation rows, and registers of weight rows, in the innermost loop.
const INNER: usize = 4;
const WIDTH: usize = 2;
/// Four-byte pieces of an activation row.
const ROW: usize = PANEL_BLOCKS * quads(WORDS);
/// Chains of a sum, as in `generic`.
const CHAINS: usize = 4;

/// A panel and the sums that it adds to.
#[repr(C, align(64))]
struct Scratch {
    /// Weights: four bytes of each row of a group, a line for every piece of a block.
    w: [[i32; GROUP]; COLS / GROUP * ROW],
    /// `-128 * Σ q`, scales and offsets, of first and second halves (of the block, if wide).
    start: [[[i32; COLS]; 2]; PANEL_BLOCKS],
    scale: [[[f32; COLS]; 2]; PANEL_BLOCKS],
    offset: [[[f32; COLS]; 2]; PANEL_BLOCKS],
    /// Activations in the order of the weights, plus 128 if the weights are biased.
    x: [[i32; ROW]; TILE],
    sum: [[[f32; COLS]; CHAINS]; TILE],
}

/// Unpacks `blocks` blocks from value `k` of the weight rows from `n` to four rows of the scratch.
type Unpack<'a> = &'a dyn Fn(*mut Scratch, usize, usize, usize, usize);

// The ways to multiply: bytes with `vpmaddubsw`, words with `vpmaddwd`, bytes with `vpdpbusd`.
const UNSIGNED: u8 = 0;
const BIASED: u8 = 1;
const WORDS: u8 = 2;
const VNNI: u8 = 3;

/// Four-byte pieces of a block: four values, or two words.
const fn quads(way: u8) -> usize {
    if way == WORDS { 16 } else { 8 }
}

/// The line of piece `q` of block `b` of weight row `n`.
const fn line(way: u8, n: usize, b: usize, q: usize) -> usize {
    (n / GROUP * PANEL_BLOCKS + b) * quads(way) + q
}

/// # Safety
/// As `Gemm` promises; the machine has AVX-VNNI if asked for.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn panel<const HAS_VNNI: bool>(form: &Form<'_>, d: &Gemm) {
    // SAFETY: the same contract; what calls it names rows of the tile and of the scratch.
    let unpack = |s: *mut Scratch, n0: usize, n: usize, k: usize, blocks: usize| unsafe {
        let rows = RowPtrs::new(d, (n0 + n).min(d.cols - 1), 1);
        match form.kind {
            Kind::Biased(_) => unpack::<BIASED>(form, &rows, s, n, k, blocks),
            _ if HAS_VNNI => unpack::<BIASED>(form, &rows, s, n, k, blocks),
            Kind::Unsigned => unpack::<UNSIGNED>(form, &rows, s, n, k, blocks),
            Kind::Signed => unpack::<WORDS>(form, &rows, s, n, k, blocks),
        }
    };
    let tiles = match (form.kind, form.wide) {
        (_, true) if HAS_VNNI => tiles::<VNNI, true>,
        (_, false) if HAS_VNNI => tiles::<VNNI, false>,
        (Kind::Unsigned, true) => tiles::<UNSIGNED, true>,
        (Kind::Unsigned, false) => tiles::<UNSIGNED, false>,
        (Kind::Biased(_), true) => tiles::<BIASED, true>,
        (Kind::Biased(_), false) => tiles::<BIASED, false>,
        (Kind::Signed, true) => tiles::<WORDS, true>,
        (Kind::Signed, false) => tiles::<WORDS, false>,
    };
    // SAFETY: the same contract.
    unsafe { tiles(form, &unpack, d) }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tiles<const WAY: u8, const WIDE: bool>(form: &Form<'_>, unpack: Unpack<'_>, d: &Gemm) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    for m0 in (0..d.rows).step_by(TILE) {
        let rows = TILE.min(d.rows - m0);
        for n0 in (0..d.cols).step_by(COLS) {
            let cols = COLS.min(d.cols - n0);
            // SAFETY: the part of the tile that begins at (m0, n0); every part of the scratch that
            // is read has been written for this panel.
            unsafe {
                (&raw mut (*s).sum).cast::<u8>().write_bytes(0, rows * size_of::<[[f32; COLS]; CHAINS]>());
                for k in (0..d.k).step_by(PANEL) {
                    let blocks = (PANEL / 32).min((d.k - k) / 32);
                    for n in (0..cols.next_multiple_of(GROUP)).step_by(ROWS) {
                        unpack(s, n0, n, k, blocks);
                    }
                    for m in 0..rows {
                        copy::<WAY>(d, s, m, m0 + m, k, blocks);
                    }
                    for n in (0..cols).step_by(GROUP) {
                        let whole = rows / INNER * INNER;
                        for m in (0..whole).step_by(INNER) {
                            multiply::<WAY, WIDE, INNER>(form, d, s, m, m0, n, k, blocks);
                        }
                        for m in whole..rows {
                            multiply::<WAY, WIDE, 1>(form, d, s, m, m0, n, k, blocks);
                        }
                    }
                }
                for m in 0..rows {
                    store(d, &(*s).sum[m], m0 + m, n0, cols);
                }
            }
        }
    }
}

/// Unpacks `blocks` blocks from value `k` of four weight rows to rows `n..n + 4` of the panel.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn unpack<const WAY: u8>(
    form: &Form<'_>,
    weights: &RowPtrs,
    s: *mut Scratch,
    n: usize,
    k: usize,
    blocks: usize,
) {
    let mut room = MaybeUninit::<[Step; STEPS]>::uninit();
    let steps = room.as_mut_ptr().cast::<Step>();
    // SAFETY: steps of existing blocks; a step writes the two blocks that begin at its first.
    unsafe {
        for unit in (0..blocks).step_by(STEPS * BLOCKS) {
            let exist = blocks - unit;
            (form.unpack)(weights, k + unit * 32, exist.min(STEPS * BLOCKS), steps);
            for i in 0..STEPS.min(exist.div_ceil(BLOCKS)) {
                let step = &*steps.add(i);
                let at = unit + i * BLOCKS;
                let put = |q: usize, v: __m256i| {
                    let to = &raw mut (*s).w[line(WAY, n, at, q)][n % GROUP];
                    scatter(to, quads(WAY) * GROUP, v);
                };
                let bias = _mm256_set1_epi8(form.kind.bias() as i8);
                let mut start = [_mm256_setzero_si256(); 2];
                for (h, v) in [step.q.map(|q| q.0), step.q.map(|q| q.1)].into_iter().enumerate() {
                    for (j, v) in transposed(v).into_iter().enumerate() {
                        match WAY {
                            WORDS => {
                                let (even, odd) = words(v);
                                put(8 * h + j, even);
                                put(8 * h + 4 + j, odd);
                            }
                            BIASED => {
                                let v = _mm256_sub_epi8(v, bias);
                                let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), v);
                                start[h] = _mm256_add_epi32(start[h], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
                                put(4 * h + j, v);
                            }
                            _ => put(4 * h + j, v),
                        }
                    }
                }
                if form.wide {
                    start[0] = _mm256_add_epi32(start[0], start[1]);
                }
                for h in 0..if form.wide { 1 } else { 2 } {
                    if WAY == BIASED {
                        let start = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32::<7>(start[h]));
                        scatter(&raw mut (*s).start[at][h][n], 2 * COLS, start);
                    }
                    scatter((&raw mut (*s).scale[at][h][n]).cast(), 2 * COLS, _mm256_castps_si256(step.scale[h]));
                    if form.offsets {
                        scatter((&raw mut (*s).offset[at][h][n]).cast(), 2 * COLS, _mm256_castps_si256(step.offset[h]));
                    }
                }
            }
        }
    }
}

/// Signed bytes as words: first and third, second and fourth of every four.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn words(v: __m256i) -> (__m256i, __m256i) {
    (_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(v)), _mm256_srai_epi16::<8>(v))
}

/// Stores the halves of `v`, one per block, `stride` words apart.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn scatter(to: *mut i32, stride: usize, v: __m256i) {
    // SAFETY: two blocks from `to` are within the scratch.
    unsafe {
        _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(v));
        _mm_storeu_si128(to.add(stride).cast(), _mm256_extracti128_si256::<1>(v));
    }
}

/// Copies a panel of activation row `row` to row `m` of the scratch.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn copy<const WAY: u8>(d: &Gemm, s: *mut Scratch, m: usize, row: usize, k: usize, blocks: usize) {
    // SAFETY: blocks of the row, and of the panel.
    unsafe {
        let (q, ..) = q8_row(d, row);
        for b in 0..blocks {
            let v = _mm256_loadu_si256(q.add(k + 32 * b).cast());
            let to: *mut __m256i = (&raw mut (*s).x[m][quads(WAY) * b]).cast();
            match WAY {
                WORDS => {
                    let (even, odd) = words(v);
                    _mm256_store_si256(to, _mm256_permute2x128_si256::<0x20>(even, odd));
                    _mm256_store_si256(to.add(1), _mm256_permute2x128_si256::<0x31>(even, odd));
                }
                UNSIGNED => _mm256_store_si256(to, v),
                _ => _mm256_store_si256(to, _mm256_xor_si256(v, _mm256_set1_epi8(-128))),
            }
        }
    }
}

/// Adds the products of the panel's weight rows `n..n + GROUP` with rows `m..m + M` of the tile.
///
/// Loops, not closures: these would stay calls, because what calls them in the standard library has no features.
#[target_feature(enable = "avx2,fma,f16c")]
#[expect(clippy::too_many_arguments, reason = "a place in the tile and one in the panel")]
unsafe fn multiply<const WAY: u8, const WIDE: bool, const M: usize>(
    form: &Form<'_>,
    d: &Gemm,
    s: *mut Scratch,
    m: usize,
    m0: usize,
    n: usize,
    k: usize,
    blocks: usize,
) {
    // SAFETY: blocks of the panel, rows of the tile.
    unsafe {
        let w = (&raw const (*s).w).cast::<__m256i>().add(WIDTH * line(WAY, n, 0, 0));
        let start = (&raw const (*s).start).cast::<i32>().add(n);
        let scale = (&raw const (*s).scale).cast::<f32>().add(n);
        let offset = (&raw const (*s).offset).cast::<f32>().add(n);
        let mut x = [std::ptr::null::<i32>(); M];
        let mut side = [(std::ptr::null::<f32>(), std::ptr::null::<f32>()); M];
        for i in 0..M {
            x[i] = (&raw const (*s).x).cast::<i32>().add((m + i) * ROW);
            let (_, scales, sums) = q8_row(d, m0 + m + i);
            side[i] = (scales.add(k / 32), sums.add(k / 16));
        }
        let parts = if WIDE { 1 } else { 2 };
        let quads = quads(WAY) / parts;
        // Pieces whose products are added in 16 bits, where they are; two at a time, in a loop that the compiler cannot count: it
        // would unroll it, reorder the additions, and run out of registers.
        let run = if WAY == UNSIGNED || WAY == BIASED { quads.min(form.run) } else { quads };
        let (runs, twos) = std::hint::black_box((quads / run, run / 2));
        for chain in 0..CHAINS.min(blocks) {
            let at = (&raw mut (*s).sum).cast::<f32>().add((m * CHAINS + chain) * COLS + n);
            let mut sum = [[_mm256_setzero_ps(); WIDTH]; M];
            for (i, sum) in sum.iter_mut().enumerate() {
                let at = at.add(i * CHAINS * COLS);
                *sum = [_mm256_load_ps(at), _mm256_load_ps(at.add(LANES))];
            }
            for b in (chain..blocks).step_by(CHAINS) {
                for t in 0..parts {
                    let side_at = (2 * b + t) * COLS;
                    let mut v = [[_mm256_setzero_si256(); WIDTH]; M];
                    if WAY == BIASED || WAY == VNNI {
                        let start = start.add(side_at).cast::<__m256i>();
                        v = [[_mm256_load_si256(start), _mm256_load_si256(start.add(1))]; M];
                    }
                    let first = self::quads(WAY) * b + quads * t;
                    for i in 0..runs {
                        let mut pairs = [[_mm256_setzero_si256(); WIDTH]; M];
                        for two in 0..twos {
                            for q in 0..2 {
                                let q = first + i * run + 2 * two + q;
                                let w = [_mm256_load_si256(w.add(WIDTH * q)), _mm256_load_si256(w.add(WIDTH * q + 1))];
                                for i in 0..M {
                                    let a = _mm256_set1_epi32(*x[i].add(q));
                                    for j in 0..WIDTH {
                                        let (v, pairs) = (&mut v[i][j], &mut pairs[i][j]);
                                        match WAY {
                                            UNSIGNED => {
                                                *pairs = _mm256_add_epi16(*pairs, _mm256_maddubs_epi16(w[j], a))
                                            }
                                            BIASED => *pairs = _mm256_add_epi16(*pairs, _mm256_maddubs_epi16(a, w[j])),
                                            WORDS => *v = _mm256_add_epi32(*v, _mm256_madd_epi16(w[j], a)),
                                            _ => *v = dot(*v, a, w[j]),
                                        }
                                    }
                                }
                            }
                        }
                        if WAY == UNSIGNED || WAY == BIASED {
                            for i in 0..M {
                                for j in 0..WIDTH {
                                    let fours = _mm256_madd_epi16(pairs[i][j], _mm256_set1_epi16(1));
                                    v[i][j] = _mm256_add_epi32(v[i][j], fours);
                                }
                            }
                        }
                    }
                    for i in 0..M {
                        let x = _mm256_set1_ps(*side[i].0.add(b));
                        for j in 0..WIDTH {
                            let scale = _mm256_mul_ps(_mm256_load_ps(scale.add(side_at + LANES * j)), x);
                            sum[i][j] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(v[i][j]), scale, sum[i][j]);
                        }
                    }
                }
                if form.offsets {
                    for (sum, side) in sum.iter_mut().zip(side) {
                        let sums = side.1.add(2 * b);
                        let sums = [_mm256_set1_ps(*sums), _mm256_set1_ps(*sums.add(1))];
                        for (j, sum) in sum.iter_mut().enumerate() {
                            let offset = offset.add(2 * b * COLS + LANES * j);
                            let first = _mm256_load_ps(offset);
                            if WIDE {
                                *sum = _mm256_fmadd_ps(first, _mm256_add_ps(sums[0], sums[1]), *sum);
                            } else {
                                *sum = _mm256_fmadd_ps(first, sums[0], *sum);
                                *sum = _mm256_fmadd_ps(_mm256_load_ps(offset.add(COLS)), sums[1], *sum);
                            }
                        }
                    }
                }
            }
            for (i, sum) in sum.iter().enumerate() {
                let at = at.add(i * CHAINS * COLS);
                _mm256_store_ps(at, sum[0]);
                _mm256_store_ps(at.add(LANES), sum[1]);
            }
        }
    }
}

/// Writes the first `cols` sums of a row to row `m` of the tile, from column `n`.
unsafe fn store(d: &Gemm, sum: &[[f32; COLS]; CHAINS], m: usize, n: usize, cols: usize) {
    for i in 0..cols {
        let sum = (sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]);
        // SAFETY: a product of the tile.
        unsafe { *d.out.add(m * d.out_stride + n + i) = sum };
    }
}
