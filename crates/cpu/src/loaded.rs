//! The CPU behind the seam: [`Cpu`] as a backend, and a model that is loaded on it.

use crate::backend::Cpu;
use crate::memory::{Memory, MemoryPlan};
use crate::ready::Ready;
use crate::row_groups;
use crate::{host, kernels, level::Level};
use akunu_plan::backend::*;
use akunu_plan::bind::{Bound, NoKernel};
use akunu_plan::program::{ActivationLayout, Program};
use akunu_plan::record::{Addr, Region};
use akunu_plan::steps::StepVars;
use std::sync::Arc;

/// Row classes of programs that decode: one row, what small-M products take, and a batch.
const DECODE_ROWS: [usize; 3] = [1, 16, BATCH];
const BATCH: usize = 64;

impl Backend for Cpu {
    fn info(&self) -> Info {
        Info {
            backend: "cpu",
            device: host::processor(),
            level: self.level().name(),
            best_level: Level::detect().name(),
            threads: self.threads(),
            free_memory: host::free_memory(),
        }
    }

    fn preferences(&self) -> Preferences {
        Preferences {
            decode: ActivationLayout::Q8,
            // Many rows at once are faster on tiles, where they are rounded more.
            prefill: if self.level().has_tiles() { ActivationLayout::Bf16 } else { ActivationLayout::Q8 },
            prefill_rounds: self.level().has_tiles(),
            decode_rows: DECODE_ROWS.to_vec(),
            prefill_chunk: 512,
            max_chain: 64,
        }
    }

    fn bind(&self, program: &Program) -> Result<Bound, NoKernel> {
        self.choose_kernels(program)
    }

    fn kernel_name(&self, kernel: u32) -> &str {
        kernels::table().get(kernel as usize).map_or("?", |row| &row.name)
    }

    /// Programs take turns in one arena; each row group of a batch has activations of its own.
    fn arena_bytes(&self, programs: &[&Program], weight_bytes: u64) -> usize {
        let row_groups = row_groups::for_batches(self.threads(), BATCH, weight_bytes);
        let decodes = |p: &Program| p.max_rows <= BATCH && !p.kv_groups.is_empty();
        let bytes = |p: &&Program| if decodes(p) { p.arena_bytes * row_groups } else { p.arena_bytes };
        programs.iter().map(bytes).max().unwrap_or(0)
    }

    fn load(self: Box<Self>, plan: LoadPlan) -> Result<Box<dyn Loaded>, LoadError> {
        plan.check()?;
        let weight_bytes = plan.weight_bytes();
        let programs: Vec<&Program> = plan.programs.iter().map(|p| &*p.program).collect();
        let bounds: Vec<&Bound> = plan.programs.iter().map(|p| &p.bound).collect();
        let memory = Memory::new(MemoryPlan {
            programs: &bounds,
            steps: plan.steps,
            kv: &plan.kv,
            files: plan.files,
            copy: !self.in_place(),
            arena: self.arena_bytes(&programs, weight_bytes),
            row_groups: row_groups::for_batches(self.threads(), BATCH, weight_bytes),
        })?;
        let slot = |BoundProgram { program, bound }| {
            let ready = self.ready(bound, program.max_rows, program.max_outputs, &memory)?;
            Ok(Slot { program, ready })
        };
        let programs = plan.programs.into_iter().map(slot).collect::<Result<_, LoadError>>()?;
        Ok(Box::new(LoadedModel { cpu: *self, memory, programs, last: 0, outputs: 0 }))
    }
}

struct Slot {
    program: Arc<Program>,
    ready: Ready,
}

struct LoadedModel {
    cpu: Cpu,
    memory: Memory,
    programs: Vec<Slot>,
    /// The program of the last submission, and the rows of its result.
    last: usize,
    outputs: usize,
}

/// The slot of a program.
fn slot(programs: &[Slot], index: usize) -> Result<&Slot, SubmitError> {
    programs.get(index).ok_or(SubmitError::NoProgram { index, programs: programs.len() })
}

impl Loaded for LoadedModel {
    fn backend(&self) -> &dyn Backend {
        &self.cpu
    }

    fn bound(&self, program: usize) -> &Bound {
        self.programs[program].ready.bound()
    }

    fn steps(&mut self) -> StepVars<'_> {
        self.memory.step_vars()
    }

    /// Results lie where the host reads them, wanted or not.
    fn submit(&mut self, program: usize, steps: usize, _: Want<'_>) -> Result<(), SubmitError> {
        let Slot { program: built, ready } = slot(&self.programs, program)?;
        self.cpu.replay(ready, &mut self.memory, steps)?;
        self.last = program;
        self.outputs = self.memory.step_vars().header().count(built.buffer(built.logits).per);
        Ok(())
    }

    fn output(&self, output: usize) -> &[f32] {
        let Some(Slot { program, ready }) = self.programs.get(self.last).filter(|_| output < self.outputs) else {
            return &[];
        };
        let width = program.buffer(program.logits).width;
        self.memory.logits(ready.bound(), output, width).unwrap_or(&[])
    }

    fn write_input(&mut self, program: usize, values: &[f32]) {
        let Some(Slot { program, .. }) = self.programs.get(program) else { return };
        let Some(input) = program.input.map(|id| program.buffer(id)) else { return };
        let mut rows = values.chunks(input.width.max(1));
        for row in 0..program.capacity(input.per) {
            let at = Addr::new(Region::ARENA, input.offset + row * input.stride());
            let to: &mut [f32] = bytemuck::cast_slice_mut(self.memory.activation_bytes_mut(at, 4 * input.width));
            let given = rows.next().unwrap_or(&[]);
            to[..given.len()].copy_from_slice(given);
            to[given.len()..].fill(0.0);
        }
    }

    fn kv_read(&self, group: usize, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.memory.kv(group)[at..at + to.len()]);
    }

    fn kv_write(&mut self, group: usize, at: usize, from: &[u8]) {
        self.memory.kv_mut(group)[at..at + from.len()].copy_from_slice(from);
    }

    fn kv_copy(&mut self, group: usize, copies: &[KvCopy]) {
        let cache = self.memory.kv_mut(group);
        copies.iter().for_each(|c| cache.copy_within(c.from..c.from + c.bytes, c.to));
    }

    fn time_ops(&mut self, program: usize) -> Result<Vec<u64>, SubmitError> {
        let Slot { ready, .. } = slot(&self.programs, program)?;
        self.outputs = 0;
        self.cpu.replay_timed(ready, &mut self.memory)
    }

    fn bandwidth(&mut self) -> f64 {
        self.cpu.read_bandwidth(&self.memory)
    }
}
