//! Split-KV attention: the partial softmax of a query over the positions of one share, and how partial softmaxes are merged.

use super::tile::{Tile, padded};
use crate::context::Context;
use crate::share::Share;
use crate::simd::{Body, Simd};

/// A query's maximum, sum and weighted values over the positions of one share. The pointers lead into that worker's
/// scratch, behind its tile.
#[derive(Clone, Copy)]
pub(super) struct Partial {
    /// `[max, sum]`, padded.
    state: *mut f32,
    /// `[stride]`
    values: *mut f32,
    stride: usize,
}

/// f32 values of a query's state: a cache line.
const STATE: usize = 16;

impl Partial {
    /// Bytes of all heads of a row.
    pub const fn bytes(heads: usize, d: usize) -> usize {
        heads * (STATE + padded(d)) * 4
    }

    /// That of the `unit`-th query of a round, by a worker.
    pub fn of(context: &Context<'_>, worker: usize, d: usize, unit: usize) -> Self {
        let state = context.scratch(worker).wrapping_add(Tile::bytes(d) + unit * Self::bytes(1, d)).cast::<f32>();
        Self { state, values: state.wrapping_add(STATE), stride: padded(d) }
    }

    /// # Safety
    /// It lies inside the scratch; query `index` is the tile's.
    pub unsafe fn keep(self, tile: &Tile, index: usize) {
        let (max, sum, values) = tile.partial(index);
        // SAFETY: a query's values are `stride` long, in both.
        unsafe {
            *self.state = max;
            *self.state.add(1) = sum;
            std::ptr::copy_nonoverlapping(values, self.values, self.stride);
        }
    }
}

/// The result of a query, the `unit`-th of a round, over the positions of all shares: zeros where it saw nothing.
///
/// All were kept, and nobody writes to them; the worker's scratch has room for `d` values, padded.
pub(super) struct Merge<'a, 'b> {
    pub context: &'a Context<'b>,
    pub share: Share,
    pub d: usize,
    pub unit: usize,
}

impl Body for Merge<'_, '_> {
    type Output = *const f32;

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) -> *const f32 {
        let Self { context, share, d, unit } = self;
        let all = (0..share.count).map(|worker| Partial::of(context, worker, d, unit));
        let to = context.scratch(share.index).cast::<f32>();
        // SAFETY: the caller's promise.
        unsafe {
            let max = all.clone().map(|f| *f.state).fold(f32::NEG_INFINITY, f32::max);
            let factor = |f: Partial| if *f.state == f32::NEG_INFINITY { 0.0 } else { (*f.state - max).exp() };
            let sum: f32 = all.clone().map(|f| factor(f) * *f.state.add(1)).sum();
            let whole = if sum > 0.0 { 1.0 / sum } else { 0.0 };
            for at in (0..padded(d)).step_by(S::LANES) {
                let mut v = s.splat(0.0);
                for f in all.clone() {
                    v = s.fma(s.splat(factor(f) * whole), s.load(f.values.add(at)), v);
                }
                s.store(to.add(at), v);
            }
        }
        to
    }
}
