//! Attention over the KV cache, or over the step's own keys and values: online softmax, span after span.
//!
//! A unit of work is a tile of queries that see the same keys: some rows of one sequence times
//! some heads of one KV head. For every span of 256 positions the tile's scores are computed, then their weights,
//! then the weighted values, so that keys and values are read once per tile.

#[doc(hidden)]
pub mod keys;
mod partial;
mod row;
mod scores;
#[cfg(target_arch = "x86_64")]
mod softmax;
mod tile;
#[cfg(target_arch = "x86_64")]
pub(super) mod tiled;
pub(super) mod weights;

use super::convert::{can_write, write_part};
use super::{LeveledRow, levels};
use crate::context::{Context, SCRATCH_BYTES};
use crate::share::Share;
use crate::simd::{Simd, prefetch};
use akunu_dtype::{DType, tiles};
use akunu_plan::op::{AttentionParams, OpKind, Sees, slots::attention};
use akunu_plan::record::{Record, X_LAYOUT, Y_LAYOUT};
use akunu_plan::steps::{KV_BLOCK, RowVars};
use keys::{Blocks8, Half, KeyBlock, Keys, SPAN, SPAN_BLOCKS, Single, Span};
use partial::{Merge, Partial};
use std::ops::Range;
use tile::{Mix, Score, TILE, Tile};

pub(super) const ATTENTION: &[LeveledRow] = levels!("attention", OpKind::Attention, serves, body);

/// How keys and values are read: what of attention depends on their format is two functions of every level.
#[derive(Clone, Copy)]
struct Reading<S> {
    score: unsafe fn(S, Score<'_>),
    mix: unsafe fn(S, Mix<'_>),
    direct: bool,
    /// As [`Keys::STREAMS`].
    streams: usize,
}

impl<S: Simd> Reading<S> {
    /// Where a conversion is more than an instruction, decoding a block once for a tile is faster than converting it again for
    /// every few queries.
    fn of(p: &AttentionParams) -> Self {
        // Rows of so many f16 values, one after the other.
        let wide = |width: u32| p.head_dim == width && p.kv.row_bytes == 2 * width;
        match DType::from_index(p.kv.dtype as u8) {
            _ if !(p.head_dim as usize).is_multiple_of(WIDEST) => Self::by::<Single>(false),
            Some(DType::F32) => Self::by::<Single>(true),
            Some(DType::F16) if S::CONVERTS && wide(32) => Self::by::<Half<32>>(true),
            Some(DType::F16) if S::CONVERTS && wide(64) => Self::by::<Half<64>>(true),
            Some(DType::F16) if S::CONVERTS && wide(128) => Self::by::<Half<128>>(true),
            Some(DType::F16) if S::CONVERTS => Self::by::<Half<0>>(true),
            Some(DType::Q8_0) if S::CONVERTS => Self::by::<Blocks8>(true),
            _ => Self::by::<Single>(false),
        }
    }

    fn by<K: Keys>(direct: bool) -> Self {
        Self { score: tile::score::<S, K>, mix: tile::mix::<S, K>, direct, streams: K::STREAMS }
    }
}

/// Lanes of the widest level: direct loads of keys need whole vectors of every level.
const WIDEST: usize = 16;

fn serves(record: &Record) -> bool {
    let p = record.params::<AttentionParams>();
    let Some(dtype) = DType::from_index(p.kv.dtype as u8) else { return false };
    let d = p.head_dim as usize;
    record.flags & X_LAYOUT == 0
        && (record.flags & Y_LAYOUT == 0 || d.is_multiple_of(tiles::VALUES) && can_write(record, d))
        && dtype.format().side_bytes == 0
        && Tile::bytes(d) + Partial::bytes(p.heads as usize, d) <= SCRATCH_BYTES
}

/// How the rows and heads of a record are cut into units.
#[doc(hidden)]
pub struct Cut {
    /// Rows and heads of one tile, at most; `rows * heads <= TILE`.
    pub tile_rows: usize,
    pub tile_heads: usize,
    pub row_tiles: usize,
    /// Tiles of the heads that share a KV head.
    pub head_tiles: usize,
}

impl Cut {
    /// Heads that share a KV head stay together, unless smaller tiles keep the workers busier. About `alike` rows follow each
    /// other that see the same keys; others would have nothing but a tile in common.
    pub fn new(p: &AttentionParams, rows: usize, alike: usize, workers: usize) -> Self {
        let group = (p.heads / p.kv_heads) as usize;
        let most = group.min(TILE);
        let cut = |tile_heads: usize| {
            let tile_rows = (TILE / tile_heads).clamp(1, alike.max(1));
            let (row_tiles, head_tiles) = (rows.div_ceil(tile_rows), group.div_ceil(tile_heads));
            Cut { tile_rows, tile_heads, row_tiles, head_tiles }
        };
        // What the busiest worker does: reading keys and values costs about as much as one query.
        let cost = |c: &Cut| {
            let units = c.row_tiles * c.head_tiles * p.kv_heads as usize;
            units.div_ceil(workers) * (c.tile_rows * c.tile_heads + 1)
        };
        let mut best = cut(most);
        for tile_heads in (1..most).rev() {
            let other = cut(tile_heads);
            if cost(&other) < cost(&best) {
                best = other;
            }
        }
        best
    }
}

/// Places from which on a row's keys and values are split among the workers.
pub const LONG: usize = 512;

/// The positions of a row that this worker takes of those it sees: whole blocks. What a row gives does not depend on the
/// others of its step, so whether it is split does not either.
fn positions(sees: Range<usize>, share: Share) -> Range<usize> {
    let (first, end) = (sees.start / KV_BLOCK, sees.end.div_ceil(KV_BLOCK));
    let at = |worker: usize| (first + (end - first) * worker / share.count) * KV_BLOCK;
    at(share.index).max(sees.start)..at(share.index + 1).min(sees.end)
}

/// `y = softmax(cap(scale * q · Kᵀ) + mask) · V` per head.
///
/// Rows that see much are split among the workers by position, and their partial softmaxes are merged at the end. Else
/// units of rows and heads go round the workers, not in runs, because later rows see more.
#[inline(always)]
unsafe fn body<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    let p = record.params::<AttentionParams>();
    let reading = Reading::of(p);
    let (count, heads, d) = (context.count(record), p.heads as usize, p.head_dim as usize);
    let long = |row: usize| share.count > 1 && sees(p, context.row_vars(row)).len() >= LONG;
    // As many rows at a time as the scratch has room for partial softmaxes of.
    let most = (SCRATCH_BYTES - Tile::bytes(d)) / Partial::bytes(heads, d);
    for start in (0..count).step_by(most) {
        let rows = start..count.min(start + most);
        let any_long = rows.clone().any(long);
        // SAFETY: the caller's promise; the partial softmaxes of a round fit. Nobody reads it before all have met, or
        // writes over it before they have met again.
        unsafe {
            units(s, record, context, share, reading, (rows.clone(), any_long));
            if any_long {
                context.meet(share);
                for unit in share.of(rows.len() * heads, 1) {
                    let row = start + unit / heads;
                    if long(row) {
                        let result = s.call(Merge { context, share, d, unit });
                        let part = (heads * d, unit % heads * d, d);
                        write_part(s, record, context, (attention::Y, row), part, result);
                    }
                }
                context.meet(share);
            }
        }
    }
}

/// Rows of every worker from which on they are shared by rows.
const ROWS_EACH: usize = 8;

/// Goes through the units of some rows: all of them where a row is long, else those that are this worker's.
///
/// # Safety
/// As [`super::Kernel`]; their partial softmaxes fit the scratch.
#[inline(always)]
unsafe fn units<S: Simd>(
    s: S,
    record: &Record,
    context: &Context<'_>,
    share: Share,
    reading: Reading<S>,
    (all, any_long): (Range<usize>, bool),
) {
    let p = record.params::<AttentionParams>();
    let texts = 1 + all.clone().skip(1).filter(|row| !see_alike(record, context, row - 1, *row)).count();
    let cut = Cut::new(p, all.len(), all.len().div_ceil(texts), if any_long { 1 } else { share.count });
    let group = (p.heads / p.kv_heads) as usize;
    let mine = if any_long { None } else { share.kv_heads(p.kv_heads as usize) };
    let whole = mine.is_some();
    let kv_heads = mine.unwrap_or(0..p.kv_heads as usize);
    let units = cut.row_tiles * kv_heads.len() * cut.head_tiles;
    let split = |unit: usize| {
        let (row_tile, rest) = (unit / (kv_heads.len() * cut.head_tiles), unit % (kv_heads.len() * cut.head_tiles));
        (all.start + row_tile * cut.tile_rows, kv_heads.start + rest / cut.head_tiles, rest % cut.head_tiles)
    };
    // SAFETY: the scratch has `Tile::bytes(d)` (see `serves`).
    let mut tile = unsafe { Tile::new(context.scratch(share.index), p.head_dim as usize) };
    let plain = |row: usize| row::is_plain(p, context.row_vars(row));
    // KV heads that do not divide stay together where there are enough rows.
    let by_rows = !any_long && all.len() >= ROWS_EACH * share.count;
    if reading.direct && (whole || by_rows) && texts == all.len() && group <= TILE && all.clone().all(plain) {
        let mine = if whole { 0..all.len() } else { share.of(all.len(), 1) };
        let rows = all.start + mine.start..all.start + mine.end;
        // SAFETY: the caller's promise.
        return unsafe { row::attend_rows(s, record, context, reading, &mut tile, (rows, kv_heads)) };
    }
    let (first, step) = if any_long || whole { (0, 1) } else { (share.index, share.count) };
    let mut next_span = NextSpan::NONE;
    let mut after = split(first);
    for unit in (first..units).step_by(step) {
        let (mut row, kv_head, head_tile) = after;
        after = split(unit + step);
        let first = kv_head * group + head_tile * cut.tile_heads;
        let heads = cut.tile_heads.min(kv_head * group + group - first);
        let end = all.end.min(row + cut.tile_rows);
        while row < end {
            // Rows of one sequence at a time: only they see the same keys.
            let mut rows = 1;
            while row + rows < end && see_alike(record, context, row, row + rows) {
                rows += 1;
            }
            let next = match row + rows < end {
                true => Some((row + rows, kv_head)),
                false => (unit + step < units).then_some((after.0, after.1)),
            };
            let mine = whole || unit % share.count == share.index;
            let part = Unit { rows: row..row + rows, first, heads, kv_head, mine, from: all.start };
            // SAFETY: the caller's promise; rows and heads are the record's, and a tile's worth.
            unsafe { attend(s, record, context, share, reading, &mut tile, part, (&mut next_span, next)) }
            row += rows;
        }
    }
}

/// What one tile is of: rows of one sequence times heads of one KV head.
struct Unit {
    rows: Range<usize>,
    first: usize,
    heads: usize,
    kv_head: usize,
    /// Whether rows that are not split are this worker's.
    mine: bool,
    /// The row from which partial softmaxes are counted.
    from: usize,
}

/// Whether two rows see the same keys: rows of one sequence, and rows of forks that share what an encoder wrote.
fn see_alike(record: &Record, context: &Context<'_>, a: usize, b: usize) -> bool {
    let p = record.params::<AttentionParams>();
    let (a, b) = (context.row_vars(a), context.row_vars(b));
    if a.sequence == b.sequence || record.args[attention::KV].is_none() || p.sees != Sees::All as u32 {
        return a.sequence == b.sequence;
    }
    // Blocks that are written all at once are shared all or none: the first tells.
    let first = |sequence| context.kv_block(&p.kv, context.operand(record, attention::KV), sequence, 0);
    a.length == b.length && first(a.sequence).is_some_and(|block| first(b.sequence) == Some(block))
}

/// The first span of a row, found while the tile before it is at work: most often it is all that the next tile reads, and the
/// KV heads of a row have it in common.
struct NextSpan {
    row: usize,
    positions: Range<usize>,
    span: Span,
}

impl NextSpan {
    const NONE: NextSpan = NextSpan { row: usize::MAX, positions: 0..0, span: Span::NONE };

    fn of(record: &Record, context: &Context<'_>, row: usize, together: usize) -> Self {
        let positions = sees(record.params::<AttentionParams>(), context.row_vars(row));
        Self { row, positions: positions.clone(), span: span(record, context, row, positions, together) }
    }
}

/// Prefetches the queries of a row that share a KV head.
fn prefetch_queries(record: &Record, context: &Context<'_>, row: usize, kv_head: usize) {
    let p = record.params::<AttentionParams>();
    let bytes = (p.heads / p.kv_heads * p.head_dim) as usize * 4;
    let queries = context.row(record, attention::Q, row).wrapping_add(kv_head * bytes);
    (0..bytes).step_by(64).for_each(|at| prefetch(queries.wrapping_add(at)));
}

/// Where the first of some positions of a row's text are, up to the end of a span, which is prefetched in so many streams.
fn span(record: &Record, context: &Context<'_>, row: usize, positions: Range<usize>, together: usize) -> Span {
    let p = record.params::<AttentionParams>();
    let vars = context.row_vars(row);
    let mut blocks = [KeyBlock::NONE; SPAN_BLOCKS];
    let of_step = record.args[attention::KV].is_none();
    let first = positions.start / SPAN * SPAN_BLOCKS;
    let last = positions.end.div_ceil(KV_BLOCK).min(first + SPAN_BLOCKS);
    for index in positions.start / KV_BLOCK..last {
        let keys = if of_step {
            Some(context.row(record, attention::K, row - vars.position as usize + index * KV_BLOCK))
        } else {
            context.kv_block(&p.kv, context.operand(record, attention::KV), vars.sequence, index)
        };
        if let Some(keys) = keys {
            let [from, to] =
                [positions.start, positions.end].map(|place| place.saturating_sub(index * KV_BLOCK).min(KV_BLOCK));
            blocks[index - first] = KeyBlock { keys, from, to, whole: !of_step };
        }
    }
    let values = match of_step {
        // Two buffers of the step, with rows as long.
        true => context.operand(record, attention::V).addr().wrapping_sub(context.operand(record, attention::K).addr()),
        false => p.kv.value_offset as usize,
    };
    Span::new(blocks, values as isize, p.kv.row_bytes as usize, together)
}

/// The positions of its sequence that a row sees, but for those that are hidden from it.
fn sees(p: &AttentionParams, row: RowVars) -> Range<usize> {
    let (position, window) = (row.position as usize, p.window as usize);
    let (end, reach) = match p.sees == Sees::All as u32 {
        true => (row.length as usize, window / 2),
        false => (row.place() + 1, window.saturating_sub(1)),
    };
    let near = position + row.ahead as usize + reach + 1;
    if window == 0 { 0..end } else { position.saturating_sub(reach)..end.min(near) }
}

/// One tile.
///
/// # Safety
/// As [`super::Kernel`]; `rows * heads <= TILE`, all of them the record's; their partial softmaxes fit the scratch.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "all of one step")]
unsafe fn attend<S: Simd>(
    s: S,
    record: &Record,
    context: &Context<'_>,
    share: Share,
    reading: Reading<S>,
    tile: &mut Tile,
    part: Unit,
    (next_span, next): (&mut NextSpan, Option<(usize, usize)>),
) {
    let p = record.params::<AttentionParams>();
    let d = p.head_dim as usize;
    let Unit { ref rows, first, heads, kv_head, mine, from } = part;
    tile.begin(rows.len() * heads);
    let mut split = [false; TILE];
    for (i, row) in rows.clone().enumerate() {
        let vars = context.row_vars(row);
        let sees = sees(p, vars);
        split[i] = share.count > 1 && sees.len() >= LONG;
        let takes = match split[i] {
            true => positions(sees.clone(), share),
            false if mine => sees.clone(),
            false => 0..0,
        };
        // What is hidden is in the last block.
        let hidden = if takes.end == sees.end { vars.hidden_places() } else { 0 };
        let q = context.row(record, attention::Q, row).cast::<f32>().cast_const();
        for j in 0..heads {
            // SAFETY: head `first + j` of a q row has `d` values.
            unsafe { tile.set_query(s, i * heads + j, q.add((first + j) * d), p.scale, takes.clone(), hidden) }
        }
    }
    let positions = tile.span();
    let head = kv_head * p.kv.head_bytes as usize;
    let mut here = match next_span.row == rows.start && next_span.positions == positions {
        true => next_span.span.clone(),
        false => span(record, context, rows.start, positions.clone(), reading.streams),
    };
    let next_head = match next {
        Some((row, kv_head)) => {
            prefetch_queries(record, context, row, kv_head);
            if next_span.row != row {
                *next_span = NextSpan::of(record, context, row, reading.streams);
            }
            kv_head * p.kv.head_bytes as usize
        }
        None => {
            *next_span = NextSpan::NONE;
            0
        }
    };
    let mut at = positions.start;
    while at < positions.end {
        let base = at / SPAN * SPAN;
        at = base + SPAN;
        let more = (at < positions.end).then(|| span(record, context, rows.start, at..positions.end, reading.streams));
        let after = more.as_ref().map_or((&next_span.span, next_head), |more| (more, head));
        // SAFETY: `kv_block` gave blocks of the pool, and `ready` has seen that this layer's heads lie inside one. Rows of
        // the step that a query sees are those of its sequence (see `check_texts`), and `ready` has seen that they have all
        // heads.
        unsafe { tile.visit(s, p, reading, base, (&here, head), after) }
        match more {
            Some(more) => here = more,
            None => break,
        }
    }
    for (i, row) in rows.clone().enumerate() {
        for j in 0..heads {
            let part = (p.heads as usize * d, (first + j) * d, d);
            // SAFETY: a y row has all heads of `d` values; in another form than f32 a head is whole blocks. The partial
            // softmax of a row is one of as many as fit.
            unsafe {
                if split[i] {
                    let unit = (row - from) * p.heads as usize + first + j;
                    Partial::of(context, share.index, d, unit).keep(tile, i * heads + j);
                } else if mine {
                    let result = tile.result(s, i * heads + j);
                    write_part(s, record, context, (attention::Y, row), part, result);
                }
            }
        }
    }
}
