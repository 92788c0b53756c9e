//! Scores of 16 queries to weights, on lanes, beside the matrix unit.

use crate::simd::Avx512;
use crate::simd::bf16::{exp2, round_pairs};
use crate::simd::math::soft_cap;
use crate::simd::tiles::{Mix, SIDE, Scores, TILE_BYTES, Tiles};
use akunu_plan::steps::KV_BLOCK;
use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;

/// Scores are logarithms to base 2 and counted from a query's start, at first from 0. Only where a block's weights or all of
/// them so far come near the end of what f32 has, the start moves: weights are as precise at any other size.
const MOST: f32 = (1_u64 << 60) as f32;

/// Caps scores, makes them logarithms to base 2, and counts them from their queries' start.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub fn cap(s: Avx512, scores: &mut [[f32; SIDE]; KV_BLOCK], cap: f32, start: &[f32; SIDE]) {
    for row in scores {
        // SAFETY: 16 scores.
        unsafe {
            let v = soft_cap(s, _mm512_loadu_ps(row.as_ptr()), cap);
            let v = _mm512_fmadd_ps(v, _mm512_set1_ps(LOG2_E), _mm512_loadu_ps(start.as_ptr()));
            _mm512_storeu_ps(row.as_mut_ptr(), v);
        }
    }
}

/// What the matrix unit does beside: the next queries' scores, and the mixing for those before.
pub struct Meanwhile<'a> {
    pub tiles: &'a Tiles,
    /// Steps of 32 values that a head has.
    pub steps: usize,
    pub scores: Option<Scores>,
    pub mix: Option<Mix>,
}

impl Meanwhile<'_> {
    /// How often [`Self::run`] has other work done.
    fn parts(&self) -> usize {
        let [scores, mix] = [(self.scores.is_some(), Scores::PARTS), (self.mix.is_some(), Mix::PARTS)]
            .map(|(is, parts)| usize::from(is) * parts * self.steps);
        scores + mix
    }

    /// # Safety
    /// As [`Scores::run`] and [`Mix::run`].
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    pub unsafe fn run(self, between: &mut impl FnMut()) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(scores) = self.scores {
                scores.run(self.tiles, self.steps, between);
            }
            if let Some(mix) = self.mix {
                mix.run(self.tiles, self.steps, between);
            }
        }
    }
}

/// What 16 queries have so far.
pub struct Queries<'a> {
    pub from: &'a [i32; SIDE],
    pub end: &'a [i32; SIDE],
    pub sums: &'a mut [f32; SIDE],
    pub start: &'a mut [f32; SIDE],
    /// `[value][query]`
    pub results: &'a mut [f32],
}

impl Queries<'_> {
    /// Scores to weights `2^score`, 0 where a query does not see; the matrix unit has other work meanwhile.
    ///
    /// Every lane goes its own way: a query's numbers do not depend on its neighbours. `ALL`: all of them see all positions.
    ///
    /// # Safety
    /// As [`Meanwhile::run`]; what that uses is nothing of these.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    pub unsafe fn weigh<const ALL: bool>(
        mut self,
        base: usize,
        scores: &mut [[f32; SIDE]; KV_BLOCK],
        weights: &mut [u8; 2 * TILE_BYTES],
        meanwhile: Meanwhile<'_>,
    ) {
        // SAFETY: the caller's promise; 16 numbers of the queries.
        unsafe {
            let mut new = self.weights::<ALL>(base, scores, weights, Some(meanwhile));
            let mut before = _mm512_loadu_ps(self.sums.as_ptr());
            let little = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_add_ps(before, new), _mm512_set1_ps(1.0 / MOST));
            let much = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(new, _mm512_set1_ps(MOST));
            let astray = (little | much) & if ALL { !0 } else { self.see(base, base + KV_BLOCK - 1) };
            if astray != 0 {
                let factor = self.restart::<ALL>(astray, base, scores);
                before = _mm512_mul_ps(before, factor);
                new = self.weights::<ALL>(base, scores, weights, None);
            }
            _mm512_storeu_ps(self.sums.as_mut_ptr(), _mm512_add_ps(before, new));
        }
    }

    /// The weights of a block, and each query's sum of them.
    ///
    /// # Safety
    /// As [`Self::weigh`].
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn weights<const ALL: bool>(
        &self,
        base: usize,
        scores: &[[f32; SIDE]; KV_BLOCK],
        weights: &mut [u8; 2 * TILE_BYTES],
        meanwhile: Option<Meanwhile<'_>>,
    ) -> __m512 {
        let weight = |position: usize| {
            // SAFETY: 16 scores.
            let v = exp2(unsafe { _mm512_loadu_ps(scores[position].as_ptr()) });
            if ALL { v } else { _mm512_maskz_mov_ps(self.see(base + position, base + position), v) }
        };
        let (mut evens, mut odds) = (_mm512_setzero_ps(), _mm512_setzero_ps());
        let mut two = |position: usize| {
            let (a, b) = (weight(position), weight(position + 1));
            (evens, odds) = (_mm512_add_ps(evens, a), _mm512_add_ps(odds, b));
            // SAFETY: a row of the tile.
            unsafe { _mm512_storeu_si512(weights[32 * position..][..64].as_mut_ptr().cast(), round_pairs(a, b)) };
        };
        let mut position = 0;
        if let Some(work) = meanwhile {
            let (parts, mut due) = (work.parts(), 0);
            let mut between = || {
                due += KV_BLOCK / 2;
                while due >= parts {
                    due -= parts;
                    two(position);
                    position += 2;
                }
            };
            // SAFETY: the caller's promise.
            unsafe { work.run(&mut between) };
        }
        while position < KV_BLOCK {
            two(position);
            position += 2;
        }
        _mm512_add_ps(evens, odds)
    }

    /// Which of the queries see something of `first..=last`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn see(&self, first: usize, last: usize) -> __mmask16 {
        // SAFETY: 16 numbers each.
        let [from, end] = [self.from, self.end].map(|v| unsafe { _mm512_loadu_si512(v.as_ptr().cast()) });
        _mm512_cmple_epi32_mask(from, _mm512_set1_epi32(last as i32))
            & _mm512_cmpgt_epi32_mask(end, _mm512_set1_epi32(first as i32))
    }

    /// Has queries that are `astray` start so that the highest of their scores is 0: what they have so far times a factor.
    #[cold]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    fn restart<const ALL: bool>(
        &mut self,
        astray: __mmask16,
        base: usize,
        scores: &mut [[f32; SIDE]; KV_BLOCK],
    ) -> __m512 {
        let nothing = _mm512_set1_ps(f32::NEG_INFINITY);
        // SAFETY: 16 numbers each of the queries, their scores and results.
        unsafe {
            let most = (0..KV_BLOCK).fold(nothing, |most, position| {
                let v = _mm512_loadu_ps(scores[position].as_ptr());
                _mm512_mask_max_ps(most, if ALL { !0 } else { self.see(base + position, base + position) }, most, v)
            });
            let moved = astray & _mm512_cmp_ps_mask::<_CMP_GT_OQ>(most, nothing);
            let most = _mm512_maskz_mov_ps(moved, most);
            let less = |v: *mut f32| _mm512_storeu_ps(v, _mm512_sub_ps(_mm512_loadu_ps(v), most));
            scores.iter_mut().for_each(|row| less(row.as_mut_ptr()));
            less(self.start.as_mut_ptr());
            // A query that stays has exactly 1. One whose weights were too little had none before.
            let factor = exp2(_mm512_min_ps(_mm512_sub_ps(_mm512_setzero_ps(), most), _mm512_set1_ps(126.0)));
            for values in self.results.chunks_exact_mut(SIDE) {
                _mm512_storeu_ps(values.as_mut_ptr(), _mm512_mul_ps(_mm512_loadu_ps(values.as_ptr()), factor));
            }
            factor
        }
    }
}
