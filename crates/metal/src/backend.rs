//! Metal behind the seam: a kernel for every record, and a model that is loaded on a GPU.

use crate::chip::Chip;
use crate::dispatch::Dispatch;
use crate::gpu::Gpu;
use crate::kernels;
use crate::loaded;
use akunu_dtype::DType;
use akunu_plan::backend::*;
use akunu_plan::bind::{self, Bound, Choice, NoKernel};
use akunu_plan::op::Params;
use akunu_plan::program::{ActivationLayout, Arg, Op, Program};
use akunu_plan::record::{BARRIER, Record};
use std::sync::{Mutex, PoisonError};

/// Row classes of programs that decode: one row, what one pass over the weights serves, and a batch.
const DECODE_ROWS: [usize; 3] = [1, 16, 64];

/// The Metal backend.
pub struct Metal {
    chip: Chip,
    /// None where programs are only bound, to look at them.
    gpu: Option<Mutex<Box<dyn Gpu>>>,
}

impl Metal {
    pub fn new(gpu: Box<dyn Gpu>) -> Self {
        Self { chip: gpu.chip().clone(), gpu: Some(Mutex::new(gpu)) }
    }

    /// Binds programs as for a chip, on any machine. It loads nothing.
    pub fn without_gpu(chip: Chip) -> Self {
        Self { chip, gpu: None }
    }

    pub fn chip(&self) -> &Chip {
        &self.chip
    }

    /// As [`Backend::load`] does.
    #[doc(hidden)]
    pub fn load_model(self, plan: LoadPlan) -> Result<loaded::LoadedModel, LoadError> {
        let Metal { chip, gpu } = self;
        let gpu = gpu.ok_or_else(|| LoadError::Device("there is no GPU of Apple's on this machine".into()))?;
        let gpu = gpu.into_inner().unwrap_or_else(PoisonError::into_inner);
        loaded::LoadedModel::new(Metal::without_gpu(chip), gpu, plan)
    }

    fn ask<T>(&self, question: impl FnOnce(&dyn Gpu) -> T) -> Option<T> {
        let gpu = self.gpu.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(question(&**gpu))
    }
}

impl Backend for Metal {
    fn info(&self) -> Info {
        let level = level(&self.chip);
        Info {
            backend: "metal",
            device: self.ask(|gpu| gpu.name()).unwrap_or_else(|| self.chip.name.to_owned()),
            level,
            best_level: level,
            threads: 1,
            free_memory: self.ask(|gpu| gpu.free_memory()).flatten(),
        }
    }

    fn preferences(&self) -> Preferences {
        Preferences {
            decode: ActivationLayout::F32,
            prefill: ActivationLayout::F32,
            // Weights are rounded to 16 bits on their way into matrices.
            prefill_rounds: true,
            decode_rows: DECODE_ROWS.to_vec(),
            prefill_chunk: self.chip.prefill_chunk,
            max_chain: 64,
        }
    }

    fn bind(&self, program: &Program) -> Result<Bound, NoKernel> {
        bind::bind(program, |program, op| {
            let record = bind::describe(program, op);
            let kernel = kernels::choose(&record, &self.chip)
                .ok_or_else(|| NoKernel { backend: "metal", op: explain(program, op) })?;
            Ok(Choice { kernel, units: 1, grain: 1, weight_layout: 0 })
        })
    }

    fn kernel_name(&self, kernel: u32) -> &str {
        kernels::table().get(kernel as usize).map_or("?", |row| &row.name)
    }

    fn dispatches(&self, record: &Record, rows: usize) -> (usize, usize) {
        let Some(row) = kernels::table().get(record.kernel as usize) else { return (0, 0) };
        let dispatches = row.encode(record, &self.chip);
        let run = |dispatch: &&Dispatch| dispatch.when.contains(&(rows as u32));
        let waits = dispatches.iter().filter(run).filter(|dispatch| dispatch.barrier).count();
        let first = usize::from(record.flags & BARRIER != 0 && !dispatches.first().is_some_and(|d| d.barrier));
        (dispatches.iter().filter(run).count(), waits + first)
    }

    /// Programs take turns in one arena.
    fn arena_bytes(&self, programs: &[&Program], _: u64) -> usize {
        programs.iter().map(|p| p.arena_bytes).max().unwrap_or(0)
    }

    fn load(self: Box<Self>, plan: LoadPlan) -> Result<Box<dyn Loaded>, LoadError> {
        Ok(Box::new(self.load_model(plan)?))
    }
}

/// The kernels in use.
fn level(chip: &Chip) -> &'static str {
    match chip.family {
        ..7 => "before apple7",
        7 => "apple7",
        8 => "apple8",
        9 => "apple9",
        _ => "apple10",
    }
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
    let heads = match op.params {
        Params::Heads(p) => Some((p.kv, p.head_dim)),
        Params::Attention(p) => Some((p.kv, p.head_dim)),
        _ => None,
    };
    if let Some((kv, head_dim)) = heads {
        let name = DType::from_index(kv.dtype as u8).map_or("?", |d| d.format().name);
        words += &format!(", heads of {head_dim}, KV cache {name}");
    }
    words
}
