//! Speech: an encoder over frames of sound, and the attention of a decoder to what it gave.

use super::{Builder, Output, activation};
use crate::op::*;
use crate::program::{Arg, BufferId};
use akunu_arch::{Model, Role};

impl<'a> Builder<'a> {
    /// From frames of sound to what they mean, and to the keys and values of it that every layer of the decoder sees.
    pub(super) fn encode(&mut self, encoder: &'a Model) {
        let decoder = std::mem::replace(&mut self.model, encoder);
        let frames = self.buffer("frames", Per::Frame, encoder.config.mels);
        self.program.input = Some(frames);
        let table = self.weight("position_embd", self.global(Role::Positions));
        let positions = self.embed(table, Index::Position, 1.0);
        let x = self.convolve(Per::Frame, 1, Role::Conv1, Role::Conv1Bias, frames);
        let x = self.convolve(Per::Row, 2, Role::Conv2, Role::Conv2Bias, x);
        let hidden = self.add(positions, x, 1.0);
        let hidden = self.layers(&[], hidden);
        let encoded = self.output_norm(Per::Row, hidden);
        self.program.logits = encoded;
        self.model = decoder;
        let c = &decoder.config;
        for l in 0..c.layers.len() {
            self.layer = Some(l as u32);
            let k = self.project("k", l, Role::CrossK, None, encoded);
            let v = self.project("v", l, Role::CrossV, Some(Role::CrossVBias), encoded);
            let kv = self.cross_params(l);
            let (kv_heads, head_dim) = (c.kv_heads as u32, c.head_dim as u32);
            let params = HeadsParams { heads: 0, kv_heads, head_dim, pairs: 0, style: ROPE_NONE, eps: c.eps, kv };
            let cache = Arg::Kv(kv.group as u8);
            let args = [Arg::None, Arg::Buffer(k), Arg::Buffer(v), Arg::None, Arg::None, Arg::None, cache];
            self.op(OpKind::HeadNormRopeKvWrite, Per::Row, &args, Params::Heads(params));
        }
        self.layer = None;
    }

    /// A convolution of three taps and the activation after it: its weight is a matrix over unfolded frames.
    fn convolve(&mut self, per: Per, stride: u32, weight: Role, bias: Role, x: BufferId) -> BufferId {
        let slice = self.global(weight);
        let channels = self.program.buffer(x).width;
        let unfolded = self.buffer("unfolded", per, slice.cols);
        let params = UnfoldParams { channels: channels as u32, taps: (slice.cols / channels) as u32, stride };
        self.op(OpKind::Unfold, per, &[Arg::Buffer(x), Arg::Buffer(unfolded)], Params::Unfold(params));
        let w = self.weight("conv", slice);
        let bias = self.model.weights.global(bias).map(|s| self.vector(s));
        let y = self.buffer("convolved", per, slice.rows);
        self.matmul(per, unfolded, y, w, bias);
        let (activation, _) = activation(self.model.descriptor.activation);
        self.last_product(|p| p.activation = activation);
        y
    }

    /// Attention to what the encoder gave, whole.
    pub(super) fn cross_attention(&mut self, l: usize, hidden: BufferId) -> BufferId {
        let c = &self.model.config;
        let x = self.pre_norm(l, Role::CrossNorm, Role::CrossNormBias, hidden);
        let q = self.project("q", l, Role::CrossQ, Some(Role::CrossQBias), x);
        let y = self.buffer("attention", Per::Row, c.heads * c.head_dim);
        let kv = self.cross_params(l);
        let cache = Arg::Kv(kv.group as u8);
        let params = AttentionParams {
            heads: c.heads as u32,
            kv_heads: c.kv_heads as u32,
            head_dim: c.head_dim as u32,
            scale: c.attention_scale,
            soft_cap: 0.0,
            window: 0,
            kv,
            sees: Sees::All as u32,
        };
        self.op(OpKind::Attention, Per::Row, &[Arg::Buffer(q), Arg::Buffer(y), cache], Params::Attention(params));
        if self.output == Output::Timing {
            self.time(l, q, params);
        }
        self.project("mixed", l, Role::CrossOut, Some(Role::CrossOutBias), y)
    }

    /// What the timing heads of a layer look at, each into its part of one buffer.
    fn time(&mut self, l: usize, q: BufferId, attention: AttentionParams) {
        let heads = &self.model.config.timing_heads;
        let positions = self.program.kv_groups.iter().find_map(|g| g.encoded).unwrap_or(0);
        for (i, (_, head)) in heads.iter().enumerate().filter(|(_, (layer, _))| *layer == l) {
            let y = match self.timing {
                Some(y) => y,
                None => self.buffer("timing", Per::Row, heads.len() * positions),
            };
            self.timing = Some(y);
            let (head, positions, at) = (*head as u32, positions as u32, (i * positions) as u32);
            let params = AttentionWeightsParams { attention, head, positions, at };
            let args = [Arg::Buffer(q), Arg::Buffer(y), Arg::Kv(attention.kv.group as u8)];
            self.op(OpKind::AttentionWeights, Per::Row, &args, Params::AttentionWeights(params));
        }
    }
}
