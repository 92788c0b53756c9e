//! The parameters of every op.

use super::Makes;
use bytemuck::{Pod, Zeroable};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct EmbedParams {
    pub dim: u32,
    /// Rows of the table.
    pub vocab: u32,
    pub dtype: u32,
    pub scale: f32,
    /// Bytes from one table row to the next in the data plane, and in each side plane.
    pub row_bytes: u32,
    pub side_bytes: u32,
    /// [`super::Index`].
    pub index: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct RopeAnglesParams {
    pub pairs: u32,
    pub magnitude: f32,
    /// The magnitude grows with the position; see [`Self::magnitude_at`]. 0: it does not.
    pub slope: f32,
    pub period: f32,
}

impl RopeAnglesParams {
    pub fn magnitude_at(&self, position: u32) -> f32 {
        match self.slope {
            0.0 => self.magnitude,
            slope => self.magnitude * (1.0 + slope * (1.0 + (position as f32 / self.period).floor()).ln()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct NormParams {
    pub dim: u32,
    pub kind: u32,
    pub eps: f32,
    pub scale: f32,
}

/// `MatMul` and `MatMulGated`; both weights of the latter share these.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct MatMulParams {
    /// Output width: rows of W.
    pub n: u32,
    /// Input width: columns of W.
    pub k: u32,
    pub dtype: u32,
    pub row_bytes: u32,
    pub side_bytes: u32,
    pub activation: u32,
    pub scale: f32,
    /// 0: no cap; else `cap * tanh(v / cap)`.
    pub soft_cap: f32,
}

impl MatMulParams {
    /// Whether the result is the product, with its bias: nothing is done to it.
    pub fn is_plain(&self) -> bool {
        self.activation == 0 && self.scale == 1.0 && self.soft_cap == 0.0
    }
}

/// `GatedActivation`, `Add`, `Convert`, `GatherRows`, `MeanRows`: element-wise over rows of `dim`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct ElementParams {
    pub dim: u32,
    pub activation: u32,
    pub scale: f32,
}

/// Where a layer's keys and values lie inside the blocks of its group:
/// `base + block * block_bytes + layer_offset (+ value_offset) + kv_head * head_bytes + (position % KV_BLOCK) * row_bytes`.
/// Where keys and values are rows of the step, they are f32, `row_bytes` apart, and there are no blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct KvParams {
    pub group: u32,
    pub dtype: u32,
    pub block_bytes: u32,
    pub layer_offset: u32,
    pub value_offset: u32,
    pub head_bytes: u32,
    pub row_bytes: u32,
}

impl KvParams {
    /// The bytes of a block that keys and values of so many heads take.
    pub fn both(&self, kv_heads: u32) -> Range<usize> {
        self.keys(kv_heads).start..self.values(kv_heads).end
    }

    /// Those of keys alone; values are `value_offset` further.
    pub fn keys(&self, kv_heads: u32) -> Range<usize> {
        let start = self.layer_offset as usize;
        start..start + kv_heads as usize * self.head_bytes as usize
    }

    pub fn values(&self, kv_heads: u32) -> Range<usize> {
        let (keys, offset) = (self.keys(kv_heads), self.value_offset as usize);
        keys.start + offset..keys.end + offset
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct HeadsParams {
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    /// Pairs that rotate; the values after `2 * pairs` stay.
    pub pairs: u32,
    pub style: u32,
    pub eps: f32,
    pub kv: KvParams,
}

impl HeadsParams {
    /// What happens to each of so many heads of queries or keys.
    pub fn each(&self, heads: u32) -> HeadParams {
        let Self { head_dim, pairs, style, eps, .. } = *self;
        HeadParams { heads, head_dim, pairs, style, eps }
    }
}

/// `HeadNormRope`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct HeadParams {
    pub heads: u32,
    pub head_dim: u32,
    /// As in [`HeadsParams`].
    pub pairs: u32,
    pub style: u32,
    pub eps: f32,
}

/// The parameters of a product come first, as in `MatMul`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct MatMulHeadsParams {
    pub product: MatMulParams,
    pub head: HeadParams,
    /// [`Makes`].
    pub makes: u32,
    pub kv: KvParams,
}

impl MatMulHeadsParams {
    /// The bytes of a block that keys or values are written to.
    pub fn written(&self) -> Range<usize> {
        match self.makes == Makes::Keys as u32 {
            true => self.kv.keys(self.head.heads),
            false => self.kv.values(self.head.heads),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct AttentionParams {
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub scale: f32,
    pub soft_cap: f32,
    /// 0: none. Else a row that sees the past sees this many positions, itself included; one that
    /// sees all, `window / 2` to either side.
    pub window: u32,
    pub kv: KvParams,
    /// [`super::Sees`].
    pub sees: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct UnfoldParams {
    pub channels: u32,
    pub taps: u32,
    pub stride: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct AttentionWeightsParams {
    pub attention: AttentionParams,
    pub head: u32,
    pub positions: u32,
    /// First value of the result in its row.
    pub at: u32,
}

/// `Suppress`, `Sample` and `Advance`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct TokenParams {
    /// Logits of a row.
    pub n: u32,
}

/// The parameters of an op; the variant follows from its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Params {
    Embed(EmbedParams),
    RopeAngles(RopeAnglesParams),
    Norm(NormParams),
    MatMul(MatMulParams),
    MatMulHeads(MatMulHeadsParams),
    Element(ElementParams),
    Heads(HeadsParams),
    Head(HeadParams),
    Attention(AttentionParams),
    Unfold(UnfoldParams),
    AttentionWeights(AttentionWeightsParams),
    Token(TokenParams),
}

impl Params {
    /// The group whose KV cache the op uses, and what it uses of a block.
    pub fn kv(&self) -> Option<(u32, Range<usize>)> {
        Some(match self {
            Params::Heads(p) => (p.kv.group, p.kv.both(p.kv_heads)),
            Params::Attention(p) => (p.kv.group, p.kv.both(p.kv_heads)),
            Params::AttentionWeights(p) => (p.attention.kv.group, p.attention.kv.both(p.attention.kv_heads)),
            Params::MatMulHeads(p) => (p.kv.group, p.written()),
            _ => return None,
        })
    }
}
