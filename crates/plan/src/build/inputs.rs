//! The beginning of a program: what its rows are, and the angles by which their positions turn heads.

use super::Builder;
use crate::op::*;
use crate::program::*;
use akunu_arch::{self as arch, Role};

/// What turns the heads of a layer.
#[derive(Clone, Copy)]
pub(super) struct Angles {
    pub keys: BufferId,
    pub queries: BufferId,
}

impl Builder<'_> {
    /// The embeddings of tokens, and of positions and segments where the model has tables of them, summed and normalized.
    pub(super) fn embed_all(&mut self, tokens: WeightId) -> BufferId {
        let mut hidden = self.embed(tokens, Index::Token, self.model.config.embedding_scale);
        for (role, name, index) in
            [(Role::Positions, "position_embd", Index::Position), (Role::Segments, "segment_embd", Index::Segment)]
        {
            let Some(slice) = self.model.weights.global(role) else { continue };
            let table = self.weight(name, slice);
            let more = self.embed(table, index, 1.0);
            hidden = self.add(hidden, more, 1.0);
        }
        let norm = self.model.weights.global(Role::EmbeddingNorm);
        self.maybe_norm(Per::Row, norm, self.model.weights.global(Role::EmbeddingNormBias), hidden)
    }

    pub(super) fn embed(&mut self, table: WeightId, index: Index, scale: f32) -> BufferId {
        let w = self.program.weight(table);
        let (rows, dim) = (w.rows, w.cols);
        let params = EmbedParams {
            dim: dim as u32,
            vocab: rows as u32,
            dtype: w.dtype.index().into(),
            scale,
            row_bytes: w.row_bytes() as u32,
            side_bytes: w.side_bytes() as u32,
            index: index as u32,
        };
        let y = self.buffer("hidden", Per::Row, dim);
        self.op(OpKind::Embed, Per::Row, &[Arg::Weight(table), Arg::Buffer(y)], Params::Embed(params));
        y
    }

    /// What a rope turns heads by. Where queries grow with their position, their own angles do that: attention is linear in them.
    pub(super) fn angles(&mut self, rope: &arch::Rope) -> Angles {
        let keys = self.rope_angles(rope, None);
        let growth = self.model.config.query_growth;
        Angles { keys, queries: growth.map_or(keys, |growth| self.rope_angles(rope, Some(growth))) }
    }

    fn rope_angles(&mut self, rope: &arch::Rope, growth: Option<arch::QueryGrowth>) -> BufferId {
        let frequencies = self.constant(&rope.frequencies);
        let y = self.buffer("angles", Per::Row, rope.frequencies.len() * 2);
        let arch::QueryGrowth { slope, period } = growth.unwrap_or(arch::QueryGrowth { slope: 0.0, period: 1.0 });
        let (pairs, magnitude) = (rope.frequencies.len() as u32, rope.magnitude);
        let params = RopeAnglesParams { pairs, magnitude, slope, period };
        self.op(OpKind::RopeAngles, Per::Row, &[Arg::Vector(frequencies), Arg::Buffer(y)], Params::RopeAngles(params));
        y
    }
}
