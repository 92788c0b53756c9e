//! Binding: a kernel and a weight layout for every op.

use crate::backend::Cpu;
use crate::kernels::{self, matmul};
use crate::packed;
use akunu_dtype::DType;
use akunu_gemm::packed::{MAX_COLS, ROWS};
use akunu_plan::bind::{Bound, Choice, NoKernel, bind};
use akunu_plan::op::{MAXIMA_SLICE, Params, slots};
use akunu_plan::program::{Arg, Op, Program, Weight};
use akunu_plan::record::{Record, encode_params, flags};
use bytemuck::Zeroable;

impl Cpu {
    pub(crate) fn choose_kernels(&self, program: &Program) -> Result<Bound, NoKernel> {
        bind(program, |program, op| {
            let record = Record { weight_layout: packed::layout(self.packs(program, op)), ..describe(program, op) };
            let kernel = kernels::choose(&record, self.level())
                .ok_or_else(|| NoKernel { backend: "cpu", op: explain(program, op) })?;
            let (units, grain) = geometry(op);
            Ok(Choice { kernel, units, grain, weight_layout: record.weight_layout })
        })
    }

    /// Whether an op takes its weights packed. That depends on nothing but their format and shape, so that all ops of all
    /// programs agree.
    fn packs(&self, program: &Program, op: &Op) -> bool {
        let weight = op.args.iter().find_map(|arg| match arg {
            Arg::Weight(id) => Some(program.weight(*id)),
            _ => None,
        });
        let packs = |w: &Weight| {
            let fits = w.rows.is_multiple_of(ROWS) && w.cols <= MAX_COLS;
            fits && akunu_gemm::table::packs(w.dtype, self.level())
        };
        !self.in_place() && weight.is_some_and(packs)
    }
}

/// What kernels are chosen by, as the part of a record that is known before it is written.
fn describe(program: &Program, op: &Op) -> Record {
    let rows = program.capacity(op.per) as u32;
    let (params, flags) = (encode_params(&op.params), flags(program, op));
    Record { op: op.kind as u32, rows, params, flags, ..Record::zeroed() }
}

/// The op in words, with the formats and shapes no kernel serves.
fn explain(program: &Program, op: &Op) -> String {
    let mut words = op.kind.spec().name.to_string();
    for arg in op.args {
        match arg {
            Arg::Weight(id) => words += &format!(", weight {}", program.weight(id).dtype),
            Arg::Buffer(id) => {
                let buffer = program.buffer(id);
                words += &format!(", {} {:?} {}", buffer.name, buffer.layout, buffer.width);
            }
            _ => {}
        }
    }
    if let Params::Heads(akunu_plan::op::HeadsParams { kv, head_dim, .. })
    | Params::MatMulHeads(akunu_plan::op::MatMulHeadsParams {
        kv,
        head: akunu_plan::op::HeadParams { head_dim, .. },
        ..
    })
    | Params::Attention(akunu_plan::op::AttentionParams { kv, head_dim, .. }) = op.params
    {
        let name = DType::from_index(kv.dtype as u8).map_or("?", |d| d.format().name);
        words += &format!(", heads of {head_dim}, KV cache {name}");
    }
    words
}

/// Units of work per row and how many stay together. Only products read it; the others cut
/// their work by the step's rows and the workers there are.
fn geometry(op: &Op) -> (u32, u32) {
    match &op.params {
        Params::MatMul(p) if op.args[slots::matmul::MAXIMA] != Arg::None => (p.n, MAXIMA_SLICE as u32),
        Params::MatMul(p) => (p.n, matmul::GRAIN as u32),
        Params::MatMulHeads(p) => (p.product.n, matmul::GRAIN as u32),
        Params::Heads(p) => (p.heads + p.kv_heads, 1),
        Params::Head(p) => (p.heads, 1),
        Params::Attention(p) => (p.heads, 1),
        _ => (1, 1),
    }
}
