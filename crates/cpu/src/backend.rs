//! The backend: chooses kernels once, then walks the records with all workers.

use crate::block::{ALIGN, Block};
use crate::context::{Context, SCRATCH_BYTES};
use crate::kernels::{self, LONG, matmul};
use crate::level::{Level, LevelError};
use crate::memory::{Memory, MemoryError};
use crate::parts::{self, Parts, Progress};
use crate::pool::Pool;
use crate::ready::{self, Ready, Unready};
use crate::simd::prefetch;
use akunu_gemm::dots::{AHEAD, PLACES};
use akunu_gemm::packed;
use akunu_dtype::DType;
use akunu_plan::bind::{Bound, Choice, NoKernel, bind};
use akunu_plan::op::{MAXIMA_SLICE, Params, slots};
use akunu_plan::program::{Arg, Op, Program, Weight};
use akunu_plan::record::{Record, Region, encode_params, flags, packed_flag};
use akunu_plan::steps::{KV_BLOCK, RowVars, StepHeader};
use bytemuck::Zeroable;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How to set the backend up; `None` is the machine's own answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub threads: Option<usize>,
    /// Overrides `AKUNU_CPU`.
    pub level: Option<Level>,
    /// Use weights as they lie in their files, not packed.
    pub in_place: bool,
}

/// Why the backend could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Level(#[from] LevelError),
    #[error("could not start the worker threads: {0}")]
    Threads(#[from] std::io::Error),
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Why a submission was refused. Nothing was run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("the program was made ready for another memory")]
    OtherMemory,
    #[error("the step variables' header does not describe this memory's layout")]
    Header,
    #[error("the step has {asked} {what}, the program at most {most}")]
    TooMany { what: &'static str, asked: usize, most: usize },
    #[error("output {output} asks for row {row} of {rows}")]
    OutputRow { output: usize, row: usize, rows: usize },
    #[error(
        "row {row} hides places, or is stored ahead of its position, beyond the block of its own place or in a program for prompts"
    )]
    Hidden { row: usize },
    #[error("row {row} belongs to sequence {sequence} of {sequences}")]
    Sequence { row: usize, sequence: usize, sequences: usize },
    #[error("row {row} would reach position {position}; the context ends at {context}")]
    ContextFull { row: usize, position: usize, context: usize },
    #[error("row {row} does not go on where its text is: a text's rows stand together, from its first to its last")]
    Text { row: usize },
    #[error("record {index} of {records} was asked for")]
    NoRecord { index: usize, records: usize },
}

/// The CPU backend.
pub struct Cpu {
    pool: Pool,
    level: Level,
    in_place: bool,
    progress: Progress,
    /// `SCRATCH_BYTES` for every worker, and for the one that helps it.
    scratch: Block,
}

impl Cpu {
    pub fn new(options: Options) -> Result<Self, Error> {
        let level = match options.level {
            Some(level) => level.checked()?,
            None => Level::from_environment()?,
        };
        let pool = Pool::new(options.threads.unwrap_or_else(Pool::default_threads))?;
        let scratch = Block::zeroed("scratch", pool.workers() * parts::LANES * SCRATCH_BYTES)?;
        let progress = Progress::new(pool.workers(), pool.spins());
        Ok(Self { pool, level, in_place: options.in_place, progress, scratch })
    }

    /// Has parts of steps run as where a worker helps another in every phase: for tests.
    #[doc(hidden)]
    pub fn halve_parts(&mut self) {
        self.progress.halves = true;
    }

    pub fn level(&self) -> Level {
        self.level
    }

    pub fn threads(&self) -> usize {
        self.pool.workers()
    }

    /// A kernel's name, by the index records carry.
    pub fn kernel_name(index: u32) -> &'static str {
        kernels::table().get(index as usize).map_or("?", |row| &row.name)
    }

    /// Chooses a kernel for every op and writes the records.
    pub fn bind(&self, program: &Program) -> Result<Bound, NoKernel> {
        bind(program, |program, op| {
            let packed = self.packs(program, op);
            let mut record = describe(program, op);
            record.flags |= packed_flag(packed);
            let kernel = kernels::choose(&record, self.level)
                .ok_or_else(|| NoKernel { backend: "cpu", op: explain(program, op) })?;
            let (units, grain) = geometry(op);
            Ok(Choice { kernel, units, grain, packed })
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
            let fits = w.rows.is_multiple_of(packed::ROWS) && w.cols <= packed::MAX_COLS;
            fits && akunu_gemm::table::packs(w.dtype, self.level)
        };
        !self.in_place && weight.is_some_and(packs)
    }

    /// Checks a bound program against the memory it will run in, for up to `rows` rows and
    /// `outputs` output rows (the program's `max_rows` and `max_outputs`).
    pub fn ready(&self, bound: Bound, rows: usize, outputs: usize, memory: &Memory) -> Result<Ready, Unready> {
        ready::check(bound, (rows, outputs), memory, self.level)
    }

    /// Runs the program `steps` times with nothing in between, or until all texts have ended: `Advance` moves the step
    /// variables. No two texts write to the same block of the KV cache.
    pub fn replay(&mut self, ready: &Ready, memory: &mut Memory, steps: usize) -> Result<(), ReplayError> {
        check_steps(ready, memory, steps)?;
        if may_part(ready, memory, self.threads(), steps) {
            self.replay_parts(ready, memory, steps);
            return Ok(());
        }
        memory.set_parts(Parts::WHOLE);
        let kernels = kernels::table();
        let context = Context::new(memory, kernels, self.scratch.base(), ready, self.pool.barrier());
        let phases = &ready.phases[..];
        self.pool.run_phases(steps * phases.len(), &|phase, lane| {
            if context.ended() {
                return;
            }
            for record in &ready.bound.records[phases[phase % phases.len()].clone()] {
                // SAFETY: `ready` has checked every record against this memory and this machine,
                // `check_steps` the step variables; a phase ends where records depend on each
                // other, and all its lanes pass every record once.
                unsafe { (kernels[record.kernel as usize].run)(record, &context, lane) }
            }
        });
        Ok(())
    }

    /// Runs the program as [`Self::replay`], each worker with some of the rows by itself, until it helps others with theirs.
    fn replay_parts(&mut self, ready: &Ready, memory: &mut Memory, steps: usize) {
        let kernels = kernels::table();
        let header = memory.step_vars().header();
        let parts = Parts { count: self.threads(), rows: header.rows as usize, arena: ready.bound.arena_bytes };
        memory.set_parts(parts);
        let whole = Context::new(memory, kernels, self.scratch.base(), ready, self.pool.barrier());
        let mut headers = [header; parts::MOST];
        let contexts: [Option<Context<'_>>; parts::MOST] = std::array::from_fn(|index| {
            // SAFETY: `may_part` has seen that rows have outputs and texts of their own, and that the arena has room; there is
            // scratch for every lane of every part.
            (index < parts.count).then(|| unsafe { whole.part(parts, index, &raw mut headers[index]) })
        });
        let phases = &ready.phases[..];
        self.progress.begin();
        let progress = &self.progress;
        self.pool.run(&|worker, _| {
            progress.work(worker.index, steps * phases.len(), &|part, phase, lane| {
                let Some(context) = &contexts[part] else { return };
                for record in &ready.bound.records[phases[phase % phases.len()].clone()] {
                    // SAFETY: as in `replay`; the lanes of a part meet after every phase.
                    unsafe { (kernels[record.kernel as usize].run)(record, context, lane) }
                }
            });
        });
        memory.step_vars().header_mut().emitted_steps = headers[0].emitted_steps;
    }

    /// Runs one record of the program, to look at its result.
    pub fn replay_one(&mut self, ready: &Ready, memory: &mut Memory, index: usize) -> Result<(), ReplayError> {
        check_steps(ready, memory, 1)?;
        memory.set_parts(Parts::WHOLE);
        let records = ready.bound.records.len();
        let record = ready.bound.records.get(index).ok_or(ReplayError::NoRecord { index, records })?;
        let kernels = kernels::table();
        let context = Context::new(memory, kernels, self.scratch.base(), ready, self.pool.barrier());
        self.pool.run(&|lane, _| {
            // SAFETY: as in `replay`; a record alone has nothing to wait for.
            unsafe { (kernels[record.kernel as usize].run)(record, &context, lane) }
        });
        Ok(())
    }

    /// Bytes a second that all workers together read the model files at, doing nothing else: what products with one row
    /// are bound by.
    pub fn read_bandwidth(&mut self, memory: &Memory) -> f64 {
        let files: Vec<&[u8]> = (0..Region::MAX_FILES).map(|i| memory.bytes(Region::file(i as u8))).collect();
        let bytes: usize = files.iter().map(|f| f.len()).sum();
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..5 {
            let start = Instant::now();
            self.pool.run(&|lane, _| {
                for file in &files {
                    std::hint::black_box(read_through(&file[lane.share(file.len(), 4096)]));
                }
            });
            times.push(start.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        bytes as f64 / times[times.len() / 2].max(1e-9)
    }

    /// One step with a barrier after every record: the nanoseconds each took, barrier included.
    pub fn replay_timed(&mut self, ready: &Ready, memory: &mut Memory) -> Result<Vec<u64>, ReplayError> {
        check_steps(ready, memory, 1)?;
        memory.set_parts(Parts::WHOLE);
        let kernels = kernels::table();
        let context = Context::new(memory, kernels, self.scratch.base(), ready, self.pool.barrier());
        let records = &ready.bound.records[..];
        let times: Vec<AtomicU64> = records.iter().map(|_| AtomicU64::new(0)).collect();
        self.pool.run(&|lane, barrier| {
            barrier.wait();
            let mut last = Instant::now();
            for (record, time) in records.iter().zip(&times) {
                // SAFETY: as in `replay`, with a barrier between any two records.
                unsafe { (kernels[record.kernel as usize].run)(record, &context, lane) }
                barrier.wait();
                if lane.index == 0 {
                    let now = Instant::now();
                    time.store((now - last).as_nanos() as u64, Ordering::Relaxed);
                    last = now;
                }
            }
        });
        Ok(times.into_iter().map(AtomicU64::into_inner).collect())
    }
}

/// Touches every cache line, at as many places by turns as the kernels do, which is how memory gives most.
fn read_through(bytes: &[u8]) -> u64 {
    const LINE: usize = 64;
    let mut sum = 0_u64;
    let part = (bytes.len() / PLACES).next_multiple_of(4 * LINE).max(4 * LINE);
    for at in (0..part).step_by(4 * LINE) {
        for place in bytes.chunks(part) {
            for line in place.iter().skip(at).step_by(LINE).take(4) {
                prefetch((&raw const *line).wrapping_add(AHEAD));
                sum = sum.wrapping_add(u64::from(*line));
            }
        }
    }
    sum
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
                words += &format!(", {} {:?} {}", buffer.name, buffer.store, buffer.width);
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

/// Rows from which on a worker may take them through the whole program by itself: with fewer, products take longer a row.
pub const PART_ROWS: usize = 16;

/// Whether each worker may take some rows of a step by itself: they are of different texts, and come out as they do together, to the
/// bit.
fn may_part(ready: &Ready, memory: &mut Memory, workers: usize, steps: usize) -> bool {
    let arena = ready.bound.arena_bytes;
    let room = arena.is_multiple_of(ALIGN) && memory.bytes(Region::ARENA).len() / workers >= arena;
    let allowed = memory.most_parts() == workers && (2..=parts::MOST).contains(&workers) && room && ready.rows_apart;
    let vars = memory.step_vars();
    let header = vars.header();
    // What sees more is split among the workers.
    let short = |row: &RowVars| row.place().saturating_add(steps).max(row.length as usize) < LONG;
    allowed
        && header.rows as usize >= workers * PART_ROWS
        && header.outputs == header.rows
        // Texts with rules end a chain when all of them have ended, which no part knows of the others.
        && header.ended == 0
        && vars.texts().iter().all(|text| text.on == 0)
        && vars.outputs().iter().zip(0..).all(|(row, output)| *row == output)
        && vars.rows().windows(2).all(|rows| rows[0].sequence < rows[1].sequence)
        && vars.rows().iter().all(short)
}

/// Everything a kernel takes from the step variables, checked once per submission: some
/// comparisons per row. Block-table entries are checked where they are used.
fn check_steps(ready: &Ready, memory: &mut Memory, steps: usize) -> Result<(), ReplayError> {
    if ready.memory != memory.identity() {
        return Err(ReplayError::OtherMemory);
    }
    let layout = memory.step_layout();
    let vars = memory.step_vars();
    let header = vars.header();
    let (rows, outputs) = (header.rows as usize, header.outputs as usize);
    let emitted = header.emitted_steps as usize;
    let expected = StepHeader {
        rows: header.rows,
        outputs: header.outputs,
        emitted_steps: header.emitted_steps,
        ended: header.ended,
        ..layout.header()
    };
    if bytemuck::bytes_of(&expected) != bytemuck::bytes_of(&header) {
        return Err(ReplayError::Header);
    }
    let limit =
        |what, asked, most| if asked <= most { Ok(()) } else { Err(ReplayError::TooMany { what, asked, most }) };
    limit("rows", rows, ready.rows.min(layout.max_rows))?;
    limit("outputs", outputs, ready.outputs.min(layout.max_outputs))?;
    if ready.rounds {
        limit("steps", steps, 1)?;
    }
    if ready.advances {
        limit("steps", emitted.saturating_add(steps), layout.max_chain)?;
    }
    for (output, &row) in vars.outputs().iter().enumerate() {
        if row as usize >= rows {
            return Err(ReplayError::OutputRow { output, row: row as usize, rows });
        }
    }
    if ready.whole_texts {
        return check_texts(vars.rows());
    }
    let context = layout.table_blocks * KV_BLOCK;
    for (row, vars) in vars.rows().iter().enumerate() {
        let sequence = vars.sequence as usize;
        if sequence >= layout.sequences {
            return Err(ReplayError::Sequence { row, sequence, sequences: layout.sequences });
        }
        let last = if ready.advances { steps.saturating_sub(1) } else { 0 };
        // Hidden places are those of the block before the row's own place.
        let inside = vars.place() % KV_BLOCK;
        let beyond = vars.hidden_places().checked_shr(inside as u32).unwrap_or(0) != 0 || vars.ahead as usize > inside;
        if beyond || ready.rounds && (vars.ahead != 0 || vars.hidden_places() != 0) {
            return Err(ReplayError::Hidden { row });
        }
        let position = vars.place().saturating_add(last);
        if position >= context {
            return Err(ReplayError::ContextFull { row, position, context });
        }
    }
    Ok(())
}

/// Rows that look at each other: runs of positions `0..length`, neighbouring runs of different sequences.
fn check_texts(rows: &[RowVars]) -> Result<(), ReplayError> {
    let mut left = 0;
    for (row, vars) in rows.iter().enumerate() {
        let before = row.checked_sub(1).map(|r| rows[r]);
        let goes_on = before.is_some_and(|b| b.sequence == vars.sequence);
        let right = match before {
            Some(b) if goes_on => vars.position == b.position + 1 && vars.length == b.length,
            _ => left == 0 && vars.position == 0,
        };
        if !right || vars.position >= vars.length {
            return Err(ReplayError::Text { row });
        }
        left = vars.length - vars.position - 1;
    }
    match left {
        0 => Ok(()),
        _ => Err(ReplayError::Text { row: rows.len() }),
    }
}
