//! The builder: a model's step as plain ops, one per idea, each into a buffer of its own.
//!
//! It knows no architecture: it walks the weights that are there. What is faster together is put
//! together afterwards, by `fuse`.

mod cache;
mod inputs;
mod outputs;

use crate::op::*;
use crate::program::*;
use crate::record::{Addr, Region};
use akunu_arch::{self as arch, LayerConfig, Model, Role, TensorSlice};
use akunu_dtype::{DType, Planes};
use akunu_formats::{ModelFile, Span};

/// What to build a program for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    pub max_rows: usize,
    pub max_outputs: usize,
    /// The form of activations that weights are multiplied with: int8 blocks go with quantized weights only, bf16 is for
    /// machines with tiles.
    pub activations: ActivationLayout,
    /// See [`Program::may_round`].
    pub may_round: bool,
    /// Number format of the KV cache, where the result needs one.
    pub kv: DType,
    pub output: Output,
}

/// What comes out for every output row.
///
/// Logits are for going on: keys and values stay in a KV cache. For all others a sequence is a step's rows from its
/// first to its last, and nothing stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// `[vocab]`
    Logits,
    /// The row's hidden state, `[dim]`.
    Hidden,
    /// A text's vector: what the dense layers after the model, where there are some, make of the row's hidden state.
    Picked,
    /// The same of the mean of the hidden states of the row's sequence.
    Mean,
    /// What the classification head says of the row's sequence, `[classes]`. The row is the sequence's first.
    Scores,
    /// For every row, not every output row: what an encoder of sound makes of its frames, `[dim]`. The keys and values that a
    /// decoder's cross-attention sees go into the KV cache.
    Encoded,
    /// For every row: how much each head that times words looks at every position of the encoder, `[heads][positions]`.
    Timing,
}

impl Output {
    /// Whether rows go on after what is in the KV cache.
    fn continues(self) -> bool {
        matches!(self, Output::Logits | Output::Timing)
    }
}

#[derive(Debug, thiserror::Error, PartialEq)]
pub enum BuildError {
    #[error("not supported: a {kv} KV cache with heads of {head_dim} values (a multiple of {block} is needed)")]
    KvHead { kv: DType, head_dim: usize, block: usize },
    #[error("not supported: text from an encoder; it gives embeddings (`akunu embed`)")]
    Encoder,
    #[error("not supported: scores from a model without a classification head")]
    NoHead,
    #[error("not supported: {0:?} from a model without an encoder of sound")]
    NoEncoder(Output),
    #[error("not supported: {0:?} from a model of speech")]
    OfSpeech(Output),
    #[error("not supported: {what} of {value}, at most {max}")]
    TooLarge { what: &'static str, value: usize, max: usize },
    #[error(transparent)]
    Invalid(#[from] crate::verify::Invalid),
}

/// Builds, fuses, places and verifies the program of a model.
pub fn build(model: &Model, file: &ModelFile, options: BuildOptions) -> Result<Program, BuildError> {
    let mut program = plain(model, file, options)?;
    crate::fuse::fuse(&mut program);
    crate::memory::place(&mut program);
    crate::verify::verify(&program)?;
    Ok(program)
}

/// The ops before fusion, every result in a buffer of its own, not yet placed in memory.
pub fn plain(model: &Model, file: &ModelFile, options: BuildOptions) -> Result<Program, BuildError> {
    let build = |output: Output, constants: Vec<f32>| -> Result<Program, BuildError> {
        let mut b = Builder::new(model, file, BuildOptions { output, ..options })?;
        b.program.constants = constants;
        match (&model.encoder, output) {
            (Some(encoder), Output::Encoded) => b.encode(encoder),
            _ => b.step(),
        }
        Ok(b.program)
    };
    match (&model.encoder, options.output) {
        (None, output @ (Output::Encoded | Output::Timing)) => Err(BuildError::NoEncoder(output)),
        (None, output) => build(output, Vec::new()),
        (Some(_), output @ (Output::Hidden | Output::Picked | Output::Mean | Output::Scores)) => {
            Err(BuildError::OfSpeech(output))
        }
        (Some(_), output) => {
            // Programs that share memory have the same constants: the encoder's, then the decoder's.
            let mut encoded = build(Output::Encoded, Vec::new())?;
            let mut program = build(Output::Logits, encoded.constants.clone())?;
            let all = program.constants.clone();
            match output {
                Output::Encoded => program = encoded,
                Output::Timing => program = build(Output::Timing, std::mem::take(&mut encoded.constants))?,
                _ => {}
            }
            program.constants = all;
            Ok(program)
        }
    }
}

mod speech;

use inputs::Angles;

struct Builder<'a> {
    model: &'a Model,
    file: &'a ModelFile,
    program: Program,
    kv: DType,
    output: Output,
    layer: Option<u32>,
    /// Where the weights of the heads that time words go.
    timing: Option<BufferId>,
}

impl<'a> Builder<'a> {
    fn new(model: &'a Model, file: &'a ModelFile, options: BuildOptions) -> Result<Self, BuildError> {
        let limit = |what, value, max| match value > max {
            true => Err(BuildError::TooLarge { what, value, max }),
            false => Ok(()),
        };
        limit("a number of files", file.files(), Region::MAX_FILES)?;
        let output = options.output;
        if output == Output::Logits && !model.descriptor.causal {
            return Err(BuildError::Encoder);
        }
        if output == Output::Scores && model.config.classes == 0 {
            return Err(BuildError::NoHead);
        }
        let cached = output.continues() || output == Output::Encoded;
        let kv_groups = if cached { cache::kv_groups(model, options.kv)? } else { Vec::new() };
        limit("a number of different windows", kv_groups.len(), Region::MAX_KV_GROUPS)?;
        for group in &kv_groups {
            limit("a KV block's bytes", group.block_bytes, u32::MAX as usize)?;
        }
        let program = Program {
            max_rows: options.max_rows,
            max_outputs: options.max_outputs,
            activations: options.activations,
            may_round: options.may_round,
            buffers: Vec::new(),
            weights: Vec::new(),
            constants: Vec::new(),
            kv_groups,
            ops: Vec::new(),
            input: None,
            logits: BufferId(0),
            arena_bytes: 0,
        };
        Ok(Self { model, file, program, kv: options.kv, output, layer: None, timing: None })
    }

    fn step(&mut self) {
        let c = &self.model.config;
        let table = self.weight("token_embd", self.global(Role::TokenEmbedding));
        let hidden = self.embed_all(table);
        let angles: Vec<Angles> = c.ropes.iter().map(|r| self.angles(r)).collect();
        let hidden = self.layers(&angles, hidden);
        match (self.output, self.timing) {
            (Output::Timing, Some(timing)) => self.program.logits = timing,
            (Output::Logits, _) => self.logits(hidden, table),
            _ => self.embedding(hidden),
        }
    }

    fn layers(&mut self, angles: &[Angles], mut hidden: BufferId) -> BufferId {
        let c = &self.model.config;
        let last_timed = c.timing_heads.iter().map(|(layer, _)| *layer).max();
        for (l, layer) in c.layers.iter().enumerate() {
            self.layer = Some(l as u32);
            let mixed = self.attention(l, layer, angles, hidden);
            let norms = [Role::AttnPostNorm, Role::AttnSumNorm, Role::AttnSumNormBias];
            hidden = self.sublayer_end(l, norms, hidden, mixed);
            if self.model.weights.layer(Role::CrossQ, l).is_some() {
                let mixed = self.cross_attention(l, hidden);
                hidden = self.add(hidden, mixed, c.residual_scale);
            }
            if self.output == Output::Timing && last_timed == Some(l) {
                break;
            }
            let mixed = self.mlp(l, hidden);
            let norms = [Role::FfnPostNorm, Role::FfnSumNorm, Role::FfnSumNormBias];
            hidden = self.sublayer_end(l, norms, hidden, mixed);
        }
        self.layer = None;
        hidden
    }

    fn attention(&mut self, l: usize, layer: &LayerConfig, angles: &[Angles], hidden: BufferId) -> BufferId {
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
        let style = match (rope, self.model.rope_style) {
            (None, _) => ROPE_NONE,
            (_, arch::RopeStyle::Interleaved) => ROPE_INTERLEAVED,
            (_, arch::RopeStyle::SplitHalf) => ROPE_SPLIT_HALF,
        };
        let (heads, kv_heads, head_dim) = (c.heads as u32, c.kv_heads as u32, c.head_dim as u32);
        let pairs = if rope.is_some() { c.rotated as u32 / 2 } else { 0 };
        let [angles, q_angles] =
            [rope.map(|r| r.keys), rope.map(|r| r.queries)].map(|r| r.map_or(Arg::None, Arg::Buffer));
        let turned = |heads| HeadParams { heads, head_dim, pairs, style, eps: c.eps };
        let y = self.buffer("attention", Per::Row, c.heads * c.head_dim);
        let (kv, args) = if self.output.continues() {
            let kv = self.kv_params(l, layer);
            let cache = Arg::Kv(kv.group as u8);
            let mut args = [Arg::Buffer(q), Arg::Buffer(k), Arg::Buffer(v), angles, norms[0], norms[1], cache];
            let mut params = HeadsParams { heads, kv_heads, head_dim, pairs, style, eps: c.eps, kv };
            let apart = q_angles != angles;
            if apart {
                (args[slots::heads::Q], args[slots::heads::Q_NORM], params.heads) = (Arg::None, Arg::None, 0);
            }
            self.op(OpKind::HeadNormRopeKvWrite, Per::Row, &args, Params::Heads(params));
            if apart {
                let args = [Arg::Buffer(q), q_angles, norms[0]];
                self.op(OpKind::HeadNormRope, Per::Row, &args, Params::Head(turned(heads)));
            }
            (kv, [Arg::Buffer(q), Arg::Buffer(y), cache, Arg::None, Arg::None])
        } else {
            for (x, heads, angles, norm) in [(q, heads, q_angles, norms[0]), (k, kv_heads, angles, norms[1])] {
                if rope.is_some() || norm != Arg::None {
                    let args = [Arg::Buffer(x), angles, norm];
                    self.op(OpKind::HeadNormRope, Per::Row, &args, Params::Head(turned(heads)));
                }
            }
            let args = [Arg::Buffer(q), Arg::Buffer(y), Arg::None, Arg::Buffer(k), Arg::Buffer(v)];
            (self.row_params(k), args)
        };
        let params = AttentionParams {
            heads,
            kv_heads,
            head_dim,
            scale: c.attention_scale,
            soft_cap: c.attention_cap,
            window: layer.window.unwrap_or(0) as u32,
            kv,
            sees: if self.model.descriptor.causal { Sees::Past } else { Sees::All } as u32,
        };
        self.op(OpKind::Attention, Per::Row, &args, Params::Attention(params));
        self.project("mixed", l, Role::AttnOut, Some(Role::AttnOutBias), y)
    }

    fn mlp(&mut self, l: usize, hidden: BufferId) -> BufferId {
        let c = &self.model.config;
        let x = self.pre_norm(l, Role::FfnNorm, Role::FfnNormBias, hidden);
        let (activation, _) = activation(self.model.descriptor.activation);
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
            self.last_product(|p| p.activation = activation);
            y
        };
        self.project("mixed", l, Role::Down, Some(Role::DownBias), inner)
    }

    /// The sublayer's result added to the residual stream; the result or the sum is normalized where the family does so.
    fn sublayer_end(&mut self, l: usize, norms: [Role; 3], hidden: BufferId, mixed: BufferId) -> BufferId {
        let [post, sum, sum_bias] = norms.map(|role| self.model.weights.layer(role, l));
        let mixed = self.maybe_norm(Per::Row, post, None, mixed);
        let hidden = self.add(hidden, mixed, self.model.config.residual_scale);
        self.maybe_norm(Per::Row, sum, sum_bias, hidden)
    }

    fn add(&mut self, a: BufferId, b: BufferId, scale: f32) -> BufferId {
        let dim = self.program.buffer(a).width;
        let y = self.buffer("hidden", Per::Row, dim);
        let params = ElementParams { dim: dim as u32, activation: 0, scale };
        self.op(OpKind::Add, Per::Row, &[Arg::Buffer(a), Arg::Buffer(y), Arg::Buffer(b)], Params::Element(params));
        y
    }

    fn pre_norm(&mut self, l: usize, weight: Role, bias: Role, hidden: BufferId) -> BufferId {
        let [weight, bias] = [weight, bias].map(|role| self.model.weights.layer(role, l));
        self.maybe_norm(Per::Row, weight, bias, hidden)
    }

    /// `x` normalized where there is a weight for it.
    fn maybe_norm(
        &mut self,
        per: Per,
        weight: Option<TensorSlice>,
        bias: Option<TensorSlice>,
        x: BufferId,
    ) -> BufferId {
        let Some(weight) = weight else { return x };
        let weight = self.norm_weight(weight);
        let bias = bias.map(|s| self.vector(s));
        self.norm("normed", per, x, weight, bias)
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

    /// Changes the product that was emitted last.
    fn last_product(&mut self, change: impl FnOnce(&mut MatMulParams)) {
        if let Some(Op { params: Params::MatMul(p), .. }) = self.program.ops.last_mut() {
            change(p);
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
        self.program.buffers.push(Buffer { name, per, width, layout: ActivationLayout::F32, offset: 0 });
        BufferId(self.program.buffers.len() as u32 - 1)
    }

    fn op(&mut self, kind: OpKind, per: Per, args: &[Arg], params: Params) {
        let mut all = [Arg::None; MAX_SLOTS];
        all[..args.len()].copy_from_slice(args);
        self.program.ops.push(Op { kind, per, args: all, params, layer: self.layer });
    }
}

/// The op's function and its soft cap: a cap of 1 is the hyperbolic tangent.
fn activation(function: arch::Activation) -> (u32, f32) {
    let (function, cap) = match function {
        arch::Activation::Silu => (Activation::Silu, 0.0),
        arch::Activation::GeluTanh => (Activation::GeluTanh, 0.0),
        arch::Activation::GeluErf => (Activation::GeluErf, 0.0),
        arch::Activation::Tanh => (Activation::None, 1.0),
    };
    (function as u32, cap)
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
