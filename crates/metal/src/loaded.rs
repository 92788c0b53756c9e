//! A model in a GPU's memory: the dispatch tables of its programs, and the steps that are encoded from them.

use crate::backend::Metal;
use crate::dispatch::{Dispatch, PARAMS};
use crate::gpu::{BufferId, Gpu, GpuError, PipelineId};
use crate::kernels;
use akunu_plan::backend::*;
use akunu_plan::bind::Bound;
use akunu_plan::op::Per;
use akunu_plan::program::Program;
use akunu_plan::proof::{MemoryMap, Proof, prove};
use akunu_plan::record::{Addr, BARRIER, Record, Region};
use akunu_plan::steps::{NO_BLOCK, StepLayout, StepVars};
use std::sync::Arc;
use std::time::Instant;

impl From<GpuError> for LoadError {
    fn from(error: GpuError) -> Self {
        LoadError::Device(error.0)
    }
}

impl From<GpuError> for SubmitError {
    fn from(error: GpuError) -> Self {
        SubmitError::Device(error.0)
    }
}

/// A dispatch whose places and pipeline are known.
struct Ready {
    dispatch: Dispatch,
    pipeline: PipelineId,
    buffers: Vec<(u32, BufferId, usize, usize)>,
    record: usize,
}

struct Slot {
    program: Arc<Program>,
    bound: Bound,
    proof: Proof,
    table: Vec<Ready>,
}

/// Rows times dispatches of a command buffer. The system ends one that keeps the GPU for seconds, and the first of several runs
/// while the next is encoded. A chain of steps with few rows stays below it.
const MOST_WORK: u32 = 16_384;

/// See the module; public for tests of kernels.
#[doc(hidden)]
pub struct LoadedModel {
    backend: Metal,
    gpu: Box<dyn Gpu>,
    regions: Regions,
    programs: Vec<Slot>,
    layout: StepLayout,
    /// KV blocks, by group.
    blocks: Vec<usize>,
    /// The program of the last submission, and the rows of its result.
    last: usize,
    outputs: usize,
}

/// The buffer of every region.
struct Regions {
    arena: BufferId,
    constants: BufferId,
    steps: BufferId,
    kv: Vec<BufferId>,
    files: Vec<FilePlace>,
    lens: [usize; Region::COUNT],
}

impl Regions {
    /// The buffer of a region, and where in it the region begins.
    fn place(&self, region: Region) -> Option<(BufferId, usize)> {
        let whole = |buffer: BufferId| (buffer, 0);
        match region {
            Region::ARENA => Some(whole(self.arena)),
            Region::CONSTANTS => Some(whole(self.constants)),
            Region::STEPS => Some(whole(self.steps)),
            _ => match (region.kv_group(), region.file_index()) {
                (Some(group), _) => self.kv.get(group).copied().map(whole),
                (_, Some(file)) => self.files.get(file).map(|place| (place.buffer, place.shift)),
                _ => None,
            },
        }
    }
}

/// A model file in the GPU's memory: where it is mapped, or a copy that begins some bytes later, so that its weights are where a
/// GPU can read them.
struct FilePlace {
    buffer: BufferId,
    shift: usize,
}

impl FilePlace {
    fn new(gpu: &mut dyn Gpu, file: Arc<dyn WeightFile>, shift: usize) -> Result<Self, LoadError> {
        if shift == 0 {
            return Ok(Self { buffer: gpu.map(file)?, shift });
        }
        const AT_ONCE: usize = 16 << 20;
        let bytes = file.bytes().len();
        let buffer = gpu.allocate(shift + bytes)?;
        for (nth, part) in gpu.bytes_mut(buffer)[shift..].chunks_mut(AT_ONCE).enumerate() {
            file.read(nth * AT_ONCE, part).map_err(|error| LoadError::Unreadable(error.to_string()))?;
        }
        Ok(Self { buffer, shift })
    }
}

/// Bytes that a file must lie later for the weights of these programs to be aligned: safetensors files begin with a header of any
/// length.
fn shift(programs: &[BoundProgram], file: usize) -> Result<usize, LoadError> {
    let weights = || programs.iter().flat_map(|p| &p.bound.records).flat_map(kernels::weights);
    let here = |(at, _): &(Addr, usize)| at.region().file_index() == Some(file);
    let fits = |shift: &usize| weights().filter(here).all(|(at, align)| (at.offset() + shift).is_multiple_of(align));
    let what = "the weights of a file are not at multiples of their size from each other";
    (0..4).find(fits).ok_or_else(|| LoadError::Device(what.into()))
}

/// To the bit: there may be NaN among them.
fn same(a: &[f32], b: &[f32]) -> bool {
    bytemuck::cast_slice::<f32, u32>(a) == bytemuck::cast_slice::<f32, u32>(b)
}

/// Bytes of pools; none is so large that it could not be addressed.
fn pool_bytes(pool: &KvPool) -> Result<usize, LoadError> {
    let bytes = pool.block_bytes as u128 * pool.blocks as u128;
    pool.bytes().ok_or(LoadError::TooLarge { what: "KV cache", bytes })
}

impl LoadedModel {
    pub(crate) fn new(backend: Metal, mut gpu: Box<dyn Gpu>, plan: LoadPlan) -> Result<Self, LoadError> {
        plan.check()?;
        let LoadPlan { programs, steps, kv, files } = plan;
        let constants = programs.first().map_or(&[][..], |p| &p.bound.constants);
        if let Some(other) = programs.iter().position(|p| !same(&p.bound.constants, constants)) {
            return Err(LoadError::OtherConstants(other));
        }
        let mut lens = [0; Region::COUNT];
        let mut take = |gpu: &mut Box<dyn Gpu>, region: Region, bytes: usize| -> Result<BufferId, LoadError> {
            lens[region.0 as usize] = bytes;
            Ok(gpu.allocate(bytes.max(16))?)
        };
        let arena = programs.iter().map(|p| p.bound.arena_bytes).max().unwrap_or(0);
        let arena = take(&mut gpu, Region::ARENA, arena)?;
        let buffer = take(&mut gpu, Region::CONSTANTS, size_of_val(constants))?;
        gpu.bytes_mut(buffer)[..size_of_val(constants)].copy_from_slice(bytemuck::cast_slice(constants));
        let variables = take(&mut gpu, Region::STEPS, steps.bytes())?;
        *StepVars::new(words(gpu.bytes_mut(variables))).header_mut() = steps.header();
        let mut pools = Vec::new();
        for (group, pool) in kv.iter().enumerate() {
            pools.push(take(&mut gpu, Region::kv(group as u8), pool_bytes(pool)?)?);
        }
        let mut mapped = Vec::new();
        for (index, file) in files.into_iter().enumerate() {
            lens[Region::file(index as u8).0 as usize] = file.bytes().len();
            mapped.push(FilePlace::new(&mut *gpu, file, shift(&programs, index)?)?);
        }
        let blocks = kv.iter().map(|pool| pool.blocks).collect();
        let regions = Regions { arena, constants: buffer, steps: variables, kv: pools, files: mapped, lens };
        let mut slots = Vec::new();
        for BoundProgram { program, bound } in programs {
            let memory = MemoryMap { lens: &regions.lens, kv: &kv };
            let chip = backend.chip();
            let serves = |record: &Record| match kernels::table().get(record.kernel as usize) {
                Some(row) if row.offers(record, chip) => Ok(()),
                _ => Err("its kernel cannot run it".to_owned()),
            };
            let proof = prove(&bound, (program.max_rows, program.max_outputs), &memory, serves)?;
            let table = table(&bound, &backend, &mut *gpu, &regions)?;
            slots.push(Slot { program, bound, proof, table });
        }
        Ok(Self { backend, gpu, regions, programs: slots, layout: steps, blocks, last: 0, outputs: 0 })
    }

    /// The activations of all programs.
    pub fn arena_mut(&mut self) -> &mut [u8] {
        self.gpu.bytes_mut(self.regions.arena)
    }

    fn vars(&mut self) -> StepVars<'_> {
        StepVars::new(words(self.gpu.bytes_mut(self.regions.steps)))
    }

    /// Whether the step variables are what the program was proven for; the rows of its dispatches.
    fn checked(&mut self, program: usize, steps: usize) -> Result<Counts, SubmitError> {
        let programs = self.programs.len();
        let layout = self.layout;
        let vars = StepVars::new(words(self.gpu.bytes_mut(self.regions.steps)));
        let slot = self.programs.get(program).ok_or(SubmitError::NoProgram { index: program, programs })?;
        slot.proof.check_steps(&vars, &layout, steps)?;
        if slot.proof.kv_read || slot.proof.kv_written != 0 {
            check_tables(&vars, &self.blocks)?;
        }
        let header = vars.header();
        Ok(Counts([Per::Row, Per::Output, Per::Frame].map(|per| header.count(per) as u32)))
    }

    /// Chains whose texts have rules may end early: the host looks after every command buffer.
    fn may_end(&mut self) -> bool {
        self.vars().texts().iter().any(|text| text.on != 0)
    }
}

/// Whether the tables of a step's sequences name blocks that are there: kernels know of `NO_BLOCK` alone.
fn check_tables(vars: &StepVars<'_>, blocks: &[usize]) -> Result<(), SubmitError> {
    let mut before = None;
    for sequence in vars.rows().iter().map(|row| row.sequence) {
        if before.replace(sequence) == Some(sequence) {
            continue;
        }
        for (group, blocks) in blocks.iter().enumerate() {
            let there = |block: &&u32| **block == NO_BLOCK || (**block as usize) < *blocks;
            let table = vars.table(group, sequence as usize);
            if let Some(block) = table.iter().find(|block| !there(block)) {
                return Err(SubmitError::Device(format!("KV block {block} of {blocks} was asked for")));
            }
        }
    }
    Ok(())
}

/// Rows, outputs and frames of a step.
#[derive(Clone, Copy)]
struct Counts([u32; 3]);

impl Counts {
    fn of(self, per: Per) -> u32 {
        match per {
            Per::Row => self.0[0],
            Per::Output => self.0[1],
            Per::Frame => self.0[2],
        }
    }
}

/// The dispatches of all records.
fn table(bound: &Bound, backend: &Metal, gpu: &mut dyn Gpu, regions: &Regions) -> Result<Vec<Ready>, LoadError> {
    let mut table = Vec::new();
    for (index, record) in bound.records.iter().enumerate() {
        let row = &kernels::table()[record.kernel as usize];
        for (nth, mut dispatch) in row.encode(record, backend.chip()).into_iter().enumerate() {
            if nth == 0 && record.flags & BARRIER != 0 {
                dispatch.barrier = true;
            }
            let pipeline = gpu.pipeline(&dispatch.function, dispatch.threads.iter().product())?;
            let place = |binding: &crate::dispatch::Binding| {
                let region = binding.at.region();
                let (buffer, begins) = regions.place(region)?;
                let rest = regions.lens[region.0 as usize].checked_sub(binding.at.offset())?;
                let bytes = binding.bytes.unwrap_or(rest).min(rest);
                Some((binding.index, buffer, begins + binding.at.offset(), bytes))
            };
            let buffers = dispatch.buffers.iter().map(place).collect::<Option<_>>();
            let buffers = buffers
                .ok_or_else(|| LoadError::Device(format!("{}: a buffer is not there", dispatch.function.name)))?;
            table.push(Ready { dispatch, pipeline, buffers, record: index });
        }
    }
    Ok(table)
}

/// Encodes one dispatch, as far as there are rows for it.
fn encode(gpu: &mut dyn Gpu, ready: &Ready, counts: Counts, barrier: bool) {
    let Ready { dispatch, pipeline, buffers, .. } = ready;
    let rows = counts.of(dispatch.per);
    if barrier {
        gpu.barrier();
    }
    if rows == 0 || !dispatch.when.contains(&rows) {
        return;
    }
    gpu.set_pipeline(*pipeline);
    for (index, buffer, offset, bytes) in buffers {
        gpu.set_buffer(*index, *buffer, *offset, *bytes);
    }
    match dispatch.rows_at {
        Some(at) => {
            let mut params = [0; 256];
            let params = &mut params[..dispatch.params.len()];
            params.copy_from_slice(&dispatch.params);
            params[at..at + 4].copy_from_slice(&rows.to_le_bytes());
            gpu.set_bytes(PARAMS, params);
        }
        None if dispatch.params.is_empty() => {}
        None => gpu.set_bytes(PARAMS, &dispatch.params),
    }
    for (index, bytes) in dispatch.threadgroup_memory.iter().enumerate() {
        gpu.set_threadgroup_memory(index as u32, *bytes);
    }
    gpu.dispatch(dispatch.threadgroups.map(|extent| extent.of(rows)), dispatch.threads);
}

/// A buffer's bytes as words.
fn words(bytes: &mut [u8]) -> &mut [u32] {
    // Buffers begin at multiples of 16.
    bytemuck::cast_slice_mut(bytes)
}

impl Loaded for LoadedModel {
    fn backend(&self) -> &dyn Backend {
        &self.backend
    }

    fn bound(&self, program: usize) -> &Bound {
        &self.programs[program].bound
    }

    fn steps(&mut self) -> StepVars<'_> {
        self.vars()
    }

    /// Results lie where the host reads them, wanted or not.
    fn submit(&mut self, program: usize, steps: usize, _: Want<'_>) -> Result<(), SubmitError> {
        let counts = self.checked(program, steps)?;
        let may_end = self.may_end();
        let mut left = steps;
        while left > 0 {
            let chunk = left.min(self.backend.chip().chain_chunk.max(1));
            let Self { gpu, programs, .. } = self;
            let mut work = 0;
            gpu.begin()?;
            for _ in 0..chunk {
                for (index, ready) in programs[program].table.iter().enumerate() {
                    // A step waits for the one before it.
                    let barrier = ready.dispatch.barrier || index == 0;
                    if barrier && work >= MOST_WORK {
                        gpu.commit();
                        gpu.begin()?;
                        work = 0;
                    }
                    encode(&mut **gpu, ready, counts, barrier);
                    work += counts.of(ready.dispatch.per);
                }
            }
            gpu.commit();
            left -= chunk;
            if may_end && left > 0 {
                self.gpu.wait()?;
                if self.vars().header().ended != 0 {
                    break;
                }
            }
        }
        self.gpu.wait()?;
        self.last = program;
        let Slot { program, .. } = &self.programs[program];
        self.outputs = counts.of(program.buffer(program.logits).per) as usize;
        Ok(())
    }

    fn output(&self, output: usize) -> &[f32] {
        let Some(Slot { program, bound, .. }) = self.programs.get(self.last).filter(|_| output < self.outputs) else {
            return &[];
        };
        let width = program.buffer(program.logits).width;
        let at = bound.logits.offset() + output * bound.logits_stride;
        let bytes = self.gpu.bytes(self.regions.arena).get(at..at + 4 * width);
        bytes.map_or(&[], bytemuck::cast_slice)
    }

    fn write_input(&mut self, program: usize, values: &[f32]) {
        let Some(Slot { program, .. }) = self.programs.get(program) else { return };
        let Some(input) = program.input.map(|id| program.buffer(id)) else { return };
        let mut rows = values.chunks(input.width.max(1));
        let arena = self.gpu.bytes_mut(self.regions.arena);
        for row in 0..program.capacity(input.per) {
            let at = Addr::new(Region::ARENA, input.offset + row * input.stride()).offset();
            let to: &mut [f32] = bytemuck::cast_slice_mut(&mut arena[at..at + 4 * input.width]);
            let given = rows.next().unwrap_or(&[]);
            to[..given.len()].copy_from_slice(given);
            to[given.len()..].fill(0.0);
        }
    }

    fn kv_read(&self, group: usize, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.gpu.bytes(self.regions.kv[group])[at..at + to.len()]);
    }

    fn kv_write(&mut self, group: usize, at: usize, from: &[u8]) {
        self.gpu.bytes_mut(self.regions.kv[group])[at..at + from.len()].copy_from_slice(from);
    }

    fn kv_copy(&mut self, group: usize, copies: &[KvCopy]) {
        let cache = self.gpu.bytes_mut(self.regions.kv[group]);
        copies.iter().for_each(|c| cache.copy_within(c.from..c.from + c.bytes, c.to));
    }

    /// A command buffer for every record.
    fn time_ops(&mut self, program: usize) -> Result<Vec<u64>, SubmitError> {
        let counts = self.checked(program, 1)?;
        self.outputs = 0;
        let Self { gpu, programs, .. } = self;
        let Slot { bound, table, .. } = &programs[program];
        let mut times = Vec::with_capacity(bound.records.len());
        for record in 0..bound.records.len() {
            let start = Instant::now();
            gpu.begin()?;
            for ready in table.iter().filter(|ready| ready.record == record) {
                encode(&mut **gpu, ready, counts, ready.dispatch.barrier);
            }
            gpu.commit();
            gpu.wait()?;
            times.push(gpu.busy().unwrap_or_else(|| start.elapsed()).as_nanos() as u64);
        }
        Ok(times)
    }

    /// As the vendor says.
    fn bandwidth(&mut self) -> f64 {
        self.backend.chip().bandwidth * 1e9
    }
}
