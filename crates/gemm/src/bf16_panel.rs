//! Weights to bf16 tiles, the right side of a product: 32 rows, up to [`SPAN`] values of each. What lies row by row is
//! written as left tiles first, then turned; packed weights lie as right tiles do.

use crate::avx512::{BLOCKS, Form, PAIR, Packed, Step, WeightBlock, Weights, by_form, low_bits};
use crate::each_block;
use crate::gemm::{Gemm, ROWS, RowPtrs};
use crate::simd::bf16::{round, round_pairs};
use crate::simd::prefetch_far;
use crate::simd::tiles::{SIDE, STEP, TILE_BYTES, transpose};
use std::arch::x86_64::*;

/// Values of a weight row in flight: those of a whole group take half of L2.
pub const SPAN: usize = 4096;
/// Weight rows that are unpacked together: two tiles.
pub const PANEL_ROWS: usize = 2 * SIDE;

/// Part of a matrix: values `k..k + len` of the weight rows of `of`, of which there are up to 32.
pub struct Bf16Panel<'a> {
    /// Names the weights; there are no activations and no results.
    pub of: &'a Gemm,
    pub k: usize,
    pub len: usize,
    /// Two runs of `len.div_ceil(STEP)` tiles, rows `0..16` and `16..32`.
    pub out: *mut u8,
}

/// Unpacks a panel. Rows that do not exist may become anything, values that do not become zeros.
pub type PanelFn = unsafe fn(&Bf16Panel<'_>);

impl Bf16Panel<'_> {
    /// Where values `32 * step..` of row `n` go.
    #[inline(always)]
    fn at(&self, n: usize, step: usize) -> *mut __m512i {
        let steps = self.len.div_ceil(STEP);
        self.out.wrapping_add((n / SIDE * steps + step) * TILE_BYTES + n % SIDE * 64).cast()
    }
}

/// Turns the left tiles of a panel to right ones.
///
/// # Safety
/// They are there; the machine has AVX-512.
#[target_feature(enable = "avx512f")]
unsafe fn turn(s: &Bf16Panel<'_>) {
    for tile in 0..2 * s.len.div_ceil(STEP) {
        // SAFETY: the 16 rows of a tile.
        unsafe {
            let tile = s.out.add(tile * TILE_BYTES).cast::<f32>();
            let v = transpose(std::array::from_fn(|i| _mm512_load_ps(tile.add(SIDE * i))));
            for (i, v) in v.into_iter().enumerate() {
                _mm512_store_ps(tile.add(SIDE * i), v);
            }
        }
    }
}

/// Packed weights.
///
/// # Safety
/// As [`quantized`], of packed weights.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")]
pub unsafe fn packed<P: Packed>(s: &Bf16Panel<'_>) {
    for n in (0..s.of.cols.min(PANEL_ROWS)).step_by(SIDE) {
        for at in (0..s.len / STEP).step_by(P::BLOCKS) {
            let lie = n * s.of.w_stride + SIDE * (s.k / STEP + at) / P::BLOCKS * P::BYTES;
            // SAFETY: blocks of the panel; a tile for each.
            unsafe {
                let p = s.of.w.add(lie);
                let head = P::head(p);
                each_block!(P, |ODD, pair| {
                    let b = 2 * pair + ODD;
                    // The same blocks of the next panel.
                    let bytes = SIDE * P::BYTES / P::BLOCKS;
                    for line in (0..bytes).step_by(64) {
                        prefetch_far(p.wrapping_add(PANEL_ROWS * s.of.w_stride + b * bytes + line));
                    }
                    tile::<P>(&P::block::<ODD>(p, &head, pair), s.at(n, at + b));
                });
            }
        }
    }
}

/// A block of 16 rows as a tile: line `i` has values `2i` and `2i + 1` of every row.
///
/// A byte becomes the leading digits of a number between 256 and 512: that takes a shift and a logical instruction, and no
/// conversion. To round and to join pairs takes simple instructions for the same reason: those for bf16 take two cycles each.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")]
unsafe fn tile<P: Packed>(w: &WeightBlock, to: *mut __m512i) {
    let base = 256.0;
    let excess = _mm512_set1_ps(base + f32::from(P::BIAS));
    // What is no number becomes one of a kind that stays so when it is rounded.
    let settled = |v| {
        const NUMBERS_STAY: i32 = 0x1111_1133;
        _mm512_fixupimm_ps::<0>(v, v, _mm512_set1_epi32(NUMBERS_STAY))
    };
    let scale = |h: usize| settled(w.scales.scale[h]);
    let offset = |h: usize| {
        let offset = if P::OFFSETS { settled(w.scales.offset[h]) } else { _mm512_setzero_ps() };
        _mm512_fnmadd_ps(scale(h), excess, offset)
    };
    let (last, scales, offsets) =
        if P::WIDE { (0, [scale(0); 2], [offset(0); 2]) } else { (1, [scale(0), scale(1)], [offset(0), offset(1)]) };
    let (digits, base) = (_mm512_set1_epi32(0xff << 15), _mm512_castps_si512(_mm512_set1_ps(base)));
    for (i, q) in w.q.into_iter().enumerate() {
        let of = i / 4 * last;
        let value = |q| {
            const AND_OR: i32 = 0xea;
            let q = _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<AND_OR>(q, digits, base));
            _mm512_fmadd_ps(q, scales[of], offsets[of])
        };
        let first = round_pairs(value(_mm512_slli_epi32::<15>(q)), value(_mm512_slli_epi32::<7>(q)));
        let second = round_pairs(value(_mm512_srli_epi32::<1>(q)), value(_mm512_srli_epi32::<9>(q)));
        // SAFETY: two of the tile's 16 lines.
        unsafe {
            _mm512_store_si512(to.add(2 * i), first);
            _mm512_store_si512(to.add(2 * i + 1), second);
        }
    }
}

/// Quantized weights.
///
/// # Safety
/// As [`Bf16Panel`] says: the rows and values exist, `out` has room for the tiles, and the machine has the level.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")]
pub unsafe fn quantized<W: Weights>(s: &Bf16Panel<'_>) {
    let Some(w) = W::of(s.of) else { return };
    // SAFETY: the same contract.
    unsafe { by_form(&w, |form| by_rows(form, s)) }
}

/// # Safety
/// As [`quantized`].
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")]
unsafe fn by_rows(form: &Form<'_>, s: &Bf16Panel<'_>) {
    let mut room = std::mem::MaybeUninit::<[Step; 2]>::uninit();
    let steps = room.as_mut_ptr().cast::<Step>();
    let blocks = s.len / STEP;
    for n in (0..s.of.cols.min(PANEL_ROWS)).step_by(ROWS) {
        // SAFETY: rows of the panel.
        let rows = unsafe { RowPtrs::new(s.of, n, 1) };
        for pair in (0..blocks).step_by(2 * BLOCKS) {
            let exist = blocks - pair;
            let k = s.k + pair * STEP;
            // SAFETY: existing blocks of the rows; `k` is a multiple of `PAIR`, as `SPAN` is.
            unsafe {
                (form.unpack)(&rows, k, exist.min(2 * BLOCKS), steps);
                for half in 0..2.min(exist.div_ceil(BLOCKS)) {
                    let have = (exist - half * BLOCKS).min(BLOCKS);
                    step(form, s, &*steps.add(half), n, pair + half * BLOCKS, have);
                }
            }
        }
    }
    // SAFETY: the panel's tiles.
    unsafe { turn(s) }
}

/// Four rows of up to four blocks.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")]
unsafe fn step(form: &Form<'_>, s: &Bf16Panel<'_>, step: &Step, n: usize, at: usize, blocks: usize) {
    /// What is read back 16 bytes at a time.
    #[repr(C, align(64))]
    struct Stored {
        scale: [[f32; 16]; 2],
        offset: [[f32; 16]; 2],
        q: [[[[u8; 16]; BLOCKS]; 2]; ROWS],
    }
    let mut stored = std::mem::MaybeUninit::<Stored>::uninit();
    let p = stored.as_mut_ptr();
    let halves = if form.wide { 1 } else { 2 };
    // SAFETY: stores fill the parts of `Stored` that are read; the blocks exist in the panel.
    unsafe {
        for h in 0..halves {
            let bias = _mm512_set1_ps(f32::from(form.bias));
            let offset = if form.offsets { step.offset[h] } else { _mm512_setzero_ps() };
            _mm512_store_ps((&raw mut (*p).scale[h]).cast(), step.scale[h]);
            _mm512_store_ps((&raw mut (*p).offset[h]).cast(), _mm512_fnmadd_ps(step.scale[h], bias, offset));
        }
        for (r, (low, high)) in step.q.into_iter().enumerate() {
            _mm512_store_si512((&raw mut (*p).q[r][0]).cast(), low);
            _mm512_store_si512((&raw mut (*p).q[r][1]).cast(), high);
        }
        for r in 0..ROWS {
            for b in 0..blocks {
                let half = |h: usize| {
                    let of = h * (halves - 1);
                    let q = _mm512_cvtepu8_epi32(_mm_load_si128((&raw const (*p).q[r][h][b]).cast()));
                    let scale = _mm512_set1_ps((*p).scale[of][ROWS * b + r]);
                    _mm512_fmadd_ps(_mm512_cvtepi32_ps(q), scale, _mm512_set1_ps((*p).offset[of][ROWS * b + r]))
                };
                _mm512_store_si512(s.at(n + r, at + b), round(half(0), half(1)));
            }
        }
    }
}

/// # Safety
/// As [`quantized`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub unsafe fn f32(s: &Bf16Panel<'_>) {
    for n in 0..s.of.cols.min(PANEL_ROWS) {
        for at in (0..s.len).step_by(STEP) {
            let exist = low_bits((s.len - at).min(STEP));
            // SAFETY: the mask keeps the loads within the row.
            unsafe {
                let p = s.of.w.add(n * s.of.w_stride + 4 * (s.k + at)).cast::<f32>();
                let low = _mm512_maskz_loadu_ps(exist as u16, p);
                let high = _mm512_maskz_loadu_ps((exist >> 16) as u16, p.wrapping_add(16));
                _mm512_store_si512(s.at(n, at / STEP), round(low, high));
            }
        }
    }
    // SAFETY: the panel's tiles.
    unsafe { turn(s) }
}

/// # Safety
/// As [`quantized`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub unsafe fn f16(s: &Bf16Panel<'_>) {
    for n in 0..s.of.cols.min(PANEL_ROWS) {
        for at in (0..s.len).step_by(STEP) {
            // SAFETY: as in `bf16`.
            unsafe {
                let v = halves(s, n, at);
                let low = _mm512_cvtph_ps(_mm512_castsi512_si256(v));
                let high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(v));
                _mm512_store_si512(s.at(n, at / STEP), round(low, high));
            }
        }
    }
    // SAFETY: the panel's tiles.
    unsafe { turn(s) }
}

/// # Safety
/// As [`quantized`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub unsafe fn bf16(s: &Bf16Panel<'_>) {
    for n in 0..s.of.cols.min(PANEL_ROWS) {
        for at in (0..s.len).step_by(STEP) {
            // SAFETY: a step of the panel.
            unsafe { _mm512_store_si512(s.at(n, at / STEP), halves(s, n, at)) };
        }
    }
    // SAFETY: the panel's tiles.
    unsafe { turn(s) }
}

/// 32 numbers of two bytes from value `at` of row `n` of the panel; zeros past its end.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn halves(s: &Bf16Panel<'_>, n: usize, at: usize) -> __m512i {
    let exist = low_bits((s.len - at).min(STEP)) as u32;
    // SAFETY: the mask keeps the load within the row.
    unsafe { _mm512_maskz_loadu_epi16(exist, s.of.w.add(n * s.of.w_stride + 2 * (s.k + at)).cast()) }
}

const _: () = assert!(SPAN.is_multiple_of(PAIR));
