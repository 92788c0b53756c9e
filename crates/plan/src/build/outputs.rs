//! The end of a program: what comes out of the last hidden states.

use super::{Builder, Output, activation};
use crate::op::*;
use crate::program::*;
use akunu_arch::{self as arch, Role};

impl Builder<'_> {
    pub(super) fn output_norm(&mut self, per: Per, x: BufferId) -> BufferId {
        let weights = &self.model.weights;
        self.maybe_norm(per, weights.global(Role::OutputNorm), weights.global(Role::OutputNormBias), x)
    }

    /// One row for every output: that of its number, or the mean of its sequence.
    fn pick(&mut self, kind: OpKind, x: BufferId) -> BufferId {
        let dim = self.program.buffer(x).width;
        let y = self.buffer("picked", Per::Output, dim);
        let params = ElementParams { dim: dim as u32, activation: 0, scale: 1.0 };
        self.op(kind, Per::Output, &[Arg::Buffer(x), Arg::Buffer(y)], Params::Element(params));
        y
    }

    /// Hidden states, one for a text, or the scores of a head over it.
    pub(super) fn embedding(&mut self, hidden: BufferId) {
        let mean = match self.output {
            Output::Scores => self.model.config.head_pooling == arch::Pooling::Mean,
            output => output == Output::Mean,
        };
        let mut x = if mean {
            let normed = self.output_norm(Per::Row, hidden);
            self.pick(OpKind::MeanRows, normed)
        } else {
            let picked = self.pick(OpKind::GatherRows, hidden);
            self.output_norm(Per::Output, picked)
        };
        if self.output == Output::Scores {
            if self.model.weights.global(Role::Head).is_some() {
                x = self.project_all("head", Role::Head, Some(Role::HeadBias), x);
                let (function, cap) = activation(self.model.descriptor.head_activation);
                self.last_product(|p| (p.activation, p.soft_cap) = (function, cap));
                x = self.maybe_norm(Per::Output, self.model.weights.global(Role::HeadNorm), None, x);
            }
            x = match self.model.weights.global(Role::Yes) {
                Some(_) => self.answer(x),
                None => self.project_all("scores", Role::Classes, Some(Role::ClassesBias), x),
            };
        }
        if matches!(self.output, Output::Picked | Output::Mean) {
            for role in [Role::Dense1, Role::Dense2] {
                if self.model.weights.global(role).is_some() {
                    x = self.project_all("dense", role, None, x);
                }
            }
        }
        self.program.logits = x;
    }

    /// How much likelier the one answer is than the other to come next: logarithms of the odds.
    fn answer(&mut self, x: BufferId) -> BufferId {
        let yes = self.project_all("yes", Role::Yes, None, x);
        if self.model.weights.global(Role::No).is_none() {
            return yes;
        }
        let no = self.project_all("no", Role::No, None, x);
        let y = self.buffer("score", Per::Output, 1);
        let params = ElementParams { dim: 1, activation: 0, scale: -1.0 };
        self.op(
            OpKind::Add,
            Per::Output,
            &[Arg::Buffer(yes), Arg::Buffer(y), Arg::Buffer(no)],
            Params::Element(params),
        );
        y
    }

    /// `x` through a matrix of the whole model.
    fn project_all(&mut self, name: &'static str, role: Role, bias: Option<Role>, x: BufferId) -> BufferId {
        let slice = self.global(role);
        let w = self.weight(name, slice);
        let bias = bias.and_then(|role| self.model.weights.global(role)).map(|s| self.vector(s));
        let y = self.buffer(name, Per::Output, slice.rows);
        self.matmul(Per::Output, x, y, w, bias);
        y
    }

    pub(super) fn logits(&mut self, hidden: BufferId, table: WeightId) {
        let c = &self.model.config;
        let picked = self.pick(OpKind::GatherRows, hidden);
        let x = self.output_norm(Per::Output, picked);
        let head = match self.model.weights.global(Role::Output) {
            Some(slice) => self.weight("output", slice),
            None => table,
        };
        let logits = self.buffer("logits", Per::Output, c.vocab);
        self.matmul(Per::Output, x, logits, head, None);
        self.last_product(|p| (p.scale, p.soft_cap) = (c.logit_scale, c.final_cap));
        self.program.logits = logits;
        let maxima = self.buffer("maxima", Per::Output, c.vocab.div_ceil(MAXIMA_SLICE));
        if let Some(product) = self.program.ops.last_mut() {
            product.args[slots::matmul::MAXIMA] = Arg::Buffer(maxima);
        }
        let params = Params::Token(TokenParams { n: c.vocab as u32 });
        // The text of a recording obeys rules.
        let total = self.model.encoder.as_ref().map_or(Arg::None, |_| {
            let total = Arg::Buffer(self.buffer("total", Per::Output, 1));
            self.op(OpKind::Suppress, Per::Output, &[Arg::Buffer(logits), Arg::Buffer(maxima), total], params);
            total
        });
        let drawn = self.buffer("drawn", Per::Output, 1);
        self.op(OpKind::Sample, Per::Output, &[Arg::Buffer(logits), Arg::Buffer(drawn)], params);
        let choice = [Arg::Buffer(logits), Arg::Buffer(maxima), Arg::Buffer(drawn), total];
        self.op(OpKind::Advance, Per::Output, &choice, params);
    }
}
