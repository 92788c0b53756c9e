//! The reference executor as a backend: every surface of the engine runs on it, slowly.
//!
//! It keeps to the seam's letter where other backends are lenient: an output that was not wanted is not there.

use super::{Buffers, Bytes, Executor, Kv, steps_of};
use crate::backend::*;
use crate::bind::{Bound, Choice, NoKernel, bind};
use crate::op::OpKind;
use crate::program::{ActivationLayout, Program};
use crate::proof::{MemoryMap, Proof, Unsound, prove};
use crate::record::{Addr, Region};
use crate::steps::{StepLayout, StepVars};
use std::sync::Arc;
use std::time::Instant;

const LEVEL: &str = "f32";

/// See the module.
pub struct ReferenceBackend;

/// Bytes by region that every program has of its own.
fn own_regions(program: &Program) -> [usize; Region::COUNT] {
    let mut lens = [0; Region::COUNT];
    lens[Region::ARENA.0 as usize] = program.arena_bytes;
    lens[Region::CONSTANTS.0 as usize] = program.constants.len() * 4;
    lens
}

impl Backend for ReferenceBackend {
    fn info(&self) -> Info {
        Info {
            backend: "reference",
            device: "the reference executor".into(),
            level: LEVEL,
            best_level: LEVEL,
            threads: 1,
            free_memory: None,
        }
    }

    fn preferences(&self) -> Preferences {
        Preferences {
            decode: ActivationLayout::F32,
            prefill: ActivationLayout::F32,
            prefill_rounds: false,
            decode_rows: vec![1, 16, 64],
            prefill_chunk: 64,
            max_chain: 64,
        }
    }

    fn bind(&self, program: &Program) -> Result<Bound, NoKernel> {
        bind(program, |_, op| Ok(Choice { kernel: op.kind as u32, units: 1, grain: 1, weight_layout: 0 }))
    }

    fn kernel_name(&self, kernel: u32) -> &str {
        OpKind::from_index(kernel).map_or("?", |kind| kind.spec().name)
    }

    /// Activations lie in vectors of their own, all of them f32.
    fn arena_bytes(&self, programs: &[&Program], _: u64) -> usize {
        let bytes = |p: &&Program| p.buffers.iter().map(|b| 4 * p.capacity(b.per) * b.width).sum::<usize>();
        programs.iter().map(bytes).sum()
    }

    fn load(self: Box<Self>, plan: LoadPlan) -> Result<Box<dyn Loaded>, LoadError> {
        plan.check()?;
        let LoadPlan { programs, steps, kv, files } = plan;
        let pools = kv;
        let kv = Kv::new(&pools)?;
        let mut loaded = Vec::new();
        for BoundProgram { program, bound } in programs {
            let mut lens = own_regions(&program);
            for (group, pool) in pools.iter().enumerate() {
                lens[Region::kv(group as u8).0 as usize] = pool.bytes().unwrap_or(0);
            }
            for (index, file) in files.iter().enumerate() {
                lens[Region::file(index as u8).0 as usize] = file.bytes().len();
            }
            let rows = (program.max_rows, program.max_outputs);
            let proof = prove(&bound, rows, &MemoryMap { lens: &lens, kv: &pools }, |_| Ok(()))?;
            // What runs is the program; the proof is of its records.
            if !self.bind(&program).is_ok_and(|own| own.records == bound.records) {
                let what = "the records are not those of the program".into();
                return Err(Unsound { index: 0, op: "program", what }.into());
            }
            loaded.push(Slot { buffers: Buffers::new(&program), program, bound, proof });
        }
        let variables = steps_of(steps);
        let files = Files(files);
        Ok(Box::new(ReferenceModel { programs: loaded, files, kv, layout: steps, steps: variables, last: Vec::new() }))
    }
}

struct Slot {
    program: Arc<Program>,
    bound: Bound,
    proof: Proof,
    buffers: Buffers,
}

struct Files(Vec<Arc<dyn WeightFile>>);

impl Bytes for Files {
    fn bytes(&self, addr: Addr, len: usize) -> &[u8] {
        // The proof has seen that weights lie inside their files.
        addr.region().file_index().map_or(&[], |file| &self.0[file].bytes()[addr.offset()..addr.offset() + len])
    }
}

struct ReferenceModel {
    programs: Vec<Slot>,
    files: Files,
    kv: Kv,
    layout: StepLayout,
    steps: Vec<u32>,
    /// Outputs of the last submission; empty where nobody wanted them.
    last: Vec<Vec<f32>>,
}

impl ReferenceModel {
    fn checked(&mut self, program: usize, steps: usize) -> Result<Executor<'_>, SubmitError> {
        let programs = self.programs.len();
        let slot = self.programs.get_mut(program).ok_or(SubmitError::NoProgram { index: program, programs })?;
        slot.proof.check_steps(&StepVars::new(&mut self.steps), &self.layout, steps)?;
        let Slot { program, buffers, .. } = slot;
        Ok(Executor {
            program,
            weights: &self.files,
            buffers: &mut buffers.0,
            kv: &mut self.kv,
            steps: &mut self.steps,
        })
    }
}

impl Loaded for ReferenceModel {
    fn backend(&self) -> &dyn Backend {
        &ReferenceBackend
    }

    fn bound(&self, program: usize) -> &Bound {
        &self.programs[program].bound
    }

    fn steps(&mut self) -> StepVars<'_> {
        StepVars::new(&mut self.steps)
    }

    fn submit(&mut self, program: usize, steps: usize, want: Want<'_>) -> Result<(), SubmitError> {
        let mut executor = self.checked(program, steps)?;
        (0..steps).for_each(|_| executor.run());
        let Slot { program, buffers, .. } = &self.programs[program];
        let result = program.buffer(program.logits);
        let rows = buffers.0[program.logits.0 as usize].chunks(result.width.max(1));
        let count = StepVars::new(&mut self.steps).header().count(result.per);
        let wanted = rows.take(count).enumerate();
        self.last = wanted.map(|(o, row)| if want.has(o) { row.to_vec() } else { Vec::new() }).collect();
        Ok(())
    }

    fn output(&self, output: usize) -> &[f32] {
        self.last.get(output).map_or(&[], Vec::as_slice)
    }

    fn write_input(&mut self, program: usize, values: &[f32]) {
        let Some(Slot { program, buffers, .. }) = self.programs.get_mut(program) else { return };
        let Some(input) = program.input else { return };
        let to = &mut buffers.0[input.0 as usize];
        let given = values.len().min(to.len());
        to[..given].copy_from_slice(&values[..given]);
        to[given..].fill(0.0);
    }

    fn kv_read(&self, group: usize, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.kv.group(group)[at..at + to.len()]);
    }

    fn kv_write(&mut self, group: usize, at: usize, from: &[u8]) {
        self.kv.group_mut(group)[at..at + from.len()].copy_from_slice(from);
    }

    fn kv_copy(&mut self, group: usize, copies: &[KvCopy]) {
        let bytes = self.kv.group_mut(group);
        copies.iter().for_each(|c| bytes.copy_within(c.from..c.from + c.bytes, c.to));
    }

    fn time_ops(&mut self, program: usize) -> Result<Vec<u64>, SubmitError> {
        self.last.clear();
        let mut executor = self.checked(program, 1)?;
        let ops = 0..executor.program.ops.len();
        let timed = |index| {
            let start = Instant::now();
            executor.run_op(index);
            start.elapsed().as_nanos() as u64
        };
        Ok(ops.map(timed).collect())
    }

    fn bandwidth(&mut self) -> f64 {
        let start = Instant::now();
        let mut bytes = 0;
        for file in &self.files.0 {
            bytes += file.bytes().len();
            std::hint::black_box(file.bytes().iter().fold(0u8, |sum, byte| sum ^ byte));
        }
        bytes as f64 / start.elapsed().as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_have_their_names_as_kernels() {
        assert_eq!(ReferenceBackend.kernel_name(OpKind::Embed as u32), OpKind::Embed.spec().name);
        assert_eq!(ReferenceBackend.kernel_name(u32::MAX), "?");
    }
}
