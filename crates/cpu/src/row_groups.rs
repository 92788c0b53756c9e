//! Row groups of a step: a worker takes one through all phases by itself, and waits for nobody until another worker helps. A
//! worker whose group is done helps with one that is not.
//!
//! Cores that other processes use are slower. While nobody helps, a group costs one look at a flag in every phase; from then on
//! each of its phases has two shares.

use crate::pool::{Line, relax};
use crate::share::Share;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How the rows of a step are divided. Each group has activations of its own.
#[derive(Clone, Copy)]
pub struct RowGroups {
    pub count: usize,
    pub rows: usize,
    /// Bytes of the arena from one group's activations to the next one's.
    pub arena: usize,
}

impl RowGroups {
    pub const WHOLE: RowGroups = RowGroups { count: 1, rows: 0, arena: 0 };

    pub fn rows(&self, index: usize) -> Range<usize> {
        Share { index, count: self.count }.of(self.rows, 1)
    }
}

/// Groups of a step, at most.
pub const MAX_GROUPS: usize = 4;

/// Rows of a group, at least. With fewer, a product takes longer a row.
pub const MIN_ROWS: usize = 16;

/// Bytes of weights up to which each worker takes some rows of a batch through the whole model. Then reading all weights costs a
/// worker less than waiting for the others in every op: see `docs/performance/scheduling.md`.
const SMALL_MODEL: u64 = 128 << 20;

/// Groups that batches of up to `batch` rows may be divided into: 1, or as many as there are workers.
pub fn for_batches(workers: usize, batch: usize, weight_bytes: u64) -> usize {
    let divides = weight_bytes <= SMALL_MODEL && workers <= MAX_GROUPS && workers * MIN_ROWS <= batch;
    if divides { workers } else { 1 }
}

/// Shares of a phase where a worker helps another.
pub const SHARES: usize = 2;
const FIRST: Share = Share { index: 0, count: SHARES };
const SECOND: Share = Share { index: 1, count: SHARES };

/// No phase: the group is done.
const NONE_LEFT: usize = usize::MAX;

/// How far a group is. Phases are counted from 1 here.
#[derive(Default)]
struct RowGroup {
    /// Whether a worker has begun it, and whether one helps.
    led: AtomicBool,
    helped: AtomicBool,
    /// The last phase that the helper may enter, whose second share somebody has taken, and whose second share the helper has done.
    open: AtomicUsize,
    taken: AtomicUsize,
    done: AtomicUsize,
}

/// How far the groups of a step are.
pub struct Progress {
    groups: Vec<Line<RowGroup>>,
    spins: u32,
    /// Gives the phases of all groups two shares from the beginning, so that nobody helps: for tests.
    pub halves: bool,
}

impl Progress {
    /// A group for every worker. A worker that waits spins so often, then yields.
    pub fn new(workers: usize, spins: u32) -> Self {
        Self { groups: (0..workers).map(|_| Line(RowGroup::default())).collect(), spins, halves: false }
    }

    /// Begins a step; no worker is in one.
    pub fn begin(&mut self) {
        let helped = self.halves;
        self.groups.iter_mut().for_each(|group| group.0 = RowGroup { helped: helped.into(), ..RowGroup::default() });
    }

    /// What a worker does: `job` runs a share of a phase of a group.
    pub fn work(&self, worker: usize, phases: usize, job: &impl Fn(usize, usize, Share)) {
        let order = || (worker..self.groups.len()).chain(0..worker);
        for index in order() {
            if !self.groups[index].0.led.swap(true, Ordering::Relaxed) {
                self.lead(index, phases, job);
            }
        }
        for index in order() {
            let group = &self.groups[index].0;
            if group.open.load(Ordering::Relaxed) != NONE_LEFT && !group.helped.swap(true, Ordering::Relaxed) {
                self.help(index, job);
            }
        }
    }

    fn lead(&self, index: usize, phases: usize, job: &impl Fn(usize, usize, Share)) {
        let group = &self.groups[index].0;
        for phase in 0..phases {
            if !group.helped.load(Ordering::Relaxed) {
                job(index, phase, Share::WHOLE);
                continue;
            }
            let number = phase + 1;
            // Releases what was written before to the helper, as the helper's `done` does to us.
            group.open.store(number, Ordering::Release);
            job(index, phase, FIRST);
            if group.take(number) {
                job(index, phase, SECOND);
            } else {
                let mut turns = 0;
                while group.done.load(Ordering::Acquire) != number {
                    relax(&mut turns, self.spins);
                }
            }
        }
        group.open.store(NONE_LEFT, Ordering::Release);
    }

    /// Runs second shares until the group is done.
    fn help(&self, index: usize, job: &impl Fn(usize, usize, Share)) {
        let group = &self.groups[index].0;
        let mut seen = 0;
        loop {
            let mut turns = 0;
            while group.open.load(Ordering::Acquire) == seen {
                relax(&mut turns, self.spins);
            }
            seen = group.open.load(Ordering::Acquire);
            if seen == NONE_LEFT {
                return;
            }
            if group.take(seen) {
                job(index, seen - 1, SECOND);
                group.done.store(seen, Ordering::Release);
            }
        }
    }
}

impl RowGroup {
    /// Whether the second share of a phase is the caller's: nobody goes on before somebody has it, so that a helper who comes late
    /// finds a later number.
    fn take(&self, number: usize) -> bool {
        let before = self.taken.load(Ordering::Relaxed);
        let exchange = || self.taken.compare_exchange(before, number, Ordering::Relaxed, Ordering::Relaxed);
        before < number && exchange().is_ok()
    }
}
