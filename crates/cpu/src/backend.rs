//! The CPU with its workers: walks the records of programs that were checked.

use crate::context::{Context, SCRATCH_BYTES};
use crate::kernels::{self, LONG};
use crate::level::{Level, LevelError};
use crate::memory::Memory;
use crate::pages::{ALIGN, Pages};
use crate::pool::Pool;
use crate::ready::{self, Ready};
use crate::row_groups::{self, Progress, RowGroups};
use crate::simd::prefetch;
use akunu_gemm::gemm::{AHEAD, STREAMS};
use akunu_plan::backend::{LoadError, SubmitError};
use akunu_plan::bind::Bound;
use akunu_plan::proof::Unsound;
use akunu_plan::record::Region;
use akunu_plan::steps::RowVars;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How to set the backend up; `None` is the machine's own answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub threads: Option<usize>,
    /// Overrides `AKUNU_CPU`.
    pub level: Option<Level>,
    /// Use weights where their files are mapped and as they lie there, instead of copying and packing them.
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
    Memory(#[from] LoadError),
}

/// The CPU backend.
pub struct Cpu {
    pool: Pool,
    level: Level,
    in_place: bool,
    progress: Progress,
    /// `SCRATCH_BYTES` for every worker, and for the one that helps it.
    scratch: Pages,
}

impl Cpu {
    pub fn new(options: Options) -> Result<Self, Error> {
        let level = match options.level {
            Some(level) => level.checked()?,
            None => Level::from_environment()?,
        };
        let pool = Pool::new(options.threads.unwrap_or_else(Pool::default_threads))?;
        let scratch = Pages::zeroed("scratch", pool.workers() * row_groups::SHARES * SCRATCH_BYTES)?;
        let progress = Progress::new(pool.workers(), pool.spins());
        Ok(Self { pool, level, in_place: options.in_place, progress, scratch })
    }

    /// Runs row groups as where a worker helps another in every phase: for tests.
    #[doc(hidden)]
    pub fn halve_row_groups(&mut self) {
        self.progress.halves = true;
    }

    pub fn level(&self) -> Level {
        self.level
    }

    pub fn threads(&self) -> usize {
        self.pool.workers()
    }

    /// Whether weights are used as they lie in their mapped files.
    pub(crate) fn in_place(&self) -> bool {
        self.in_place
    }

    /// Checks a bound program against the memory it will run in, for up to `rows` rows and
    /// `outputs` output rows (the program's `max_rows` and `max_outputs`).
    pub fn ready(&self, bound: Bound, rows: usize, outputs: usize, memory: &Memory) -> Result<Ready, Unsound> {
        ready::check(bound, (rows, outputs), memory, self.level)
    }

    /// Runs the program `steps` times with nothing in between, or until all texts have ended: `Advance` moves the step
    /// variables. No two texts write to the same block of the KV cache.
    pub fn replay(&mut self, ready: &Ready, memory: &mut Memory, steps: usize) -> Result<(), SubmitError> {
        check_steps(ready, memory, steps)?;
        if may_group_rows(ready, memory, self.threads(), steps) {
            self.replay_row_groups(ready, memory, steps);
            return Ok(());
        }
        memory.set_row_groups(RowGroups::WHOLE);
        let kernels = kernels::table();
        let context = Context::new(memory, kernels, self.scratch.base(), ready.records(), self.pool.barrier());
        let phases = &ready.proof.phases[..];
        self.pool.run_phases(steps * phases.len(), &|phase, share| {
            if context.ended() {
                return;
            }
            for record in &ready.bound.records[phases[phase % phases.len()].clone()] {
                // SAFETY: `ready` has checked every record against this memory and this machine,
                // `check_steps` the step variables; a phase ends where records depend on each
                // other, and all its shares pass every record once.
                unsafe { (kernels[record.kernel as usize].run)(record, &context, share) }
            }
        });
        Ok(())
    }

    /// Runs the program as [`Self::replay`]. Each worker takes a row group through it, then helps others with theirs.
    fn replay_row_groups(&mut self, ready: &Ready, memory: &mut Memory, steps: usize) {
        let kernels = kernels::table();
        let header = memory.step_vars().header();
        let row_groups =
            RowGroups { count: self.threads(), rows: header.rows as usize, arena: ready.bound.arena_bytes };
        memory.set_row_groups(row_groups);
        let whole = Context::new(memory, kernels, self.scratch.base(), ready.records(), self.pool.barrier());
        let mut headers = [header; row_groups::MAX_GROUPS];
        let contexts: [Option<Context<'_>>; row_groups::MAX_GROUPS] = std::array::from_fn(|index| {
            // SAFETY: `may_group_rows` has seen that rows have outputs and texts of their own, and that the arena has room; there is
            // scratch for every share of every group.
            (index < row_groups.count).then(|| unsafe { whole.row_group(row_groups, index, &raw mut headers[index]) })
        });
        let phases = &ready.proof.phases[..];
        self.progress.begin();
        let progress = &self.progress;
        self.pool.run(&|worker, _| {
            progress.work(worker.index, steps * phases.len(), &|group, phase, share| {
                let Some(context) = &contexts[group] else { return };
                for record in &ready.bound.records[phases[phase % phases.len()].clone()] {
                    // SAFETY: as in `replay`; the shares of a group meet after every phase.
                    unsafe { (kernels[record.kernel as usize].run)(record, context, share) }
                }
            });
        });
        memory.step_vars().header_mut().emitted_steps = headers[0].emitted_steps;
    }

    /// Runs one record of the program, to look at its result.
    pub fn replay_one(&mut self, ready: &Ready, memory: &mut Memory, index: usize) -> Result<(), SubmitError> {
        check_steps(ready, memory, 1)?;
        memory.set_row_groups(RowGroups::WHOLE);
        let records = ready.bound.records.len();
        let record = ready.bound.records.get(index).ok_or(SubmitError::NoRecord { index, records })?;
        let kernels = kernels::table();
        let context = Context::new(memory, kernels, self.scratch.base(), ready.records(), self.pool.barrier());
        self.pool.run(&|share, _| {
            // SAFETY: as in `replay`; a record alone has nothing to wait for.
            unsafe { (kernels[record.kernel as usize].run)(record, &context, share) }
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
            self.pool.run(&|share, _| {
                for file in &files {
                    std::hint::black_box(read_through(&file[share.of(file.len(), 4096)]));
                }
            });
            times.push(start.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        bytes as f64 / times[times.len() / 2].max(1e-9)
    }

    /// One step with a barrier after every record: the nanoseconds each took, barrier included.
    pub fn replay_timed(&mut self, ready: &Ready, memory: &mut Memory) -> Result<Vec<u64>, SubmitError> {
        check_steps(ready, memory, 1)?;
        memory.set_row_groups(RowGroups::WHOLE);
        let kernels = kernels::table();
        let context = Context::new(memory, kernels, self.scratch.base(), ready.records(), self.pool.barrier());
        let records = &ready.bound.records[..];
        let times: Vec<AtomicU64> = records.iter().map(|_| AtomicU64::new(0)).collect();
        self.pool.run(&|share, barrier| {
            barrier.wait();
            let mut last = Instant::now();
            for (record, time) in records.iter().zip(&times) {
                // SAFETY: as in `replay`, with a barrier between any two records.
                unsafe { (kernels[record.kernel as usize].run)(record, &context, share) }
                barrier.wait();
                if share.index == 0 {
                    let now = Instant::now();
                    time.store((now - last).as_nanos() as u64, Ordering::Relaxed);
                    last = now;
                }
            }
        });
        Ok(times.into_iter().map(AtomicU64::into_inner).collect())
    }
}

/// Touches every cache line, in as many streams as a GEMV.
fn read_through(bytes: &[u8]) -> u64 {
    const LINE: usize = 64;
    let mut sum = 0_u64;
    let part = (bytes.len() / STREAMS).next_multiple_of(4 * LINE).max(4 * LINE);
    for at in (0..part).step_by(4 * LINE) {
        for stream in bytes.chunks(part) {
            for line in stream.iter().skip(at).step_by(LINE).take(4) {
                prefetch((&raw const *line).wrapping_add(AHEAD));
                sum = sum.wrapping_add(u64::from(*line));
            }
        }
    }
    sum
}

/// Whether each worker may take some rows of a step by itself: they are of different texts, and come out as they do together, to the
/// bit.
fn may_group_rows(ready: &Ready, memory: &mut Memory, workers: usize, steps: usize) -> bool {
    let arena = ready.bound.arena_bytes;
    let room = arena.is_multiple_of(ALIGN) && memory.bytes(Region::ARENA).len() / workers >= arena;
    let allowed = memory.max_row_groups() == workers
        && (2..=row_groups::MAX_GROUPS).contains(&workers)
        && room
        && ready.proof.rows_apart;
    let vars = memory.step_vars();
    let header = vars.header();
    // What sees more is split among the workers.
    let short = |row: &RowVars| row.place().saturating_add(steps).max(row.length as usize) < LONG;
    allowed
        && header.rows as usize >= workers * row_groups::MIN_ROWS
        && header.outputs == header.rows
        // Texts with rules end a chain when all of them have ended, which no part knows of the others.
        && header.ended == 0
        && vars.texts().iter().all(|text| text.on == 0)
        && vars.outputs().iter().zip(0..).all(|(row, output)| *row == output)
        && vars.rows().windows(2).all(|rows| rows[0].sequence < rows[1].sequence)
        && vars.rows().iter().all(short)
}

/// Whether the program was checked against this memory, and its step variables hold what kernels rely on.
fn check_steps(ready: &Ready, memory: &mut Memory, steps: usize) -> Result<(), SubmitError> {
    if ready.memory != memory.identity() {
        return Err(SubmitError::OtherMemory);
    }
    let layout = memory.step_layout();
    Ok(ready.proof.check_steps(&memory.step_vars(), &layout, steps)?)
}
