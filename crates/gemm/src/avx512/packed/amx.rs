//! GEMM on int8 tiles: the integer sums of 16 activation rows times 32 weight rows at a time.
//!
//! The tiles' sums go through memory. While the matrix unit makes some, those before are scaled and added to what waits, in the
//! order of [`super::small_m`]: the results are the same to the bit.

use super::super::CHAINS;
use super::sums::Sums;
use super::{ActBlock, EXTRAS, Extra, Packed, Pair, WeightBlock, first_row, in_chunks, match_block};
use crate::gemm::Gemm;
use crate::packed::ROWS;
use crate::simd::tiles::{ByteSums, ByteTiles, SIDE};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Activation rows whose sums wait.
const TILE: usize = 64;

/// What waits in memory.
#[repr(C, align(64))]
struct Scratch {
    /// Of rows of tiles: a tile of fewer than 16 new rows begins with some of the tile before it.
    sum: Sums<TILE>,
    /// The block of 32 weight rows at hand: two right tiles.
    weights: [[[u8; 64]; 8]; 2],
    /// What the tiles give in turn, of first and last 16 weight rows.
    integers: [[[[i32; 16]; SIDE]; 2]; 2],
    extra: [Extra; EXTRAS],
}

const _: () = assert!(SIDE == ROWS && TILE.is_multiple_of(SIDE));

/// Of a format with a scale for 32 values.
///
/// # Safety
/// As [`super::q8_packed`]; the machine has AMX.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn gemm<P: Packed>(d: &Gemm) {
    let mut scratch = MaybeUninit::<Scratch>::uninit();
    let s = scratch.as_mut_ptr();
    // SAFETY: the same contract; room for all sums.
    unsafe {
        let tiles = ByteTiles::configure(32);
        Sums::begin(&raw mut (*s).sum, d.k / 32);
        in_chunks::<P>(d, TILE, |part| some::<P>(part, s, &tiles));
    }
}

/// As many rows as there is room for.
///
/// # Safety
/// As [`gemm`]; the extras fit.
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn some<P: Packed>(d: &Gemm, s: *mut Scratch, tiles: &ByteTiles) {
    // SAFETY: rows and columns of the tile.
    unsafe {
        let x = ActBlock::first::<P>(d, (&raw mut (*s).extra).cast());
        for n in (0..d.cols).step_by(2 * ROWS) {
            columns::<P>(d, s, tiles, x, n);
            for slot in 0..d.rows.next_multiple_of(SIDE) {
                Sums::finish(&raw mut (*s).sum, slot, d, first_row(d, slot / SIDE) + slot % SIDE, n);
            }
        }
    }
}

/// The sums of weight rows from `n`, as in [`super::small_m`].
///
/// # Safety
/// As [`some`].
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn columns<P: Packed>(d: &Gemm, s: *mut Scratch, tiles: &ByteTiles, x: ActBlock, n: usize) {
    let mut last: Option<Integers> = None;
    let mut turn = 0;
    // SAFETY: blocks of the rows; sums of the scratch.
    unsafe {
        let mut at = Pair::new(d, n);
        for first in (0..d.k / 32).step_by(P::BLOCKS) {
            let heads = at.heads::<P>();
            for b in first..first + P::BLOCKS {
                at.prefetch::<P>(b - first);
                let w = match_block!(P, (b - first), |ODD, pair| [
                    P::block::<ODD>(at.p[0], &heads[0], pair),
                    P::block::<ODD>(at.p[1], &heads[1], pair)
                ]);
                let right = (&raw mut (*s).weights).cast::<__m512i>();
                for (half, w) in w.iter().enumerate() {
                    for (i, q) in w.q.iter().enumerate() {
                        *right.add(8 * half + i) = _mm512_sub_epi8(*q, _mm512_set1_epi8(P::BIAS as i8));
                    }
                }
                for tile in 0..d.rows.div_ceil(SIDE) {
                    let x = x.further(d, first_row(d, tile), b);
                    let from = (&raw mut (*s).integers[turn % 2]).cast::<i32>();
                    let product = ByteSums { left: x.q, stride: d.x_stride, right: right.cast(), sums: from };
                    match &mut last {
                        Some(last) => product.run(tiles, &mut || last.add::<P>(d)),
                        None => product.run(tiles, &mut || {}),
                    }
                    let to = Sums::at(&raw mut (*s).sum, b % CHAINS, tile * SIDE).cast::<f32>();
                    last = Some(Integers::new(&w, x, from, to, b < CHAINS));
                    turn += 1;
                }
            }
            at.advance::<P>();
        }
        if let Some(mut last) = last {
            for _ in 0..ByteSums::PARTS {
                last.add::<P>(d);
            }
        }
    }
}

/// What a product of tiles gave, on the way to the sums.
struct Integers {
    scale: [__m512; 2],
    offset: [__m512; 2],
    /// Of the next activation row.
    x: ActBlock,
    from: *const i32,
    to: *mut f32,
    begins: bool,
}

impl Integers {
    #[inline(always)]
    fn new(w: &[WeightBlock; 2], x: ActBlock, from: *const i32, to: *mut f32, begins: bool) -> Self {
        let [w0, w1] = [w[0].scales, w[1].scales];
        Self { scale: [w0.scale[0], w1.scale[0]], offset: [w0.offset[0], w1.offset[0]], x, from, to, begins }
    }

    /// Adds the next rows: all in [`ByteSums::PARTS`] times.
    ///
    /// # Safety
    /// The rows are there, their integers and sums.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn add<P: Packed>(&mut self, d: &Gemm) {
        for _ in 0..SIDE / ByteSums::PARTS {
            // SAFETY: the caller's promise.
            unsafe {
                let scale = _mm512_set1_ps(*self.x.scale);
                for half in 0..2 {
                    let v = _mm512_cvtepi32_ps(_mm512_load_si512(self.from.add(half * SIDE * 16).cast()));
                    let to = self.to.add(half * ROWS);
                    let mut sum = if self.begins { _mm512_setzero_ps() } else { _mm512_load_ps(to) };
                    sum = _mm512_fmadd_ps(v, _mm512_mul_ps(self.scale[half], scale), sum);
                    if P::OFFSETS {
                        let sums = _mm512_set1_ps(f32::from_bits((*self.x.extra)[0] as u32));
                        sum = _mm512_fmadd_ps(self.offset[half], sums, sum);
                    }
                    _mm512_store_ps(to, sum);
                }
                self.x = self.x.further(d, 1, 0);
                self.from = self.from.add(16);
                self.to = self.to.add(2 * ROWS);
            }
        }
    }
}
