//! The product around the tiles: columns taken by workers, and the epilogue.

use super::gate::Gate;
use crate::context::{Context, SCRATCH_BYTES};
use crate::kernels::activation::gate;
use crate::kernels::convert::write_part;
use crate::kernels::kv_cache::product::Heads;
use crate::kernels::matmul::product::{Weights, finish};
use crate::share::Share;
use crate::simd::tiles::{Products, SIDE, STEP, TILE_BYTES, TileBlock, Tiles};
use crate::simd::{Avx512, Simd, prefetch_far, prefetch_row};
use akunu_dtype::tiles::{HEADS, PAIR, offset};
use akunu_gemm::bf16_panel::{Bf16Panel, PANEL_ROWS, SPAN};
use akunu_gemm::gemm::Gemm;
use akunu_plan::op::{MatMulHeadsParams, MatMulParams, slots};
use akunu_plan::record::{Record, Y_IS_BF16, Y_LAYOUT};

/// Columns in flight, of all weight operands together: whole heads.
const GROUP: usize = HEADS;
/// Of long weight rows more columns are in flight, where there are enough, and less of each: activation rows come from further
/// than L2 then, and come half as often.
const WIDE: usize = 2 * GROUP;
const WIDE_SPAN: usize = 512;
/// Weight rows with more values are long.
const LONG: usize = 1024;
/// Activation rows in flight where weight rows do not pass as a whole: for as many, each part of them is unpacked once.
const ROWS: usize = 512;
/// f32 values from one row's sums to the next: not a power of two, for the cache's sake.
const SUMS: usize = WIDE + SIDE;
/// Rows from one that is finished to one that is asked of memory.
const AHEAD: usize = 4;
/// Steps of 32 activation rows that stay in L1 while every column of the group passes by, where there are
/// more of them than it holds.
const NEAR_STEPS: usize = WIDE_SPAN / STEP;
/// Shares each worker takes of a record, where it has columns enough.
const SHARES: usize = 4;

/// A worker's scratch memory.
#[repr(C, align(64))]
struct Scratch {
    /// `[weight operand][column / 32]` panels.
    panels: [u8; GROUP * SPAN * 2],
    /// `[row][weight operand][column]`
    sums: [[f32; SUMS]; ROWS],
}

const _: () = assert!(WIDE * WIDE_SPAN <= GROUP * SPAN && WIDE_SPAN <= LONG && LONG <= SPAN);
const _: () = assert!(size_of::<Scratch>() <= SCRATCH_BYTES);

/// # Safety
/// As [`crate::kernels::Kernel`] says, at the AMX level.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub unsafe fn matmul(record: &Record, context: &Context<'_>, share: Share) {
    use slots::matmul::{BIAS, RESIDUAL, W, Y};
    // Copies: tiles come and go through memory, and nothing that is read from there stays known.
    let p = *record.params::<MatMulParams>();
    let bias = (!record.args[BIAS].is_none()).then(|| context.operand(record, BIAS).cast::<f32>().cast_const());
    let residual = (!record.args[RESIDUAL].is_none()).then(|| Rows::of(record, context, RESIDUAL));
    let y = Rows::of(record, context, Y);
    let converts = record.flags & Y_LAYOUT != 0;
    let Some(s) = Avx512::detect() else { return };
    // SAFETY: row operands have `n` values, of which this worker has those it finishes. Rows in
    // another form than f32 are cut at whole blocks, because shares are multiples of one.
    unsafe {
        run(record, context, share, PANEL_ROWS, [Weights::of(record, context, W, 0)], |m, n, cols, [dots]| {
            let bias = bias.map(|bias| bias.add(n));
            if let Some(residual) = residual {
                // The tiles would wait for it.
                prefetch_row(residual.at(m + AHEAD, n), cols);
            }
            let residual = residual.map(|residual| residual.at(m, n).cast_const());
            if converts {
                finish(s, &p, dots, bias, residual, dots, cols);
                write_part(s, record, context, (Y, m), (p.n as usize, n, cols), dots);
            } else {
                finish(s, &p, dots, bias, residual, y.at(m, n), cols);
            }
        });
    }
}

/// # Safety
/// As [`crate::kernels::Kernel`] says, at the AMX level.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub unsafe fn matmul_gated(record: &Record, context: &Context<'_>, share: Share) {
    use slots::gated::{U, W, Y};
    let p = *record.params::<MatMulParams>();
    let y = Rows::of(record, context, Y);
    let converts = record.flags & Y_LAYOUT != 0;
    let rounds = if record.flags & Y_IS_BF16 != 0 { Gate::of(p.activation) } else { None };
    let weights = [Weights::of(record, context, W, 0), Weights::of(record, context, U, 2)];
    let Some(s) = Avx512::detect() else { return };
    // SAFETY: as in `matmul`.
    unsafe {
        run(record, context, share, PANEL_ROWS, weights, |m, n, cols, [x, u]| {
            if let Some(gate) = rounds
                && cols.is_multiple_of(STEP)
            {
                for at in (0..cols).step_by(STEP) {
                    gate.round32(x.add(at), u.add(at), y.base.add(offset(m, n + at, p.n as usize)));
                }
            } else if converts {
                gate(s, p.activation, x, u, x, cols);
                write_part(s, record, context, (Y, m), (p.n as usize, n, cols), x);
            } else {
                gate(s, p.activation, x, u, y.at(m, n), cols);
            }
        });
    }
}

/// # Safety
/// As [`crate::kernels::Kernel`] says, at the AMX level.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub unsafe fn matmul_heads(record: &Record, context: &Context<'_>, share: Share) {
    use slots::matmul_heads::{BIAS, W};
    let p = record.params::<MatMulHeadsParams>();
    let Some(heads) = Heads::of(record, context) else { return };
    let bias = context.operand(record, BIAS).cast::<f32>().cast_const();
    let biased = !record.args[BIAS].is_none();
    let grain = PANEL_ROWS.max(p.head.head_dim as usize);
    let Some(s) = Avx512::detect() else { return };
    // SAFETY: as in `matmul`; columns are taken in whole heads.
    unsafe {
        run(record, context, share, grain, [Weights::of(record, context, W, 0)], |m, n, cols, [dots]| {
            if biased {
                finish(s, &p.product, dots, Some(bias.add(n)), None, dots, cols);
            }
            heads.finish(s, m, (n, cols), dots);
        });
    }
}

/// The rows of an operand.
#[derive(Clone, Copy)]
struct Rows {
    base: *mut u8,
    stride: usize,
}

impl Rows {
    fn of(record: &Record, context: &Context<'_>, slot: usize) -> Self {
        Self { base: context.operand(record, slot), stride: record.strides[slot] as usize }
    }

    /// f32 values from `n` on of row `m`.
    #[inline(always)]
    fn at(&self, m: usize, n: usize) -> *mut f32 {
        self.base.wrapping_add(m * self.stride).cast::<f32>().wrapping_add(n)
    }
}

/// Multiplies the columns this worker takes, multiples of `grain`, with every weight operand; `finish(row, column, columns,
/// dot products)` takes them on.
///
/// # Safety
/// As [`crate::kernels::Kernel`] says, at the AMX level.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
unsafe fn run<const N: usize>(
    record: &Record,
    context: &Context<'_>,
    share: Share,
    grain: usize,
    weights: [Weights; N],
    finish: impl Fn(usize, usize, usize, [*mut f32; N]),
) {
    let Some(unpack) = context.kernel(record).panel() else { return };
    let p = *record.params::<MatMulParams>();
    let (count, columns, k) = (context.count(record), p.n as usize, p.k as usize);
    let chunk = columns.div_ceil(SHARES * share.count).next_multiple_of(grain);
    let (group, span) = if k > LONG && N * chunk >= WIDE { (WIDE / N, WIDE_SPAN) } else { (GROUP / N, SPAN) };
    let chunk = chunk.min(group);
    let depth = k.div_ceil(STEP);
    let acts = context.operand(record, slots::matmul::X).cast_const();
    let scratch = context.scratch(share.index).cast::<Scratch>();
    // Where a weight row is in flight as a whole, it is unpacked once for all activation rows, and only the sums of the 32
    // rows at hand and of the 32 before are kept.
    let whole = k <= span;
    let most = if whole { count.max(1) } else { ROWS };
    // SAFETY: the machine has AMX; the scratch is this worker's; rows, columns and values are the record's, and there are
    // tiles for whole pairs of rows.
    unsafe {
        let tiles = Tiles::configure();
        let mut products = Products::new(&tiles, SUMS * 4);
        let width = k.min(span).next_multiple_of(STEP);
        let panel =
            |operand: usize, n: usize| (&raw mut (*scratch).panels).cast::<u8>().add((operand * group + n) * width * 2);
        let sums =
            |m: usize| (&raw mut (*scratch).sums).cast::<f32>().add(if whole { m % (2 * PAIR) } else { m } * SUMS);
        for n0 in context.steal(record, share, columns.div_ceil(chunk)).map(|i| i * chunk) {
            let cols = chunk.min(columns - n0);
            for m0 in (0..count).step_by(most) {
                let rows = most.min(count - m0);
                for from in (0..k).step_by(span) {
                    let span = span.min(k - from);
                    for (operand, weights) in weights.iter().enumerate() {
                        for n in (0..cols).step_by(PANEL_ROWS) {
                            let of = part(weights, &p, n0 + n, PANEL_ROWS.min(cols - n));
                            unpack(&Bf16Panel { of: &of, k: from, len: span, out: panel(operand, n) });
                        }
                    }
                    let steps = span.div_ceil(STEP);
                    let blocks = N * cols.div_ceil(PANEL_ROWS);
                    let near = !whole || steps > 2 * NEAR_STEPS && blocks > 2;
                    let part_steps = if near { NEAR_STEPS } else { steps };
                    // Of both tiles of a step, while all blocks take it.
                    let asked = if whole { 0 } else { (TILE_BYTES / blocks).next_multiple_of(64) };
                    let left =
                        |m: usize, k: usize| acts.wrapping_add(((m0 + m) / SIDE * depth + k / STEP) * TILE_BYTES);
                    let mut done = 0..0;
                    let finish_row = |m: usize| {
                        finish(m0 + m, n0, cols, std::array::from_fn(|operand| sums(m).add(operand * group)));
                    };
                    for m in (0..rows).step_by(PAIR) {
                        let mut next = if m + PAIR < rows { left(m + PAIR, from) } else { left(0, (from + span) % k) };
                        // A row of those that are done as often as it takes for all 32.
                        let mut due = 0;
                        let mut between = || {
                            for line in (0..asked).step_by(64) {
                                prefetch_far(next.wrapping_add(line));
                                prefetch_far(next.wrapping_add(depth * TILE_BYTES + line));
                            }
                            next = next.wrapping_add(asked);
                            due += PAIR;
                            while due >= blocks * steps {
                                due -= blocks * steps;
                                if let Some(m) = done.next() {
                                    finish_row(m);
                                }
                            }
                        };
                        for part in (0..steps).step_by(part_steps) {
                            for operand in 0..N {
                                for n in (0..cols).step_by(PANEL_ROWS) {
                                    let left = left(m, from + part * STEP);
                                    let right = panel(operand, n).cast_const().add(part * TILE_BYTES);
                                    let block = TileBlock {
                                        left: [left, left.add(depth * TILE_BYTES)],
                                        right: [right, right.add(steps * TILE_BYTES)],
                                        sums: sums(m).add(operand * group + n),
                                        steps: part_steps.min(steps - part),
                                        first: from + part == 0,
                                    };
                                    if near {
                                        products.add::<true>(&block, &mut between);
                                    } else {
                                        products.add::<false>(&block, &mut between);
                                    }
                                }
                            }
                        }
                        if from + span == k {
                            done = m..rows.min(m + PAIR);
                        }
                    }
                    products.store();
                    done.for_each(finish_row);
                }
            }
        }
    }
}

/// Weight rows `n..n + cols`, for unpacking.
fn part(weights: &Weights, p: &MatMulParams, n: usize, cols: usize) -> Gemm {
    let (stride, side) = (p.row_bytes as usize, p.side_bytes as usize);
    Gemm {
        w: weights.data.wrapping_add(n * stride),
        w_scales: weights.scales.wrapping_add(n * side),
        w_biases: weights.biases.wrapping_add(n * side),
        w_stride: stride,
        w_side_stride: side,
        next: std::ptr::null(),
        x: std::ptr::null(),
        x_stride: 0,
        rows: 0,
        cols,
        k: p.k as usize,
        out: std::ptr::null_mut(),
        out_stride: 0,
        dtype: p.dtype as u8,
    }
}
