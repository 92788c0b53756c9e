//! The builder: a model's step as plain ops, one per idea, each into a buffer of its own.
//!
//! It knows no architecture: it walks the weights that are there. What is faster together is put
//! together afterwards, by `fuse`.

use crate::op::*;
use crate::program::*;
use crate::record::{Addr, Region};
use crate::steps::KV_BLOCK;
use akunu_arch::{self as arch, LayerConfig, Model, Role, TensorSlice};
use akunu_dtype::{DType, Planes};
use akunu_formats::{ModelFile, Span};

/// What to build a program for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    pub max_rows: usize,
    pub max_outputs: usize,
    /// Multiply quantized weights with int8 activations instead of f32 ones.
    pub int8_activations: bool,
    pub kv: DType,
}

#[derive(Debug, thiserror::Error, PartialEq)]
pub enum BuildError {
    #[error("not supported: a {kv} KV cache with heads of {head_dim} values (a multiple of {block} is needed)")]
    KvHead { kv: DType, head_dim: usize, block: usize },
    #[error("not supported: {what} of {value}, at most {max}")]
    TooLarge { what: &'static str, value: usize, max: usize },
    #[error(transparent)]
    Invalid(#[from] crate::verify::Invalid),
}

/// Builds, fuses, places and verifies the program of a model.
pub fn build(model: &Model, file: &ModelFile, options: BuildOptions) -> Result<Program, BuildError> {
    let mut program = plain(model, file, options)?;
    crate::fuse::fuse(&mut program, options.int8_activations);
    crate::memory::place(&mut program);
    crate::verify::verify(&program)?;
    Ok(program)
}

/// The ops before fusion, every result in a buffer of its own, not yet placed in memory.
pub fn plain(model: &Model, file: &ModelFile, options: BuildOptions) -> Result<Program, BuildError> {
    let mut b = Builder::new(model, file, options)?;
    b.step();
    Ok(b.program)
}

struct Builder<'a> {
    model: &'a Model,
    file: &'a ModelFile,
    program: Program,
    kv: DType,
    layer: Option<u32>,
}

impl<'a> Builder<'a> {
    fn new(model: &'a Model, file: &'a ModelFile, options: BuildOptions) -> Result<Self, BuildError> {
        let limit = |what, value, max| match value > max {
            true => Err(BuildError::TooLarge { what, value, max }),
            false => Ok(()),
        };
        limit("a number of files", file.files(), Region::MAX_FILES)?;
        let kv_groups = kv_groups(model, options.kv)?;
        limit("a number of different windows", kv_groups.len(), Region::MAX_KV_GROUPS)?;
        for group in &kv_groups {
            limit("a KV block's bytes", group.block_bytes, u32::MAX as usize)?;
        }
        let program = Program {
            max_rows: options.max_rows,
            max_outputs: options.max_outputs,
            buffers: Vec::new(),
            weights: Vec::new(),
            constants: Vec::new(),
            kv_groups,
            ops: Vec::new(),
            logits: BufferId(0),
            arena_bytes: 0,
        };
        Ok(Self { model, file, program, kv: options.kv, layer: None })
    }

    fn step(&mut self) {
        let c = &self.model.config;
        let table = self.weight("token_embd", self.global(Role::TokenEmbedding));
        let mut hidden = self.embed(table);
        let angles: Vec<BufferId> = c.ropes.iter().map(|r| self.rope_angles(r)).collect();
        for (l, layer) in c.layers.iter().enumerate() {
            self.layer = Some(l as u32);
            let mixed = self.attention(l, layer, &angles, hidden);
            hidden = self.sublayer_end(l, Role::AttnPostNorm, hidden, mixed);
            let mixed = self.mlp(l, hidden);
            hidden = self.sublayer_end(l, Role::FfnPostNorm, hidden, mixed);
        }
        self.layer = None;
        self.outputs(hidden, table);
    }

    fn embed(&mut self, table: WeightId) -> BufferId {
        let c = &self.model.config;
        let y = self.buffer("hidden", Per::Row, c.dim);
        let w = self.program.weight(table);
        let params = EmbedParams {
            dim: c.dim as u32,
            vocab: c.vocab as u32,
            dtype: w.dtype.index().into(),
            scale: c.embedding_scale,
            row_bytes: w.row_bytes() as u32,
            side_bytes: w.side_bytes() as u32,
        };
        self.op(OpKind::Embed, Per::Row, &[Arg::Weight(table), Arg::Buffer(y)], Params::Embed(params));
        y
    }

    fn rope_angles(&mut self, rope: &arch::Rope) -> BufferId {
        let frequencies = self.constant(&rope.frequencies);
        let y = self.buffer("angles", Per::Row, rope.frequencies.len() * 2);
        let params = RopeAnglesParams { pairs: rope.frequencies.len() as u32, magnitude: rope.magnitude };
        self.op(OpKind::RopeAngles, Per::Row, &[Arg::Vector(frequencies), Arg::Buffer(y)], Params::RopeAngles(params));
        y
    }

    fn attention(&mut self, l: usize, layer: &LayerConfig, angles: &[BufferId], hidden: BufferId) -> BufferId {
        let c = &self.model.config;
        let x = self.pre_norm(l, Role::AttnNorm, Role::AttnNormBias, hidden);
        let mut q = self.project("q", l, Role::Q, Some(Role::QBias), x);
        let mut k = self.project("k", l, Role::K, Some(Role::KBias), x);
        let v = self.project("v", l, Role::V, Some(Role::VBias), x);
        let mut norms = [Arg::None; 2];
        for (i, (role, x)) in [(Role::QNorm, &mut q), (Role::KNorm, &mut k)].into_iter().enumerate() {
            let Some(slice) = self.model.weights.layer(role, l) else { continue };
            let weight = self.norm_weight(slice);
            if slice.cols == c.head_dim {
                norms[i] = Arg::Vector(weight);
            } else {
                *x = self.norm("normed", Per::Row, *x, weight, None);
            }
        }
        let rope = layer.rope.map(|r| angles[r]);
        let kv = self.kv_params(l, layer);
        let style = match (rope, self.model.rope_style) {
            (None, _) => ROPE_NONE,
            (_, arch::RopeStyle::Interleaved) => ROPE_INTERLEAVED,
            (_, arch::RopeStyle::SplitHalf) => ROPE_SPLIT_HALF,
        };
        let heads = HeadsParams {
            heads: c.heads as u32,
            kv_heads: c.kv_heads as u32,
            head_dim: c.head_dim as u32,
            pairs: if rope.is_some() { c.rotated as u32 / 2 } else { 0 },
            style,
            eps: c.eps,
            kv,
        };
        let cache = Arg::Kv(kv.group as u8);
        let args = [
            Arg::Buffer(q),
            Arg::Buffer(k),
            Arg::Buffer(v),
            rope.map_or(Arg::None, Arg::Buffer),
            norms[0],
            norms[1],
            cache,
        ];
        self.op(OpKind::HeadNormRopeKvWrite, Per::Row, &args, Params::Heads(heads));
        let y = self.buffer("attention", Per::Row, c.heads * c.head_dim);
        let params = AttentionParams {
            heads: c.heads as u32,
            kv_heads: c.kv_heads as u32,
            head_dim: c.head_dim as u32,
            scale: c.attention_scale,
            soft_cap: c.attention_cap,
            window: layer.window.unwrap_or(0) as u32,
            kv,
        };
        let args = [Arg::Buffer(q), Arg::Buffer(y), cache];
        self.op(OpKind::Attention, Per::Row, &args, Params::Attention(params));
        self.project("mixed", l, Role::AttnOut, Some(Role::AttnOutBias), y)
    }

    fn mlp(&mut self, l: usize, hidden: BufferId) -> BufferId {
        let c = &self.model.config;
        let x = self.pre_norm(l, Role::FfnNorm, Role::FfnNormBias, hidden);
        let activation = match self.model.descriptor.activation {
            arch::Activation::Silu => Activation::Silu,
            arch::Activation::GeluTanh => Activation::GeluTanh,
            arch::Activation::GeluErf => Activation::GeluErf,
        } as u32;
        let inner = if self.model.weights.layer(Role::Gate, l).is_some() {
            let gate = self.project("gate", l, Role::Gate, None, x);
            let up = self.project("up", l, Role::Up, Some(Role::UpBias), x);
            let y = self.buffer("inner", Per::Row, c.ffn);
            let params = ElementParams { dim: c.ffn as u32, activation, scale: 1.0 };
            let args = [Arg::Buffer(gate), Arg::Buffer(y), Arg::Buffer(up)];
            self.op(OpKind::GatedActivation, Per::Row, &args, Params::Element(params));
            y
        } else {
            let y = self.project("inner", l, Role::Up, Some(Role::UpBias), x);
            if let Some(Op { params: Params::MatMul(p), .. }) = self.program.ops.last_mut() {
                p.activation = activation;
            }
            y
        };
        self.project("mixed", l, Role::Down, Some(Role::DownBias), inner)
    }

    /// The sublayer's result, normalized where the family does so, added to the residual stream.
    fn sublayer_end(&mut self, l: usize, post_norm: Role, hidden: BufferId, mut mixed: BufferId) -> BufferId {
        let c = &self.model.config;
        if let Some(slice) = self.model.weights.layer(post_norm, l) {
            let weight = self.norm_weight(slice);
            mixed = self.norm("normed", Per::Row, mixed, weight, None);
        }
        let y = self.buffer("hidden", Per::Row, c.dim);
        let params = ElementParams { dim: c.dim as u32, activation: 0, scale: c.residual_scale };
        let args = [Arg::Buffer(hidden), Arg::Buffer(y), Arg::Buffer(mixed)];
        self.op(OpKind::Add, Per::Row, &args, Params::Element(params));
        y
    }

    fn outputs(&mut self, hidden: BufferId, table: WeightId) {
        let c = &self.model.config;
        let picked = self.buffer("picked", Per::Output, c.dim);
        let params = ElementParams { dim: c.dim as u32, activation: 0, scale: 1.0 };
        let args = [Arg::Buffer(hidden), Arg::Buffer(picked)];
        self.op(OpKind::GatherRows, Per::Output, &args, Params::Element(params));
        let weight = self.norm_weight(self.global(Role::OutputNorm));
        let bias = self.model.weights.global(Role::OutputNormBias).map(|s| self.vector(s));
        let x = self.norm("normed", Per::Output, picked, weight, bias);
        let head = match self.model.weights.global(Role::Output) {
            Some(slice) => self.weight("output", slice),
            None => table,
        };
        let logits = self.buffer("logits", Per::Output, c.vocab);
        self.matmul(Per::Output, x, logits, head, None);
        if let Some(Op { params: Params::MatMul(p), .. }) = self.program.ops.last_mut() {
            p.scale = c.logit_scale;
            p.soft_cap = c.final_cap;
        }
        self.program.logits = logits;
        let slices = c.vocab.div_ceil(ARGMAX_SLICE);
        let params = Params::ArgMax(ArgMaxParams { n: c.vocab as u32, slices: slices as u32 });
        let best = self.buffer("best", Per::Output, 2 * slices);
        self.op(OpKind::ArgMax, Per::Output, &[Arg::Buffer(logits), Arg::Buffer(best)], params);
        self.op(OpKind::Advance, Per::Output, &[Arg::Buffer(best)], params);
    }

    fn pre_norm(&mut self, l: usize, weight: Role, bias: Role, hidden: BufferId) -> BufferId {
        let Some(slice) = self.model.weights.layer(weight, l) else { return hidden };
        let weight = self.norm_weight(slice);
        let bias = self.model.weights.layer(bias, l).map(|s| self.vector(s));
        self.norm("normed", Per::Row, hidden, weight, bias)
    }

    fn norm(&mut self, name: &'static str, per: Per, x: BufferId, weight: Vector, bias: Option<Vector>) -> BufferId {
        let dim = self.program.buffer(x).width;
        let y = self.buffer(name, per, dim);
        let kind = match self.model.descriptor.norm {
            arch::Norm::Rms => NORM_RMS,
            arch::Norm::Layer => NORM_LAYER,
        };
        let params = NormParams { dim: dim as u32, kind, eps: self.model.config.eps, scale: 1.0 };
        let args = [Arg::Buffer(x), Arg::Buffer(y), Arg::Vector(weight), bias.map_or(Arg::None, Arg::Vector)];
        self.op(OpKind::Norm, per, &args, Params::Norm(params));
        y
    }

    /// `x` through the layer's weight of a role, with its bias where there is one.
    fn project(&mut self, name: &'static str, l: usize, role: Role, bias: Option<Role>, x: BufferId) -> BufferId {
        // Every role the builder asks for without looking is required by every name map.
        let slice = self.model.weights.layer(role, l).unwrap_or(TensorSlice { tensor: 0, row: 0, rows: 0, cols: 0 });
        let w = self.weight(role_name(role), slice);
        let bias = bias.and_then(|b| self.model.weights.layer(b, l)).map(|s| self.vector(s));
        let y = self.buffer(name, Per::Row, slice.rows);
        self.matmul(Per::Row, x, y, w, bias);
        y
    }

    fn matmul(&mut self, per: Per, x: BufferId, y: BufferId, w: WeightId, bias: Option<Vector>) {
        let weight = self.program.weight(w);
        let params = MatMulParams {
            n: weight.rows as u32,
            k: weight.cols as u32,
            dtype: weight.dtype.index().into(),
            row_bytes: weight.row_bytes() as u32,
            side_bytes: weight.side_bytes() as u32,
            activation: 0,
            scale: 1.0,
            soft_cap: 0.0,
        };
        let args = [Arg::Buffer(x), Arg::Buffer(y), Arg::Weight(w), bias.map_or(Arg::None, Arg::Vector)];
        self.op(OpKind::MatMul, per, &args, Params::MatMul(params));
    }

    fn kv_params(&self, l: usize, layer: &LayerConfig) -> KvParams {
        let c = &self.model.config;
        let groups = &self.program.kv_groups;
        let group = groups.iter().position(|g| g.window == layer.window).unwrap_or(0);
        let before = c.layers[..l].iter().filter(|o| o.window == layer.window).count();
        let row_bytes = self.kv.row_bytes(c.head_dim).unwrap_or(0);
        let value_offset = c.kv_heads * KV_BLOCK * row_bytes;
        KvParams {
            group: group as u32,
            dtype: self.kv.index().into(),
            block_bytes: groups[group].block_bytes as u32,
            layer_offset: (before * 2 * value_offset) as u32,
            value_offset: value_offset as u32,
            head_bytes: (KV_BLOCK * row_bytes) as u32,
            row_bytes: row_bytes as u32,
        }
    }

    fn global(&self, role: Role) -> TensorSlice {
        // As in `project`: required by every name map.
        self.model.weights.global(role).unwrap_or(TensorSlice { tensor: 0, row: 0, rows: 0, cols: 0 })
    }

    fn weight(&mut self, name: &str, slice: TensorSlice) -> WeightId {
        let tensor = &self.file.tensors()[slice.tensor];
        let at = |span: Span, row_bytes: usize| match span.len {
            0 => Addr::NONE,
            _ => Addr::new(Region::file(span.file as u8), span.offset + slice.row * row_bytes),
        };
        let row_bytes = tensor.dtype.row_bytes(slice.cols).unwrap_or(0);
        let side_bytes = tensor.dtype.row_side_bytes(slice.cols);
        self.program.weights.push(Weight {
            name: self.layer.map_or(name.to_string(), |l| format!("{l}.{name}")),
            dtype: tensor.dtype,
            rows: slice.rows,
            cols: slice.cols,
            data: at(tensor.data, row_bytes),
            scales: at(tensor.scales, side_bytes),
            biases: at(tensor.biases, side_bytes),
        });
        WeightId(self.program.weights.len() as u32 - 1)
    }

    fn norm_weight(&mut self, slice: TensorSlice) -> Vector {
        let vector = self.vector(slice);
        let range = vector.offset as usize..(vector.offset + vector.len) as usize;
        for w in &mut self.program.constants[range] {
            *w += self.model.norm_weight_offset;
        }
        vector
    }

    /// A vector of the file as f32 constants: a few kilobytes that every number format may hold.
    fn vector(&mut self, slice: TensorSlice) -> Vector {
        let tensor = &self.file.tensors()[slice.tensor];
        let mut values = vec![0.0; slice.cols];
        let planes: Planes = self.file.planes(tensor);
        (tensor.dtype.format().decode)(planes, &mut values);
        self.constant(&values)
    }

    /// Constants start on cache lines.
    fn constant(&mut self, values: &[f32]) -> Vector {
        let constants = &mut self.program.constants;
        constants.resize(constants.len().next_multiple_of(16), 0.0);
        let offset = constants.len() as u32;
        constants.extend_from_slice(values);
        Vector { offset, len: values.len() as u32 }
    }

    fn buffer(&mut self, name: &'static str, per: Per, width: usize) -> BufferId {
        self.program.buffers.push(Buffer { name, per, width, store: Store::F32, offset: 0 });
        BufferId(self.program.buffers.len() as u32 - 1)
    }

    fn op(&mut self, kind: OpKind, per: Per, args: &[Arg], params: Params) {
        let mut all = [Arg::None; MAX_SLOTS];
        all[..args.len()].copy_from_slice(args);
        self.program.ops.push(Op { kind, per, args: all, params, layer: self.layer });
    }
}

/// One group per window that layers have, in order of first appearance.
fn kv_groups(model: &Model, kv: DType) -> Result<Vec<KvGroup>, BuildError> {
    let c = &model.config;
    let row_bytes =
        kv.row_bytes(c.head_dim).ok_or(BuildError::KvHead { kv, head_dim: c.head_dim, block: kv.format().block })?;
    let layer_bytes = 2 * c.kv_heads * KV_BLOCK * row_bytes;
    let mut groups: Vec<KvGroup> = Vec::new();
    for layer in &c.layers {
        match groups.iter_mut().find(|g| g.window == layer.window) {
            Some(group) => {
                group.layers += 1;
                group.block_bytes += layer_bytes;
            }
            None => groups.push(KvGroup { window: layer.window, layers: 1, block_bytes: layer_bytes }),
        }
    }
    Ok(groups)
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Q => "attn_q",
        Role::K => "attn_k",
        Role::V => "attn_v",
        Role::AttnOut => "attn_out",
        Role::Gate => "ffn_gate",
        Role::Up => "ffn_up",
        Role::Down => "ffn_down",
        _ => "weight",
    }
}
