//! GEMM: weights are unpacked once, to bytes that 16 weight rows interleave by four values, and
//! multiplied from there with all of them.
//!
//! A panel is some 512 values of up to 32 weight rows: it stays in L1. Lanes are weight rows, a broadcast
//! of four activation bytes multiplies them all, and eight `vpdpbusd` make a block's integer sum for 16 weight rows with no
//! adding across lanes. Sums begin at what takes the weights' bias off. Each chain of a row has its own running sum, kept
//! in memory between panels. While one panel is multiplied, the next one is prefetched.

use super::{BLOCKS, CHAINS, Form, PAIR, STEP, Step, add_transposed, joined, low_bits, transposed};
use crate::gemm::{Gemm, ROWS, RowPtrs, q8_row};
use crate::simd::prefetch_far;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Values of a panel, and of the last: a short rest goes with the panel before it.
const PANEL: usize = 512;
const LAST: usize = PANEL + STEP;
const PANEL_BLOCKS: usize = LAST / 32;
/// Weight rows of a panel.
const COLS: usize = 32;
/// Panels side by side whose sums wait together.
const PANELS: usize = 4;
/// Activation rows that share an unpacked panel.
const TILE: usize = 64;

/// A panel and the sums that it adds to.
#[repr(C, align(64))]
pub struct Scratch {
    /// Four values of each weight row, with the bias.
    w: [[[[u8; 4]; COLS]; 8]; PANEL_BLOCKS],
    /// Scales and offsets, of first and second halves (of the block, if wide).
    scale: [[[f32; COLS]; 2]; PANEL_BLOCKS],
    offset: [[[f32; COLS]; 2]; PANEL_BLOCKS],
    /// What takes the bias off, of the halves of the blocks of each activation row (of the block, if wide).
    start: [[[i32; 2]; PAIRS]; TILE],
    /// Two steps on their way into the panel.
    steps: [Steps; 2],
    sum: [[[[f32; COLS]; CHAINS]; TILE]; PANELS],
}

/// Blocks of a panel, in whole pairs of steps.
const PAIRS: usize = PANEL_BLOCKS.next_multiple_of(2 * BLOCKS);

/// # Safety
/// As `Gemm` promises.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn panel(form: &Form<'_>, d: &Gemm) {
    // SAFETY: the same contract.
    unsafe {
        match form.wide {
            true => tiles::<true>(form, d),
            false => tiles::<false>(form, d),
        }
    }
}

/// Some values of all rows: the first, and how many blocks.
#[derive(Clone, Copy)]
struct Stretch {
    k: usize,
    blocks: usize,
}

impl Stretch {
    /// That at value `k` of rows of `len` values.
    fn at(k: usize, len: usize) -> Self {
        Self { k, blocks: if len - k <= LAST { (len - k) / 32 } else { PANEL / 32 } }
    }

    fn end(self) -> usize {
        self.k + 32 * self.blocks
    }
}

#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn tiles<const WIDE: bool>(form: &Form<'_>, d: &Gemm) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    // Nothing waits where one panel is all there is of a row.
    let together = if d.k <= LAST { COLS } else { PANELS * COLS };
    for m0 in (0..d.rows).step_by(TILE) {
        let rows = TILE.min(d.rows - m0);
        for n0 in (0..d.cols).step_by(together) {
            let end = d.cols.min(n0 + together);
            // SAFETY: rows and columns of the tile; every part of the scratch that is read has been
            // written for this panel.
            unsafe {
                let mut k = 0;
                while k < d.k {
                    let stretch = Stretch::at(k, d.k);
                    k = stretch.end();
                    if n0 == 0 || d.k > LAST {
                        for m in 0..rows {
                            let (q, ..) = q8_row(d, m0 + m);
                            let to = (&raw mut (*s).start[m]).cast();
                            starts(q.add(stretch.k), stretch.blocks, WIDE, form.bias, to);
                        }
                    }
                    for (p, n) in (n0..end).step_by(COLS).enumerate() {
                        // The panel after this one: beside it, further along, or of the next weight rows.
                        let (row, from) = match (n + COLS < end, k < d.k) {
                            (true, _) => (n + COLS, stretch.k),
                            (false, true) => (n0, k),
                            (false, false) => (end, 0),
                        };
                        let next = Stretch::at(from, d.k);
                        let mut ahead = Prefetch {
                            at: d.w.wrapping_add(row * d.w_stride + from / STEP * form.step_bytes),
                            stride: d.w_stride,
                            bytes: next.blocks * form.step_bytes / BLOCKS,
                            rows: COLS,
                            each: COLS.div_ceil(rows.div_ceil(MAX_ROWS) * stretch.blocks),
                        };
                        columns::<WIDE>(form, d, s, (m0, rows), (n, p), stretch, &mut ahead);
                    }
                }
                for (p, n) in (n0..end).step_by(COLS).enumerate() {
                    for m in 0..rows {
                        store(d, &raw const (*s).sum[p][m], m0 + m, n, COLS.min(end - n));
                    }
                }
            }
        }
    }
}

/// Weight rows that are prefetched, some at a time: all at once would wait for each other.
struct Prefetch {
    at: *const u8,
    stride: usize,
    bytes: usize,
    /// How many are left, and how many go with every block that is multiplied.
    rows: usize,
    each: usize,
}

impl Prefetch {
    /// Rows to prefetch with every eight blocks of 16 rows that are unpacked.
    const UNPACKING: usize = 3;

    #[inline(always)]
    fn step(&mut self, rows: usize) {
        for _ in 0..rows.min(self.rows) {
            for byte in (0..self.bytes).step_by(64) {
                prefetch_far(self.at.wrapping_add(byte));
            }
            self.rows -= 1;
            self.at = self.at.wrapping_add(self.stride);
        }
    }
}

/// What takes the bias off the sums of blocks whose activations are at `q`: of their halves, or twice of the whole if wide.
/// Whole pairs of steps are written.
///
/// # Safety
/// The blocks are readable and their sums writable; the machine has the AVX-512 level.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn starts(q: *const u8, blocks: usize, wide: bool, bias: u8, to: *mut [i32; 2]) {
    let (zero, bias) = (_mm512_setzero_si512(), _mm512_set1_epi8(bias as i8));
    for pair in (0..blocks).step_by(2 * BLOCKS) {
        let left = 32 * (blocks - pair);
        let line = |i: usize| {
            let at = q.wrapping_add(32 * pair + 64 * i);
            // SAFETY: the mask keeps the load within the blocks.
            let values = unsafe { _mm512_maskz_loadu_epi8(low_bits(left.saturating_sub(64 * i)), at.cast()) };
            _mm512_dpbusd_epi32(zero, bias, values)
        };
        // Lane `4 * quarter + line` has the sum of 16 values.
        let sums = add_transposed([line(0), line(1), line(2), line(3)]);
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let mut sums = _mm512_permutexvar_epi32(order, sums);
        if wide {
            sums = _mm512_add_epi32(sums, _mm512_shuffle_epi32::<0b10_11_00_01>(sums));
        }
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.add(pair).cast(), _mm512_sub_epi32(zero, sums)) }
    }
}

/// Activation rows that are multiplied at a time, at most.
const MAX_ROWS: usize = 4;

/// Unpacks the weight rows of a panel from `n0` of a stretch, and adds their products with activation rows `m0..m0 + rows` to
/// the sums `p`.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn columns<const WIDE: bool>(
    form: &Form<'_>,
    d: &Gemm,
    s: *mut Scratch,
    (m0, rows): (usize, usize),
    (n0, p): (usize, usize),
    stretch: Stretch,
    ahead: &mut Prefetch,
) {
    // SAFETY: rows and columns of the tile, blocks of the rows.
    unsafe {
        for n in (0..COLS).step_by(16) {
            for b in (0..stretch.blocks).step_by(2 * BLOCKS) {
                unpack(form, d, s, (n0, n), stretch.k, b..stretch.blocks.min(b + 2 * BLOCKS));
                ahead.step(Prefetch::UNPACKING);
            }
        }
        let mut m = 0;
        while m < rows {
            // As even groups as there are.
            let groups = (rows - m).div_ceil(MAX_ROWS);
            m += match (rows - m).div_ceil(groups) {
                1 => multiply::<WIDE, 1>(form, d, s, m, m0, p, stretch, ahead),
                2 => multiply::<WIDE, 2>(form, d, s, m, m0, p, stretch, ahead),
                3 => multiply::<WIDE, 3>(form, d, s, m, m0, p, stretch, ahead),
                _ => multiply::<WIDE, MAX_ROWS>(form, d, s, m, m0, p, stretch, ahead),
            };
        }
    }
}

/// Where the unpacked blocks of 16 weight rows go: by halves of blocks, integers with the bias; scales and offsets of a whole
/// block, if wide, go with the first half.
#[derive(Clone, Copy)]
pub struct Lanes {
    s: *mut Scratch,
    /// The first weight row, and the first block.
    n: usize,
    b: usize,
}

impl Lanes {
    /// The integers of half a block, four of each row in its lane.
    ///
    /// # Safety
    /// The block is one of the panel's.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub unsafe fn integers(self, block: usize, half: usize, v: [__m512i; 4]) {
        for (i, v) in v.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { _mm512_store_si512((&raw mut (*self.s).w[self.b + block][4 * half + i][self.n]).cast(), v) }
        }
    }

    /// # Safety
    /// The block is one of the panel's.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub unsafe fn scale(self, block: usize, half: usize, v: __m512) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_store_ps(&raw mut (*self.s).scale[self.b + block][half][self.n], v) }
    }

    /// # Safety
    /// The block is one of the panel's.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub unsafe fn offset(self, block: usize, half: usize, v: __m512) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_store_ps(&raw mut (*self.s).offset[self.b + block][half][self.n], v) }
    }
}

/// Unpacks some blocks, counted from value `k`, of weight rows from `n0 + n` to rows `n..n + 16` of the panel; past the
/// tile's end its last row stands in. The first is a multiple of a pair of steps.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn unpack(form: &Form<'_>, d: &Gemm, s: *mut Scratch, (n0, n): (usize, usize), k: usize, blocks: Range<usize>) {
    if let Some(lanes) = form.lanes
        && n0 + n + 16 <= d.cols
        && d.w_stride < 1 << 27
    {
        for b in blocks.step_by(form.values / 32) {
            let at = (n0 + n) * d.w_stride + (k / 32 + b) * form.step_bytes / BLOCKS;
            // SAFETY: a block of 16 rows that exist, and its place in the panel.
            unsafe { lanes(d.w.add(at), d.w_stride, Lanes { s, n, b }) }
        }
        return;
    }
    // SAFETY: the same; rows past the end are the last.
    let rows = [0, 4, 8, 12].map(|r| unsafe { RowPtrs::new(d, (n0 + n + r).min(d.cols - 1), 1) });
    let mut room = MaybeUninit::<[Step; 2]>::uninit();
    let unpacked = room.as_mut_ptr().cast::<Step>();
    for pair in blocks.clone().step_by(2 * BLOCKS) {
        // SAFETY: blocks that exist; as many steps as are read have been written.
        unsafe {
            let exist = (blocks.end - pair).min(2 * BLOCKS);
            for (r, rows) in rows.iter().enumerate() {
                (form.unpack)(rows, k + pair * 32, exist, unpacked);
                for half in 0..exist.div_ceil(BLOCKS) {
                    let step = &*unpacked.add(half);
                    let to = &raw mut (*s).steps[half];
                    (*to).w[r] = [transposed(step.q.map(|q| q.0)), transposed(step.q.map(|q| q.1))];
                    (*to).scale[r] = step.scale;
                    (*to).offset[r] = step.offset;
                }
            }
            for half in 0..exist.div_ceil(BLOCKS) {
                spread(form, s, half, pair + half * BLOCKS, n);
            }
        }
    }
}

/// Steps of 16 weight rows, in lanes `4 * block + row`, by fours of rows.
#[repr(C, align(64))]
struct Steps {
    w: [[[__m512i; 4]; 2]; ROWS],
    scale: [[__m512; 2]; ROWS],
    offset: [[__m512; 2]; ROWS],
}

/// Writes steps to the four blocks from `at` of rows `n..n + 16` of the panel.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn spread(form: &Form<'_>, s: *mut Scratch, half: usize, at: usize, n: usize) {
    // SAFETY: blocks and rows of the panel.
    unsafe {
        let steps = &(*s).steps[half];
        for (h, i) in (0..8).map(|q| (q / 4, q % 4)) {
            let blocks = by_block([steps.w[0][h][i], steps.w[1][h][i], steps.w[2][h][i], steps.w[3][h][i]]);
            for (b, v) in blocks.into_iter().enumerate() {
                _mm512_store_si512((&raw mut (*s).w[at + b][4 * h + i][n]).cast(), v);
            }
        }
        for h in 0..if form.wide { 1 } else { 2 } {
            for (b, v) in by_block(steps.scale.map(|v| _mm512_castps_si512(v[h]))).into_iter().enumerate() {
                _mm512_store_si512((&raw mut (*s).scale[at + b][h][n]).cast(), v);
            }
            if form.offsets {
                for (b, v) in by_block(steps.offset.map(|v| _mm512_castps_si512(v[h]))).into_iter().enumerate() {
                    _mm512_store_si512((&raw mut (*s).offset[at + b][h][n]).cast(), v);
                }
            }
        }
    }
}

/// From a register per four rows with a quarter per block to a register per block with a quarter per four rows.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
fn by_block(v: [__m512i; ROWS]) -> [__m512i; BLOCKS] {
    let low = |a, b| _mm512_shuffle_i32x4::<0b01_00_01_00>(a, b);
    let high = |a, b| _mm512_shuffle_i32x4::<0b11_10_11_10>(a, b);
    let even = |a, b| _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
    let odd = |a, b| _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b);
    let (first, second) = ((low(v[0], v[1]), low(v[2], v[3])), (high(v[0], v[1]), high(v[2], v[3])));
    [even(first.0, first.1), odd(first.0, first.1), even(second.0, second.1), odd(second.0, second.1)]
}

/// Adds the panel's products with activation rows `m..m + M` of the tile to the sums `p`; returns `M`.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
#[expect(clippy::too_many_arguments, reason = "a place in the tile and one in the panel")]
unsafe fn multiply<const WIDE: bool, const M: usize>(
    form: &Form<'_>,
    d: &Gemm,
    s: *mut Scratch,
    m: usize,
    m0: usize,
    p: usize,
    Stretch { k, blocks }: Stretch,
    ahead: &mut Prefetch,
) -> usize {
    // SAFETY: blocks of the panel, rows of the tile.
    unsafe {
        let side: [(*const u8, *const f32, *const f32); M] = std::array::from_fn(|i| {
            let (q, scales, sums) = q8_row(d, m0 + m + i);
            (q.add(k), scales.add(k / 32), sums.add(k / 16))
        });
        const H: usize = COLS / 16;
        let starts: [*const [i32; 2]; M] = std::array::from_fn(|i| (&raw const (*s).start[m + i]).cast());
        for chain in 0..CHAINS {
            let at = |i: usize, h: usize| &raw mut (*s).sum[p][m + i][chain][16 * h];
            let mut sum = [[_mm512_setzero_ps(); H]; M];
            if k > 0 {
                sum = std::array::from_fn(|i| std::array::from_fn(|h| _mm512_load_ps(at(i, h))));
            }
            for b in (chain..blocks).step_by(CHAINS) {
                ahead.step(ahead.each);
                let scale = |t: usize, h: usize| _mm512_load_ps(&raw const (*s).scale[b][t][16 * h]);
                let offset = |t: usize, h: usize| _mm512_load_ps(&raw const (*s).offset[b][t][16 * h]);
                let parts = if WIDE { 1 } else { 2 };
                let quads = 8 / parts;
                for t in 0..parts {
                    let mut v: [[__m512i; H]; M] = starts.map(|start| [_mm512_set1_epi32((*start.add(b))[t]); H]);
                    for q in t * quads..(t + 1) * quads {
                        let w: [__m512i; H] =
                            std::array::from_fn(|h| _mm512_load_si512((&raw const (*s).w[b][q][16 * h]).cast()));
                        for (v, side) in v.iter_mut().zip(side) {
                            let a = _mm512_set1_epi32(side.0.add(32 * b + 4 * q).cast::<i32>().read());
                            for (v, w) in v.iter_mut().zip(w) {
                                *v = _mm512_dpbusd_epi32(*v, w, a);
                            }
                        }
                    }
                    for ((sum, v), side) in sum.iter_mut().zip(v).zip(side) {
                        let a_scale = _mm512_set1_ps(*side.1.add(b));
                        for (h, (sum, v)) in sum.iter_mut().zip(v).enumerate() {
                            let scale = _mm512_mul_ps(scale(t, h), a_scale);
                            *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(v), scale, *sum);
                        }
                    }
                }
                if form.offsets {
                    for (sum, side) in sum.iter_mut().zip(side) {
                        let sums = [0, 1].map(|t| _mm512_set1_ps(*side.2.add(2 * b + t)));
                        for (h, sum) in sum.iter_mut().enumerate() {
                            if WIDE {
                                *sum = _mm512_fmadd_ps(offset(0, h), _mm512_add_ps(sums[0], sums[1]), *sum);
                            } else {
                                *sum = _mm512_fmadd_ps(offset(0, h), sums[0], *sum);
                                *sum = _mm512_fmadd_ps(offset(1, h), sums[1], *sum);
                            }
                        }
                    }
                }
            }
            for (i, sum) in sum.into_iter().enumerate() {
                for (h, sum) in sum.into_iter().enumerate() {
                    _mm512_store_ps(at(i, h), sum);
                }
            }
        }
    }
    M
}

/// Writes the first `cols` sums of a row to row `m` of the tile, from column `n`.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn store(d: &Gemm, sum: *const [[f32; COLS]; CHAINS], m: usize, n: usize, cols: usize) {
    // SAFETY: the mask keeps the stores within the tile.
    unsafe {
        for h in 0..cols.div_ceil(16) {
            let sum = joined([0, 1, 2, 3].map(|c| _mm512_load_ps((&raw const (*sum)[c][16 * h]).cast())));
            let exist = low_bits(cols - 16 * h) as u16;
            _mm512_mask_storeu_ps(d.out.add(m * d.out_stride + n + 16 * h), exist, sum);
        }
    }
}

const _: () = assert!(PANEL.is_multiple_of(PAIR) && PAIR == 2 * STEP);
