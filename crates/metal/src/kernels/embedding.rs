//! Rows of embedding tables.

use super::common::{THREADS, stride};
use super::weights::{FIRST, Weight, constants};
use super::{Category, Plain, Target};
use crate::dispatch::{Dispatch, Extent};
use crate::params::params;
use crate::shaders::sources;
use akunu_plan::op::{EmbedParams, OpKind, slots};
use akunu_plan::record::{Addr, Record, Region, Y_LAYOUT};
use std::mem::offset_of;

params! {
    /// `embedding_lookup`
    EmbeddingParams {
        rows: u32,
        dim: u32,
        /// Rows of the table.
        vocab: u32,
        /// Which step variable picks one.
        index: u32,
        y_stride: u32,
        row_bytes: u32,
        side_bytes: u32,
        scale: f32,
    }
}

static LOOKUP: Plain = Plain {
    name: "embedding_lookup",
    source: "embedding/embedding.metal",
    op: Some(OpKind::Embed),
    serves: |r, _| r.flags & Y_LAYOUT == 0,
    encode: lookup,
    geometry: "256 threads, 16 values each; (dim / 4096, rows)",
    chosen: "always, by format",
};

pub(super) const CATEGORY: Category = Category {
    name: "embedding",
    sources: sources!["embedding/embedding.metal"],
    rows: || LOOKUP.rows().collect(),
    layouts,
};

fn lookup(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::embed::{TABLE, Y};
    let p = record.params::<EmbedParams>();
    let params = EmbeddingParams {
        rows: 0,
        dim: p.dim,
        vocab: p.vocab,
        index: p.index,
        y_stride: stride(record, Y),
        row_bytes: p.row_bytes,
        side_bytes: p.side_bytes,
        scale: p.scale,
    };
    let dispatch = Dispatch::new(record, &*target.row.name)
        .constants(constants(p.dtype, p.dim))
        .operand(2, record, Y)
        .params(&params)
        .rows_at(offset_of!(EmbeddingParams, rows))
        .region(6, Addr::new(Region::STEPS, 0))
        .grid(Extent::Fixed(p.dim.div_ceil(16 * THREADS)), Extent::Rows(1), Extent::Fixed(1))
        .threads([THREADS, 1, 1]);
    vec![Weight::of(record, TABLE, 0, p.vocab, p.row_bytes, p.side_bytes).bind(dispatch, FIRST)]
}
