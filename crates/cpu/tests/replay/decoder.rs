//! A two-layer decoder with random weights, by hand: every op that a greedy step has.

use crate::rig::*;
use akunu_cpu::Cpu;
use akunu_dtype::DType;
use akunu_plan::KvPool;
use akunu_plan::op::{slots, *};
use akunu_plan::program::*;
use akunu_plan::steps::{KV_BLOCK, RowVars};

const DIM: usize = 256;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD: usize = 64;
// Wide enough for workers to steal shards of products.
const FFN: usize = 4096;
const VOCAB: usize = 20_000;
const BLOCKS: usize = 3;

pub struct Decoder {
    pub logits: BufferId,
    rig: Rig,
}

struct Builder {
    rig: Rig,
    noise: Noise,
}

fn args(pairs: &[(usize, Arg)]) -> Vec<Arg> {
    let mut all = vec![Arg::None; MAX_SLOTS];
    for &(slot, arg) in pairs {
        all[slot] = arg;
    }
    all
}

impl Builder {
    fn norm(&mut self, per: Per, x: BufferId, layout: ActivationLayout) -> BufferId {
        use slots::norm::{WEIGHT, X, Y};
        let y = self.rig.buffer(per, DIM, layout);
        let weight = self.noise.values(DIM);
        let weight = self.rig.constant(&weight);
        let params = NormParams { dim: DIM as u32, kind: NORM_RMS, eps: 1e-5, scale: 1.0 };
        let args = args(&[(X, Arg::Buffer(x)), (Y, Arg::Buffer(y)), (WEIGHT, weight)]);
        self.rig.op(OpKind::Norm, per, &args, Params::Norm(params));
        y
    }

    fn project(&mut self, per: Per, x: BufferId, k: usize, n: usize, residual: Option<BufferId>) -> BufferId {
        use slots::matmul::{RESIDUAL, W, X, Y};
        let w = self.rig.matrix(&mut self.noise, DType::Q4_0, n, k);
        let y = residual.unwrap_or_else(|| self.rig.buffer(per, n, ActivationLayout::F32));
        let residual = residual.map_or(Arg::None, Arg::Buffer);
        let args = args(&[(X, Arg::Buffer(x)), (Y, Arg::Buffer(y)), (W, w.arg), (RESIDUAL, residual)]);
        self.rig.op(OpKind::MatMul, per, &args, Params::MatMul(MatMulParams { scale: 0.2, ..w.product }));
        y
    }

    fn attention(&mut self, layer: usize, hidden: BufferId, angles: BufferId) {
        let x = self.norm(Per::Row, hidden, ActivationLayout::Q8);
        let q = self.project(Per::Row, x, DIM, HEADS * HEAD, None);
        let k = self.project(Per::Row, x, DIM, KV_HEADS * HEAD, None);
        let v = self.project(Per::Row, x, DIM, KV_HEADS * HEAD, None);
        let half = KV_HEADS * KV_BLOCK * HEAD * 2;
        let kv = KvParams {
            group: 0,
            dtype: DType::F16.index().into(),
            block_bytes: 4 * half as u32,
            layer_offset: (layer * 2 * half) as u32,
            value_offset: half as u32,
            head_bytes: (KV_BLOCK * HEAD * 2) as u32,
            row_bytes: (HEAD * 2) as u32,
        };
        let (heads, kv_heads, head_dim) = (HEADS as u32, KV_HEADS as u32, HEAD as u32);
        let params =
            HeadsParams { heads, kv_heads, head_dim, pairs: head_dim / 2, style: ROPE_SPLIT_HALF, eps: 1e-5, kv };
        {
            use slots::heads::{ANGLES, K, KV, Q, V};
            let [q, k, v, angles] = [q, k, v, angles].map(Arg::Buffer);
            let args = args(&[(Q, q), (K, k), (V, v), (ANGLES, angles), (KV, Arg::Kv(0))]);
            self.rig.op(OpKind::HeadNormRopeKvWrite, Per::Row, &args, Params::Heads(params));
        }
        let y = self.rig.buffer(Per::Row, HEADS * HEAD, ActivationLayout::Q8);
        let scale = 1.0 / (HEAD as f32).sqrt();
        let params = AttentionParams { heads, kv_heads, head_dim, scale, soft_cap: 0.0, window: 0, kv, sees: 0 };
        let args = [Arg::Buffer(q), Arg::Buffer(y), Arg::Kv(0)];
        self.rig.op(OpKind::Attention, Per::Row, &args, Params::Attention(params));
        self.project(Per::Row, y, HEADS * HEAD, DIM, Some(hidden));
    }

    fn mlp(&mut self, hidden: BufferId) {
        use slots::gated::{U, W, X, Y};
        let x = self.norm(Per::Row, hidden, ActivationLayout::Q8);
        let w = self.rig.matrix(&mut self.noise, DType::Q4_0, FFN, DIM);
        let u = self.rig.matrix(&mut self.noise, DType::Q4_0, FFN, DIM);
        let y = self.rig.buffer(Per::Row, FFN, ActivationLayout::Q8);
        let params = MatMulParams { activation: Activation::Silu as u32, scale: 0.2, ..w.product };
        let args = args(&[(X, Arg::Buffer(x)), (Y, Arg::Buffer(y)), (W, w.arg), (U, u.arg)]);
        self.rig.op(OpKind::MatMulGated, Per::Row, &args, Params::MatMul(params));
        self.project(Per::Row, y, FFN, DIM, Some(hidden));
    }
}

impl Decoder {
    /// For up to so many texts at once.
    pub fn new(texts: usize) -> Self {
        let mut b = Builder { rig: Rig::new(texts, texts), noise: Noise::new(77) };
        (b.rig.layout.table_blocks, b.rig.layout.sequences) = (BLOCKS, texts);
        let half = KV_HEADS * KV_BLOCK * HEAD * 2;
        b.rig.kv = vec![KvPool { block_bytes: 4 * half, blocks: texts * BLOCKS }];
        let hidden = b.rig.f32(DIM);
        let table = b.rig.matrix(&mut b.noise, DType::Q8_0, VOCAB, DIM);
        let params = EmbedParams {
            dim: DIM as u32,
            vocab: VOCAB as u32,
            dtype: DType::Q8_0.index().into(),
            scale: 1.0,
            row_bytes: table.product.row_bytes,
            side_bytes: table.product.side_bytes,
            index: Index::Token as u32,
        };
        b.rig.op(OpKind::Embed, Per::Row, &[table.arg, Arg::Buffer(hidden)], Params::Embed(params));
        let frequencies: Vec<f32> = (0..HEAD / 2).map(|i| 1e4f32.powf(-(i as f32) / (HEAD / 2) as f32)).collect();
        let frequencies = b.rig.constant(&frequencies);
        let angles = b.rig.f32(HEAD);
        let params = RopeAnglesParams { pairs: HEAD as u32 / 2, magnitude: 1.0, slope: 0.0, period: 1.0 };
        b.rig.op(OpKind::RopeAngles, Per::Row, &[frequencies, Arg::Buffer(angles)], Params::RopeAngles(params));
        for layer in 0..2 {
            b.attention(layer, hidden, angles);
            b.mlp(hidden);
        }
        let picked = b.rig.buffer(Per::Output, DIM, ActivationLayout::F32);
        let params = ElementParams { dim: DIM as u32, activation: 0, scale: 1.0 };
        let gather = [Arg::Buffer(hidden), Arg::Buffer(picked)];
        b.rig.op(OpKind::GatherRows, Per::Output, &gather, Params::Element(params));
        let x = b.norm(Per::Output, picked, ActivationLayout::Q8);
        let logits = b.project(Per::Output, x, DIM, VOCAB, None);
        b.rig.program.logits = logits;
        let maxima = b.rig.buffer(Per::Output, VOCAB.div_ceil(MAXIMA_SLICE), ActivationLayout::F32);
        b.rig.program.ops.last_mut().expect("the product").args[slots::matmul::MAXIMA] = Arg::Buffer(maxima);
        let params = Params::Token(TokenParams { n: VOCAB as u32 });
        b.rig.op(OpKind::Advance, Per::Output, &[Arg::Buffer(logits), Arg::Buffer(maxima)], params);
        Self { logits, rig: b.rig }
    }

    pub fn vocab(&self) -> usize {
        VOCAB
    }

    /// The program and what it runs in.
    pub fn rig(&self) -> Rig {
        self.rig.clone()
    }

    /// At position 60 of a sequence whose blocks are out of order, so that a chain crosses into
    /// the next one; what came before is zeros.
    pub fn start(&self, cpu: &Cpu) -> Running {
        let mut running = self.rig.start(cpu);
        running.memory.kv_mut(0).fill(0);
        running.memory.step_vars().table_mut(0, 0).copy_from_slice(&[2, 0, 1]);
        running.rows(&[RowVars { token: 42, position: 60, sequence: 0, ..RowVars::default() }]);
        running.outputs(&[0]);
        running
    }

    /// `count` texts at different positions, in memory for so many row groups.
    pub fn start_many(&self, cpu: &Cpu, count: u32, row_groups: usize) -> Running {
        let mut running = self.rig.start_in(cpu, row_groups);
        running.memory.kv_mut(0).fill(0);
        for text in 0..count {
            let blocks: Vec<u32> = (0..BLOCKS as u32).map(|block| text * BLOCKS as u32 + block).collect();
            running.memory.step_vars().table_mut(0, text as usize).copy_from_slice(&blocks);
        }
        let row =
            |sequence| RowVars { token: 3 * sequence + 7, position: 4 * sequence, sequence, ..RowVars::default() };
        running.rows(&(0..count).map(row).collect::<Vec<_>>());
        running.outputs(&(0..count).collect::<Vec<_>>());
        running
    }
}
