//! Rows that are alone with the keys of their texts, as in decoding, as long as one span has all of them: what tiles give, to the
//! bit, without what several rows, branches and further spans need. With few positions to see that is most of a tile's work.

use super::keys::{SPAN, Span};
use super::tile::{LANE_NUMBERS, Mix, Score, Tile, steps, together};
use super::{Reading, sees, span, write_part};
use crate::context::Context;
use crate::simd::math::exp;
use crate::simd::{Body, Simd};
use akunu_plan::op::{AttentionParams, slots::attention};
use akunu_plan::record::Record;
use akunu_plan::steps::RowVars;
use std::ops::Range;

/// Whether a row sees its text from the first place on, and all that it sees, which is something, is in one span.
pub(super) fn is_plain(p: &AttentionParams, vars: RowVars) -> bool {
    let sees = sees(p, vars);
    p.soft_cap == 0.0 && sees.start == 0 && (1..=SPAN).contains(&sees.end) && vars.hidden_places() == 0
}

/// Some KV heads of plain rows.
///
/// # Safety
/// As [`super::Kernel`], for KV heads and plain rows of the record. The keys are read directly, so that `d` is whole vectors of every
/// level, and no more than `TILE` heads share a KV head.
#[inline(always)]
pub(super) unsafe fn attend_rows<S: Simd>(
    s: S,
    record: &Record,
    context: &Context<'_>,
    reading: Reading<S>,
    tile: &mut Tile,
    (rows, kv_heads): (Range<usize>, Range<usize>),
) {
    let p = record.params::<AttentionParams>();
    let (heads, d) = (p.heads as usize, p.head_dim as usize);
    let group = heads / p.kv_heads as usize;
    let head_bytes = p.kv.head_bytes as usize;
    let find = |row: usize| {
        let positions = sees(p, context.row_vars(row));
        (positions.end, span(record, context, row, positions, reading.streams))
    };
    let mut next = (!rows.is_empty()).then(|| find(rows.start));
    for row in rows.clone() {
        let Some((end, here)) = next else { return };
        next = (row + 1 < rows.end).then(|| find(row + 1));
        let q = context.row(record, attention::Q, row).cast::<f32>().cast_const();
        let steps = steps(&here.blocks);
        for kv_head in kv_heads.clone() {
            let first = kv_head * group * d;
            let head = kv_head * head_bytes;
            let after = match &next {
                _ if kv_head + 1 < kv_heads.end => (&here, head + head_bytes),
                Some((_, next)) => (next, kv_heads.start * head_bytes),
                None => (&Span::NONE, 0),
            };
            // SAFETY: a row of q and one of y have all heads of `d` values; in another form than f32 a head is whole blocks.
            // Else as in `attend`.
            unsafe {
                tile.begin(group);
                tile.take_queries(s, q.add(first), p.scale);
                let result = tile.attend_row(s, p, reading, (end, steps), (&here, head), after);
                write_part(s, record, context, (attention::Y, row), (heads * d, first, group * d), result);
            }
        }
    }
}

/// [`Tile::weigh_plain`] as a function of its own.
struct WeighPlain<'a> {
    tile: &'a mut Tile,
    end: usize,
}

impl Body for WeighPlain<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: the same contract.
        unsafe { self.tile.weigh_plain(s, self.end) }
    }
}

impl Tile {
    /// All queries, one after the other, times the attention scale.
    ///
    /// # Safety
    /// `q` has `count` times `d` values, and `d` is whole vectors.
    #[inline(always)]
    unsafe fn take_queries<S: Simd>(&mut self, s: S, q: *const f32, scale: f32) {
        let scale = s.splat(scale);
        for at in (0..self.count * self.d).step_by(S::LANES) {
            // SAFETY: the caller's promise; queries are `stride` apart, which is `d` then.
            unsafe { s.store(self.queries.add(at), s.mul(s.load(q.add(at)), scale)) }
        }
    }

    /// The results of all queries, one after the other, over the positions before `end`; `next` is what will be read after them.
    ///
    /// # Safety
    /// As [`Self::visit`], and as [`attend_rows`]: `end` is 1 to [`SPAN`].
    #[inline(always)]
    unsafe fn attend_row<S: Simd>(
        &mut self,
        s: S,
        p: &AttentionParams,
        reading: Reading<S>,
        (end, steps): (usize, usize),
        here: (&Span, usize),
        next: (&Span, usize),
    ) -> *const f32 {
        let steps = self.count.div_ceil(together::<S>()) * steps;
        // SAFETY: the caller's promise.
        unsafe {
            (reading.score)(s, Score { tile: self, p, direct: true, seen: 0..end, here, steps });
            s.call(WeighPlain { tile: self, end });
            (reading.mix)(s, Mix { tile: self, p, direct: true, here, steps, next, whole: true });
        }
        self.results
    }

    /// As [`Self::weigh`], where everything is seen and nothing came before.
    ///
    /// # Safety
    /// The scores of the positions before `end`, 1 to [`SPAN`], were written.
    #[inline(always)]
    unsafe fn weigh_plain<S: Simd>(&mut self, s: S, end: usize) {
        let mut t = 0;
        // SAFETY: the caller's promise, and no more queries than are left.
        unsafe {
            while t < self.count {
                match self.count - t {
                    1 => self.weigh_some::<S, 1>(s, t, end),
                    2 => self.weigh_some::<S, 2>(s, t, end),
                    3 => self.weigh_some::<S, 3>(s, t, end),
                    _ => self.weigh_some::<S, 4>(s, t, end),
                }
                t += 4;
            }
        }
    }

    /// `N` queries: one alone would wait for itself.
    ///
    /// # Safety
    /// As [`Self::weigh_plain`]; `t + N <= count`.
    #[inline(always)]
    unsafe fn weigh_some<S: Simd, const N: usize>(&mut self, s: S, t: usize, end: usize) {
        debug_assert!((1..=SPAN).contains(&end));
        let nothing = s.splat(f32::NEG_INFINITY);
        let last = (end - 1) / S::LANES * S::LANES;
        let scores = self.scores.wrapping_add(t * SPAN);
        // SAFETY: a query has `SPAN` scores, a multiple of the lanes; there are as many numbers as the widest has lanes.
        unsafe {
            let place = s.add(s.load(LANE_NUMBERS.as_ptr()), s.splat(last as f32));
            let mut largest = [nothing; N];
            for (i, largest) in largest.iter_mut().enumerate() {
                let at = scores.add(i * SPAN + last);
                let v = s.select_lt(place, s.splat(end as f32), s.load(at), nothing);
                s.store(at, v);
                *largest = s.max(v, nothing);
            }
            for at in (0..last).step_by(S::LANES) {
                for (i, largest) in largest.iter_mut().enumerate() {
                    *largest = s.max(s.load(scores.add(i * SPAN + at)), *largest);
                }
            }
            // Not `map`: its closure would be compiled without the level's instructions, and each of them would be a call.
            let mut minus_max = largest;
            for max in &mut minus_max {
                *max = s.splat(-s.largest(*max).max(-f32::MAX));
            }
            let mut sums = [s.splat(0.0); N];
            for at in (0..end).step_by(S::LANES) {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let at = scores.add(i * SPAN + at);
                    let v = s.load(at);
                    let weight = s.select_lt(s.splat(-f32::MAX), v, exp(s, s.add(v, minus_max[i])), s.splat(0.0));
                    s.store(at, weight);
                    *sum = s.add(*sum, weight);
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                self.state[t + i].sum = s.sum(sum);
            }
        }
    }
}
