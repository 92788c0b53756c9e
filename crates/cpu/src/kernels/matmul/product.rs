//! The matrix product around the dot products: split among workers, tiles, and the epilogue.
//!
//! A worker owns a range of output columns (rows of W), and takes more where others are slow. It goes through them in tiles that
//! stay in its cache while every tile of activation rows passes by.

use crate::context::{Context, SCRATCH_BYTES};
use crate::kernels::activation::{gate, known};
use crate::kernels::convert::{can_write, write_part};
use crate::kernels::sampling::largest;
use crate::kernels::{LeveledRow, levels};
use crate::level::Level;
use crate::share::Share;
use crate::simd::math::{Function, GeluErf, GeluTanh, Identity, Silu, soft_cap};
use crate::simd::{Body, Simd};
use akunu_gemm::gemm::{Gemm, GemmFn};
use akunu_plan::op::{Activation, MAXIMA_SLICE, MatMulParams, OpKind, slots};
use akunu_plan::record::{Record, Y_LAYOUT};
use std::ops::Range;

const MATMUL: &[LeveledRow] = levels!("matmul", OpKind::MatMul, serves, matmul);
const GATED: &[LeveledRow] = levels!("matmul_gated", OpKind::MatMulGated, serves, matmul_gated);

/// Every form of the product, at every level.
pub(super) fn products() -> impl Iterator<Item = &'static LeveledRow> {
    MATMUL.iter().chain(GATED)
}

/// Whether to offer a product around dot products of this level: where it is the highest that they have, and at
/// levels that have theirs.
pub(super) fn goes_around(product: &LeveledRow, dots: Level) -> bool {
    let highest = products().map(|p| p.level).filter(|&level| dots.has(level)).max();
    highest == Some(product.level) || product.level.has(dots)
}

pub(super) fn serves(record: &Record) -> bool {
    let p = record.params::<MatMulParams>();
    // Maxima are kept of f32 results.
    let keeps = record.flags & Y_LAYOUT == 0 || record.args[slots::matmul::MAXIMA].is_none();
    known(p.activation) && keeps && can_write(record, p.n as usize)
}

/// Activation rows of a tile of results, at most.
const TILE_ROWS: usize = 64;
/// Columns of a tile with many rows. Kernels prepare activations for every tile anew, so they are many; and they go through its
/// weights more than once, so these stay near.
const TILE_COLUMNS: usize = 512;
/// Results of a tile with few rows, whose weights pass by once.
const FEW_ROWS: usize = 8192;
const TILE_VALUES: usize = TILE_ROWS * TILE_COLUMNS;
const _: () = assert!(2 * TILE_VALUES * 4 <= SCRATCH_BYTES && FEW_ROWS <= TILE_VALUES && TILE_COLUMNS >= super::GRAIN);

/// The first column and the columns of every tile over `rows` rows: whole grains, as many as a tile has.
fn tiles(columns: impl Iterator<Item = Range<usize>>, rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let most = (FEW_ROWS / rows.max(1)).max(TILE_COLUMNS) / super::GRAIN * super::GRAIN;
    columns.flat_map(move |part| part.clone().step_by(most).map(move |n| (n, most.min(part.end - n))))
}

/// One weight operand of a record.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    pub data: *const u8,
    pub scales: *const u8,
    pub biases: *const u8,
}

impl Weights {
    #[inline(always)]
    pub fn of(record: &Record, context: &Context<'_>, slot: usize, planes: usize) -> Self {
        Self {
            data: context.operand(record, slot),
            scales: context.address(record.planes[planes]),
            biases: context.address(record.planes[planes + 1]),
        }
    }

    /// Fills `out[m][n]` with the dot products of activation rows `m0..m0 + rows` and weight rows
    /// `n0..n0 + cols`.
    ///
    /// # Safety
    /// The rows and columns are the record's, and `out` has `rows` rows of `cols` values, `out_stride` apart.
    #[inline(always)]
    unsafe fn dots(
        self,
        (record, context, run): (&Record, &Context<'_>, GemmFn),
        (m0, rows): (usize, usize),
        (n0, cols): (usize, usize),
        (out, out_stride): (*mut f32, usize),
        next: *const u8,
    ) {
        let p = record.params::<MatMulParams>();
        let (stride, side) = (p.row_bytes as usize, p.side_bytes as usize);
        let tile = Gemm {
            w: self.data.wrapping_add(n0 * stride),
            w_scales: self.scales.wrapping_add(n0 * side),
            w_biases: self.biases.wrapping_add(n0 * side),
            w_stride: stride,
            w_side_stride: side,
            next,
            x: context.row(record, slots::matmul::X, m0),
            x_stride: record.strides[slots::matmul::X] as usize,
            rows,
            cols,
            k: p.k as usize,
            out,
            out_stride,
            dtype: p.dtype as u8,
        };
        // SAFETY: `ready` has checked that n weight rows and all activation rows of k values lie
        // inside their regions, and that the row of the table serves the record on this machine.
        unsafe { run(&tile) }
    }
}

/// The weights that a worker multiplies after those of the columns before `n`: its next columns, or those of the product that
/// follows.
#[inline]
fn after(record: &Record, context: &Context<'_>, share: Share, n: usize) -> *const u8 {
    const { assert!(slots::matmul::W == slots::gated::W) };
    // GEMV kernels read in streams of their own, and prefetch nothing beyond.
    if context.count(record) == 1 {
        return std::ptr::null();
    }
    let first = |record: &Record, n: usize| {
        let p = record.params::<MatMulParams>();
        context.operand(record, slots::matmul::W).wrapping_add(n * p.row_bytes as usize).cast_const()
    };
    let columns = |record: &Record| share.of(record.params::<MatMulParams>().n as usize, record.grain as usize);
    if n < columns(record).end {
        return first(record, n);
    }
    let next = context.next_product(record);
    first(next, columns(next).start)
}

/// `y = residual + cap(scale * activation(x · Wᵀ + bias))`, to f32 or to the form products take.
#[inline(always)]
unsafe fn matmul<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    use slots::matmul::{BIAS, MAXIMA, RESIDUAL, W, Y};
    let Some(run) = context.kernel(record).gemm() else { return };
    let p = record.params::<MatMulParams>();
    let weights = Weights::of(record, context, W, 0);
    let bias = context.operand(record, BIAS).cast::<f32>().cast_const();
    let converts = record.flags & Y_LAYOUT != 0;
    let count = context.count(record);
    let tile = context.scratch(share.index).cast::<f32>();
    let plain = !converts && is_plain(record);
    for (n0, cols) in tiles(context.columns(record, share, (p.n as usize, p.row_bytes as usize)), count) {
        for m0 in (0..count).step_by(TILE_ROWS) {
            let rows = TILE_ROWS.min(count - m0);
            // SAFETY: rows and columns are the record's; the tile fits the scratch. Every row operand has `n` values, of
            // which this worker alone has `n0..n0 + cols`. An int8 row is cut at whole blocks, because grain and tile are
            // multiples of one and so is `n`.
            unsafe {
                let next = after(record, context, share, n0 + cols);
                let out = match plain {
                    true => (context.row(record, Y, m0).cast::<f32>().add(n0), record.strides[Y] as usize / 4),
                    false => (tile, cols),
                };
                weights.dots((record, context, run), (m0, rows), (n0, cols), out, next);
                if plain && record.args[MAXIMA].is_none() {
                    continue;
                }
                for row in 0..rows {
                    let dots = tile.add(row * cols);
                    let bias = (!record.args[BIAS].is_none()).then(|| bias.add(n0));
                    let residual = (!record.args[RESIDUAL].is_none())
                        .then(|| context.row(record, RESIDUAL, m0 + row).cast::<f32>().cast_const().add(n0));
                    if converts {
                        finish(s, p, dots, bias, residual, dots, cols);
                        write_part(s, record, context, (Y, m0 + row), (p.n as usize, n0, cols), dots);
                    } else {
                        let y = context.row(record, Y, m0 + row).cast::<f32>().add(n0);
                        if !plain {
                            finish(s, p, dots, bias, residual, y, cols);
                        }
                        if !record.args[MAXIMA].is_none() {
                            keep_maxima(s, y, (n0, cols), context.row(record, MAXIMA, m0 + row).cast());
                        }
                    }
                }
            }
        }
    }
}

/// Whether the dot products are the results.
fn is_plain(record: &Record) -> bool {
    use slots::matmul::{BIAS, RESIDUAL};
    let p = record.params::<MatMulParams>();
    let as_it_is = p.activation == Activation::None as u32 && p.scale == 1.0 && p.soft_cap == 0.0;
    as_it_is && record.args[BIAS].is_none() && record.args[RESIDUAL].is_none()
}

/// Keeps the maxima of columns `n0..n0 + n` of a row: of slices that the worker alone has, and goes through in order.
///
/// # Safety
/// `y` has `n` values, and `maxima` one for every slice up to the last column's.
#[inline(always)]
unsafe fn keep_maxima<S: Simd>(s: S, y: *const f32, (n0, n): (usize, usize), maxima: *mut f32) {
    let mut at = 0;
    while at < n {
        let (slice, inside) = ((n0 + at) / MAXIMA_SLICE, (n0 + at) % MAXIMA_SLICE);
        let part = (MAXIMA_SLICE - inside).min(n - at);
        // SAFETY: the caller's promise.
        unsafe {
            let max = largest(s, y.add(at), part);
            let kept = maxima.add(slice);
            *kept = if inside == 0 { max } else { max.max(*kept) };
        }
        at += part;
    }
}

/// The epilogue over `n` values; `residual` may be `y`, and `y` may be `dots`.
///
/// # Safety
/// Every pointer has `n` values.
#[inline(always)]
pub(super) unsafe fn finish<S: Simd>(
    s: S,
    p: &MatMulParams,
    dots: *const f32,
    bias: Option<*const f32>,
    residual: Option<*const f32>,
    y: *mut f32,
    n: usize,
) {
    let MatMulParams { activation, scale, soft_cap, .. } = *p;
    // SAFETY: the same contract.
    unsafe { s.call(Epilogue { activation, scale, soft_cap, dots, bias, residual, y, n }) }
}

/// What [`finish`] reads and writes.
struct Epilogue {
    activation: u32,
    scale: f32,
    soft_cap: f32,
    dots: *const f32,
    bias: Option<*const f32>,
    residual: Option<*const f32>,
    y: *mut f32,
    n: usize,
}

impl Body for Epilogue {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        const SILU: u32 = Activation::Silu as u32;
        const GELU_TANH: u32 = Activation::GeluTanh as u32;
        const GELU_ERF: u32 = Activation::GeluErf as u32;
        // SAFETY: the caller's promise.
        unsafe {
            match self.activation {
                SILU => self.finish::<S, Silu>(s),
                GELU_TANH => self.finish::<S, GeluTanh>(s),
                GELU_ERF => self.finish::<S, GeluErf>(s),
                _ => self.finish::<S, Identity>(s),
            }
        }
    }
}

impl Epilogue {
    /// # Safety
    /// As [`finish`].
    #[inline(always)]
    unsafe fn finish<S: Simd, F: Function>(&self, s: S) {
        let n = self.n;
        let whole = n / S::LANES * S::LANES;
        // SAFETY: every access ends at or before `n`.
        unsafe {
            for at in (0..whole).step_by(S::LANES) {
                s.store(self.y.add(at), self.of::<S, F>(s, at, S::LANES));
            }
            if whole < n {
                s.store_first(self.y.add(whole), self.of::<S, F>(s, whole, n - whole), n - whole);
            }
        }
    }

    /// `n` results from `at` on.
    ///
    /// # Safety
    /// There are so many.
    #[inline(always)]
    unsafe fn of<S: Simd, F: Function>(&self, s: S, at: usize, n: usize) -> S::V {
        // SAFETY: the caller's promise.
        unsafe {
            let mut v = s.load_some(self.dots.add(at), n);
            if let Some(bias) = self.bias {
                v = s.add(v, s.load_some(bias.add(at), n));
            }
            v = s.mul(F::of(s, v), s.splat(self.scale));
            if self.soft_cap != 0.0 {
                v = soft_cap(s, v, self.soft_cap);
            }
            if let Some(residual) = self.residual {
                v = s.add(v, s.load_some(residual.add(at), n));
            }
            v
        }
    }
}

/// `y = activation(x · Wᵀ) * (x · Uᵀ)`, to f32 or to the form products take.
#[inline(always)]
unsafe fn matmul_gated<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    use slots::gated::{U, W, Y};
    let Some(run) = context.kernel(record).gemm() else { return };
    let p = record.params::<MatMulParams>();
    let n = p.n as usize;
    let (gates, ups) = (Weights::of(record, context, W, 0), Weights::of(record, context, U, 2));
    let converts = record.flags & Y_LAYOUT != 0;
    let count = context.count(record);
    let gate_tile = context.scratch(share.index).cast::<f32>();
    let up_tile = gate_tile.wrapping_add(TILE_VALUES);
    for (n0, cols) in tiles(context.columns(record, share, (n, 2 * p.row_bytes as usize)), count) {
        for m0 in (0..count).step_by(TILE_ROWS) {
            let rows = TILE_ROWS.min(count - m0);
            // SAFETY: as in `matmul`; both tiles fit the scratch.
            unsafe {
                let next_up = ups.data.wrapping_add(n0 * p.row_bytes as usize);
                gates.dots((record, context, run), (m0, rows), (n0, cols), (gate_tile, cols), next_up);
                let next = after(record, context, share, n0 + cols);
                ups.dots((record, context, run), (m0, rows), (n0, cols), (up_tile, cols), next);
                for row in 0..rows {
                    let (x, u) = (gate_tile.add(row * cols), up_tile.add(row * cols));
                    if converts {
                        gate(s, p.activation, x, u, x, cols);
                        write_part(s, record, context, (Y, m0 + row), (n, n0, cols), x);
                    } else {
                        let y = context.row(record, Y, m0 + row).cast::<f32>();
                        gate(s, p.activation, x, u, y.add(n0), cols);
                    }
                }
            }
        }
    }
}
