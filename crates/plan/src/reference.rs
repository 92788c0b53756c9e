//! The reference executor: any program, slowly, in f32, one op after the other.
//!
//! It shares no arithmetic with the kernels. Every buffer is a plain vector of its own, weights are decoded row by row,
//! and int8 activations are rounded but kept as f32. Kernels of every backend are tested against it, and it is a backend
//! itself ([`ReferenceBackend`]): the proof that nothing but the seam is needed.

mod arithmetic;
mod backend;
mod kv;

pub use backend::ReferenceBackend;

use crate::backend::KvPool;
use crate::draw;
use crate::op::*;
use crate::program::*;
use crate::record::Addr;
use crate::rules::Chosen;
use crate::steps::{KV_BLOCK, RowVars, StepLayout, StepVars};
use akunu_dtype::Planes;
use arithmetic::*;
use kv::{Kv, Place};

/// Gives the bytes behind a weight's address.
pub trait Bytes {
    fn bytes(&self, addr: Addr, len: usize) -> &[u8];
}

impl Bytes for akunu_formats::ModelFile {
    fn bytes(&self, addr: Addr, len: usize) -> &[u8] {
        match addr.region().file_index() {
            Some(file) => &self.bytes(file)[addr.offset()..addr.offset() + len],
            None => &[],
        }
    }
}

/// One program with memory of its own.
pub struct Reference<'a> {
    program: &'a Program,
    weights: &'a dyn Bytes,
    buffers: Buffers,
    kv: Kv,
    steps: Vec<u32>,
}

impl<'a> Reference<'a> {
    pub fn new(program: &'a Program, weights: &'a dyn Bytes, layout: StepLayout) -> Self {
        let blocks = layout.sequences * layout.table_blocks;
        let pool = |group: &KvGroup| KvPool { block_bytes: group.block_bytes, blocks };
        let pools: Vec<KvPool> = program.kv_groups.iter().map(pool).collect();
        let kv = Kv::new(&pools).expect("a test's cache fits this machine");
        Self { program, weights, buffers: Buffers::new(program), kv, steps: steps_of(layout) }
    }

    pub fn steps(&mut self) -> StepVars<'_> {
        StepVars::new(&mut self.steps)
    }

    /// `[rows][width]` of a buffer.
    pub fn buffer(&self, id: BufferId) -> &[f32] {
        &self.buffers.0[id.0 as usize]
    }

    /// The same, to fill.
    pub fn buffer_mut(&mut self, id: BufferId) -> &mut [f32] {
        &mut self.buffers.0[id.0 as usize]
    }

    /// The KV blocks of a group.
    pub fn kv_mut(&mut self, group: usize) -> &mut [u8] {
        self.kv.group_mut(group)
    }

    /// `[frames][bands]` that the step starts from; empty where it starts from tokens.
    pub fn input_mut(&mut self) -> &mut [f32] {
        self.program.input.map_or(&mut [], |id| &mut self.buffers.0[id.0 as usize])
    }

    /// Goes on after what another executor of as large a cache wrote there.
    pub fn take_cache(&mut self, from: &Reference<'_>) {
        for group in 0..self.program.kv_groups.len() {
            self.kv.group_mut(group).copy_from_slice(from.kv.group(group));
        }
    }

    fn executor(&mut self) -> Executor<'_> {
        let Self { program, weights, buffers, kv, steps } = self;
        Executor { program, weights: *weights, buffers: &mut buffers.0, kv, steps }
    }

    /// One step: every op once, unless all texts have ended.
    pub fn run(&mut self) {
        self.executor().run();
    }

    pub fn run_op(&mut self, index: usize) {
        self.executor().run_op(index);
    }
}

/// Activations of one program, by buffer.
struct Buffers(Vec<Vec<f32>>);

impl Buffers {
    fn new(program: &Program) -> Self {
        Self(program.buffers.iter().map(|b| vec![f32::NAN; program.capacity(b.per) * b.width]).collect())
    }
}

/// Step variables of a layout, with their header.
fn steps_of(layout: StepLayout) -> Vec<u32> {
    let mut steps = vec![0; layout.bytes() / 4];
    *StepVars::new(&mut steps).header_mut() = layout.header();
    steps
}

/// A program in the memory that it runs in.
struct Executor<'a> {
    program: &'a Program,
    weights: &'a dyn Bytes,
    buffers: &'a mut [Vec<f32>],
    kv: &'a mut Kv,
    steps: &'a mut [u32],
}

impl Executor<'_> {
    fn run(&mut self) {
        if StepVars::new(self.steps).header().ended == 0 {
            (0..self.program.ops.len()).for_each(|i| self.run_op(i));
        }
    }

    fn run_op(&mut self, index: usize) {
        let op = &self.program.ops[index];
        let vars = StepVars::new(self.steps);
        let rows = vars.rows().to_vec();
        let outputs = vars.outputs().to_vec();
        let count = match op.per {
            Per::Row => rows.len(),
            Per::Output => outputs.len(),
            Per::Frame => 2 * rows.len(),
        };
        for r in 0..count {
            self.run_row(op, r, &rows, &outputs);
        }
        if op.kind == OpKind::Advance {
            use slots::advance::{DRAWN, TOTAL, X};
            let value = |slot, r| (op.args[slot] != Arg::None).then(|| self.row(op, slot, r)[0]);
            let choice = |r| {
                let logits = self.row(op, X, r);
                let token = match value(DRAWN, r) {
                    Some(token) if token != NONE_DRAWN => token as u32,
                    _ => draw::first_largest(&logits),
                };
                Chosen { token, logit: logits[token as usize], total: value(TOTAL, r).unwrap_or(0.0) }
            };
            let chosen: Vec<Chosen> = (0..count).map(choice).collect();
            StepVars::new(self.steps).advance(&chosen);
        }
    }

    fn row(&self, op: &Op, slot: usize, r: usize) -> Vec<f32> {
        let id = buffer_of(op, slot);
        let width = self.program.buffers[id].width;
        self.buffers[id][r * width..(r + 1) * width].to_vec()
    }

    fn vector(&self, op: &Op, slot: usize) -> Option<&[f32]> {
        match op.args[slot] {
            Arg::Vector(v) => Some(self.program.vector(v)),
            _ => None,
        }
    }

    fn set(&mut self, op: &Op, slot: usize, r: usize, values: &[f32]) {
        let id = buffer_of(op, slot);
        let buffer = &self.program.buffers[id];
        let at = r * buffer.width;
        let out = &mut self.buffers[id][at..at + values.len()];
        out.copy_from_slice(values);
        match buffer.layout {
            ActivationLayout::F32 => {}
            ActivationLayout::Q8 => round_to_int8(out),
            ActivationLayout::Bf16 => out.iter_mut().for_each(|v| *v = akunu_dtype::tiles::round(*v)),
        }
    }

    fn weight_row(&self, op: &Op, slot: usize, row: usize) -> Vec<f32> {
        let Arg::Weight(id) = op.args[slot] else { return Vec::new() };
        let w = self.program.weight(id);
        let (bytes, side) = (w.row_bytes(), w.side_bytes());
        let at = |addr: Addr, stride: usize| match addr.is_none() {
            true => &[][..],
            false => self.weights.bytes(Addr(addr.0 + (row * stride) as u64), stride),
        };
        let planes = Planes { data: at(w.data, bytes), scales: at(w.scales, side), biases: at(w.biases, side) };
        let mut out = vec![0.0; w.cols];
        (w.dtype.format().decode)(planes, &mut out);
        out
    }

    fn run_row(&mut self, op: &Op, r: usize, rows: &[RowVars], outputs: &[u32]) {
        match (op.kind, op.params) {
            (OpKind::Embed, Params::Embed(p)) => {
                let index = match p.index {
                    i if i == Index::Position as u32 => rows[r].position,
                    i if i == Index::Segment as u32 => rows[r].segment,
                    _ => rows[r].token,
                };
                let index = index.min(p.vocab - 1) as usize;
                let values: Vec<f32> =
                    self.weight_row(op, slots::embed::TABLE, index).iter().map(|v| v * p.scale).collect();
                self.set(op, slots::embed::Y, r, &values);
            }
            (OpKind::RopeAngles, Params::RopeAngles(p)) => {
                let frequencies = self.vector(op, slots::rope_angles::FREQUENCIES).unwrap_or(&[]);
                let magnitude = p.magnitude_at(rows[r].position);
                let values: Vec<f32> = frequencies
                    .iter()
                    .flat_map(|f| {
                        let angle = f64::from(rows[r].position as f32 * f);
                        [angle.cos() as f32 * magnitude, angle.sin() as f32 * magnitude]
                    })
                    .collect();
                self.set(op, slots::rope_angles::Y, r, &values);
            }
            (OpKind::Norm, Params::Norm(p)) => {
                use slots::norm::*;
                let mut values = self.row(op, X, r);
                normalize(&mut values, self.vector(op, WEIGHT), self.vector(op, BIAS), p.kind, p.eps);
                values.iter_mut().for_each(|v| *v *= p.scale);
                self.add_residual(op, RESIDUAL, r, &mut values);
                self.set(op, Y, r, &values);
            }
            (OpKind::Convert, _) => {
                let values = self.row(op, slots::convert::X, r);
                self.set(op, slots::convert::Y, r, &values);
            }
            (OpKind::MatMul, Params::MatMul(p)) => {
                use slots::matmul::*;
                let x = self.row(op, X, r);
                let bias = self.vector(op, BIAS).map(<[f32]>::to_vec);
                let mut values: Vec<f32> = (0..p.n as usize)
                    .map(|n| {
                        let v = dot(&x, &self.weight_row(op, W, n)) + bias.as_ref().map_or(0.0, |b| b[n]);
                        let v = activate(p.activation, v) * p.scale;
                        if p.soft_cap != 0.0 { (v / p.soft_cap).tanh() * p.soft_cap } else { v }
                    })
                    .collect();
                self.add_residual(op, RESIDUAL, r, &mut values);
                self.set(op, Y, r, &values);
                if op.args[MAXIMA] != Arg::None {
                    let maxima: Vec<f32> = values.chunks(MAXIMA_SLICE).map(largest).collect();
                    self.set(op, MAXIMA, r, &maxima);
                }
            }
            (OpKind::MatMulHeads, Params::MatMulHeads(p)) => self.product_heads(op, &p, r, rows[r]),
            (OpKind::MatMulGated, Params::MatMul(p)) => {
                use slots::gated::*;
                let x = self.row(op, X, r);
                let values: Vec<f32> = (0..p.n as usize)
                    .map(|n| {
                        let gate = dot(&x, &self.weight_row(op, W, n));
                        activate(p.activation, gate) * dot(&x, &self.weight_row(op, U, n))
                    })
                    .collect();
                self.set(op, Y, r, &values);
            }
            (OpKind::GatedActivation, Params::Element(p)) => {
                use slots::gated_activation::*;
                let (x, u) = (self.row(op, X, r), self.row(op, U, r));
                let values: Vec<f32> = x.iter().zip(u).map(|(x, u)| activate(p.activation, *x) * u).collect();
                self.set(op, Y, r, &values);
            }
            (OpKind::Add, Params::Element(p)) => {
                use slots::add::*;
                let (a, b) = (self.row(op, A, r), self.row(op, B, r));
                let values: Vec<f32> = a.iter().zip(b).map(|(a, b)| a + p.scale * b).collect();
                self.set(op, Y, r, &values);
            }
            (OpKind::HeadNormRopeKvWrite, Params::Heads(p)) => self.heads(op, &p, r, rows[r]),
            (OpKind::HeadNormRope, Params::Head(p)) => {
                use slots::head::*;
                let mut values = self.row(op, X, r);
                self.turn(op, [NORM, ANGLES], r, p, &mut values);
                self.set(op, X, r, &values);
            }
            (OpKind::Attention, Params::Attention(p)) => {
                let values = self.attend(op, &p, r, rows[r]);
                self.set(op, slots::attention::Y, r, &values);
            }
            (OpKind::GatherRows, _) => {
                let values = self.row(op, slots::gather::X, outputs[r] as usize);
                self.set(op, slots::gather::Y, r, &values);
            }
            (OpKind::MeanRows, Params::Element(p)) => {
                let row = outputs[r] as usize;
                let first = row - rows[row].position as usize;
                let mut sums = vec![0.0f64; p.dim as usize];
                for i in 0..rows[row].length as usize {
                    let values = self.row(op, slots::gather::X, first + i);
                    sums.iter_mut().zip(values).for_each(|(s, v)| *s += f64::from(v));
                }
                let values: Vec<f32> = sums.iter().map(|s| (s / f64::from(rows[row].length)) as f32).collect();
                self.set(op, slots::gather::Y, r, &values);
            }
            (OpKind::Unfold, Params::Unfold(p)) => {
                use slots::unfold::*;
                let frames = 2 * rows.len();
                let (channels, taps) = (p.channels as usize, p.taps as usize);
                let mut values = vec![0.0; channels * taps];
                for t in 0..taps {
                    let frame = (r * p.stride as usize + t).checked_sub(taps / 2).filter(|f| *f < frames);
                    let Some(frame) = frame else { continue };
                    let x = self.row(op, X, frame);
                    (0..channels).for_each(|c| values[c * taps + t] = x[c]);
                }
                self.set(op, Y, r, &values);
            }
            (OpKind::AttentionWeights, Params::AttentionWeights(p)) => {
                let weights = self.weights_of(op, &p, r, rows[r]);
                let id = buffer_of(op, slots::weights::Y);
                let at = r * self.program.buffers[id].width + p.at as usize;
                self.buffers[id][at..at + weights.len()].copy_from_slice(&weights);
            }
            (OpKind::Suppress, _) => self.suppress(op, r),
            (OpKind::Sample, _) => {
                let vars = StepVars::new(self.steps).draws()[r];
                let drawn = vars.draw(&self.row(op, slots::sample::X, r));
                self.set(op, slots::sample::Y, r, &[drawn.map_or(NONE_DRAWN, |token| token as f32)]);
            }
            _ => {}
        }
    }

    fn suppress(&mut self, op: &Op, r: usize) {
        use slots::suppress::*;
        let vars = StepVars::new(self.steps);
        let (rules, text) = (*vars.rules(), vars.texts()[r]);
        if !rules.govern(&text) {
            return self.set(op, TOTAL, r, &[0.0]);
        }
        let mut x = self.row(op, X, r);
        rules.forbid(&text, &mut x);
        let (words, times) = rules.split(&mut x);
        let (word, times) = (largest(words), log_sum(times));
        rules.prefer(&mut x, word, times);
        let maxima: Vec<f32> = x.chunks(MAXIMA_SLICE).map(largest).collect();
        self.set(op, X, r, &x);
        self.set(op, MAXIMA, r, &maxima);
        self.set(op, TOTAL, r, &[log_sum(&x)]);
    }

    fn add_residual(&self, op: &Op, slot: usize, r: usize, values: &mut [f32]) {
        if op.args[slot] != Arg::None {
            values.iter_mut().zip(self.row(op, slot, r)).for_each(|(v, h)| *v += h);
        }
    }

    /// Every head of a row, normalized where there is a weight, and rotated.
    fn turn(&self, op: &Op, [norm, angles]: [usize; 2], r: usize, p: HeadParams, values: &mut [f32]) {
        let weight = self.vector(op, norm);
        let angles = (p.style != ROPE_NONE).then(|| self.row(op, angles, r));
        for head in values.chunks_mut(p.head_dim as usize) {
            if weight.is_some() {
                normalize(head, weight, None, NORM_RMS, p.eps);
            }
            if let Some(angles) = &angles {
                rotate(head, angles, p.style, p.pairs as usize);
            }
        }
    }

    fn product_heads(&mut self, op: &Op, p: &MatMulHeadsParams, r: usize, row: RowVars) {
        use slots::matmul_heads::*;
        let x = self.row(op, X, r);
        let mut values: Vec<f32> = (0..p.product.n as usize).map(|n| dot(&x, &self.weight_row(op, W, n))).collect();
        if let Some(bias) = self.vector(op, BIAS) {
            values.iter_mut().zip(bias).for_each(|(v, b)| *v += b);
        }
        if p.makes != Makes::Values as u32 {
            self.turn(op, [NORM, ANGLES], r, p.head, &mut values);
        }
        if p.makes == Makes::Queries as u32 {
            return self.set(op, Y, r, &values);
        }
        self.keep(&p.kv, p.makes == Makes::Values as u32, p.head.head_dim as usize, row, &values);
    }

    fn heads(&mut self, op: &Op, p: &HeadsParams, r: usize, row: RowVars) {
        use slots::heads::*;
        let d = p.head_dim as usize;
        let head = p.each(p.heads);
        if op.args[Q] != Arg::None {
            let mut q = self.row(op, Q, r);
            self.turn(op, [Q_NORM, ANGLES], r, head, &mut q);
            self.set(op, Q, r, &q);
        }
        let mut k = self.row(op, K, r);
        self.turn(op, [K_NORM, ANGLES], r, head, &mut k);
        self.keep(&p.kv, false, d, row, &k);
        let v = self.row(op, V, r);
        self.keep(&p.kv, true, d, row, &v);
    }

    /// Keys or values of a row into the KV cache, heads of `d` values.
    fn keep(&mut self, kv: &KvParams, is_value: bool, d: usize, row: RowVars, values: &[f32]) {
        let position = row.place();
        let block = StepVars::new(self.steps).table(kv.group as usize, row.sequence as usize)[position / KV_BLOCK];
        for (head, values) in values.chunks(d).enumerate() {
            self.kv.write(kv, Place { block, is_value, head, position }, values);
        }
    }

    /// What one head of a row gives to every position; nothing to those it does not see.
    fn weights_of(&mut self, op: &Op, p: &AttentionWeightsParams, r: usize, row: RowVars) -> Vec<f32> {
        let a = p.attention;
        let (d, positions) = (a.head_dim as usize, p.positions as usize);
        let q = self.row(op, slots::weights::Q, r)[p.head as usize * d..][..d].to_vec();
        let kv_head = (p.head / (a.heads / a.kv_heads)) as usize;
        let table = StepVars::new(self.steps).table(a.kv.group as usize, row.sequence as usize).to_vec();
        let (first, last) = seen(&a, row);
        let scores: Vec<f32> = (first..=last.min(positions - 1))
            .map(|position| {
                let block = table[position / KV_BLOCK];
                let key = self.kv.read(&a.kv, Place { block, is_value: false, head: kv_head, position }, d);
                key.map_or(f32::NEG_INFINITY, |key| dot(&q, &key) * a.scale)
            })
            .collect();
        let weights = exponentials(&scores);
        let total: f64 = weights.iter().sum();
        let mut out = vec![0.0; positions];
        out[first..].iter_mut().zip(weights).for_each(|(o, w)| *o = (w / total) as f32);
        out
    }

    fn attend(&mut self, op: &Op, p: &AttentionParams, r: usize, row: RowVars) -> Vec<f32> {
        use slots::attention::*;
        let q = self.row(op, Q, r);
        let d = p.head_dim as usize;
        let width = p.kv_heads as usize * d;
        let (first, last) = seen(p, row);
        let own = op.args[KV] == Arg::None;
        let table = match own {
            true => Vec::new(),
            false => StepVars::new(self.steps).table(p.kv.group as usize, row.sequence as usize).to_vec(),
        };
        // `None` where the sequence has no block: what no row sees any more.
        let stored = |is_value: bool, head: usize, position: usize| {
            if own {
                let at = (r + position - row.position as usize) * width + head * d;
                return Some(self.buffers[buffer_of(op, if is_value { V } else { K })][at..at + d].to_vec());
            }
            self.kv.read(&p.kv, Place { block: table[position / KV_BLOCK], is_value, head, position }, d)
        };
        let mut out = Vec::with_capacity(q.len());
        for (head, q) in q.chunks(d).enumerate() {
            let kv_head = head / (p.heads / p.kv_heads) as usize;
            let scores: Vec<f32> = (first..=last)
                .map(|position| {
                    if row.hides(position) {
                        return f32::NEG_INFINITY;
                    }
                    let Some(key) = stored(false, kv_head, position) else { return f32::NEG_INFINITY };
                    let s = dot(q, &key) * p.scale;
                    if p.soft_cap != 0.0 { (s / p.soft_cap).tanh() * p.soft_cap } else { s }
                })
                .collect();
            let weights = exponentials(&scores);
            let total: f64 = weights.iter().sum();
            let mut mixed = vec![0.0f64; d];
            for (weight, position) in weights.iter().zip(first..=last) {
                for (m, v) in mixed.iter_mut().zip(stored(true, kv_head, position).unwrap_or_default()) {
                    *m += weight * f64::from(v);
                }
            }
            out.extend(mixed.iter().map(|m| (m / total) as f32));
        }
        out
    }
}

fn buffer_of(op: &Op, slot: usize) -> usize {
    match op.args[slot] {
        Arg::Buffer(id) => id.0 as usize,
        // The verifier has seen that required slots hold buffers.
        _ => usize::MAX,
    }
}
