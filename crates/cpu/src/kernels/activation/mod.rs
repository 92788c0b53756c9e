//! Activation functions over rows, and the gated product `y = activation(x) * u`.

use super::convert::{can_write, write_part};
use super::{LeveledRow, levels};
use crate::context::Context;
use crate::share::Share;
use crate::simd::math::{Function, GeluErf, GeluTanh, Identity, Silu};
use crate::simd::{Body, Simd};
use akunu_plan::op::{Activation, ElementParams, OpKind, slots::gated_activation};
use akunu_plan::record::{Record, X_LAYOUT, Y_LAYOUT};

pub(super) const GATED: &[LeveledRow] = levels!("gated_activation", OpKind::GatedActivation, serves, gated_activation);

fn serves(record: &Record) -> bool {
    let p = record.params::<ElementParams>();
    record.flags & X_LAYOUT == 0 && known(p.activation) && can_write(record, p.dim as usize)
}

/// Whether `activation` is a value of [`Activation`].
pub(super) fn known(activation: u32) -> bool {
    activation <= Activation::GeluErf as u32
}

/// Values of a row that stay together: whole int8 blocks and tiles.
const GRAIN: usize = 256;

#[inline(always)]
unsafe fn gated_activation<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    use gated_activation::{U, X, Y};
    let p = record.params::<ElementParams>();
    let dim = p.dim as usize;
    let groups = dim.div_ceil(GRAIN);
    let converts = record.flags & Y_LAYOUT != 0;
    for unit in share.of(context.count(record) * groups, 1) {
        let (row, from) = (unit / groups, unit % groups * GRAIN);
        let n = GRAIN.min(dim - from);
        let [x, u] = [X, U].map(|slot| context.row(record, slot, row).cast::<f32>().wrapping_add(from));
        // SAFETY: the rows are `dim` long and `from + n <= dim`; the scratch is longer than the grain.
        unsafe {
            if converts {
                let out = context.scratch(share.index).cast::<f32>();
                gate(s, p.activation, x, u, out, n);
                write_part(s, record, context, (Y, row), (dim, from, n), out);
            } else {
                gate(s, p.activation, x, u, context.row(record, Y, row).cast::<f32>().add(from), n);
            }
        }
    }
}

/// `y[i] = activation(x[i]) * u[i]` for `n` values; `y` may be `x` or `u`.
///
/// # Safety
/// All three have `n` values.
#[inline(always)]
pub(super) unsafe fn gate<S: Simd>(s: S, activation: u32, x: *const f32, u: *const f32, y: *mut f32, n: usize) {
    // SAFETY: the same contract.
    unsafe { s.call(Gated { activation, x, u, y, n }) }
}

/// As [`gate`] has it.
struct Gated {
    activation: u32,
    x: *const f32,
    u: *const f32,
    y: *mut f32,
    n: usize,
}

impl Body for Gated {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        const SILU: u32 = Activation::Silu as u32;
        const GELU_TANH: u32 = Activation::GeluTanh as u32;
        const GELU_ERF: u32 = Activation::GeluErf as u32;
        let Self { activation, x, u, y, n } = self;
        // SAFETY: the caller's promise.
        unsafe {
            match activation {
                SILU => gate_with::<S, Silu>(s, x, u, y, n),
                GELU_TANH => gate_with::<S, GeluTanh>(s, x, u, y, n),
                GELU_ERF => gate_with::<S, GeluErf>(s, x, u, y, n),
                _ => gate_with::<S, Identity>(s, x, u, y, n),
            }
        }
    }
}

/// # Safety
/// As [`gate`].
#[inline(always)]
unsafe fn gate_with<S: Simd, F: Function>(s: S, x: *const f32, u: *const f32, y: *mut f32, n: usize) {
    let mut at = 0;
    // SAFETY: every access ends at or before `n`.
    unsafe {
        while at + S::LANES <= n {
            s.store(y.add(at), s.mul(F::of(s, s.load(x.add(at))), s.load(u.add(at))));
            at += S::LANES;
        }
        if at < n {
            let rest = n - at;
            let v = s.mul(F::of(s, s.load_first(x.add(at), rest)), s.load_first(u.add(at), rest));
            s.store_first(y.add(at), v, rest);
        }
    }
}
