//! Parts of a step: each worker takes one through all phases by itself, and waits for nobody until somebody helps. Who is done helps
//! those who take longer.
//!
//! Cores that others use too are not equally fast. As long as nobody helps, a part costs no more than one look at a flag in every
//! phase; from then on each of its phases has two lanes.

use crate::lane::Lane;
use crate::pool::{Line, relax};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How the rows of a step are divided: each part has its own activations.
#[derive(Clone, Copy)]
pub struct Parts {
    pub count: usize,
    pub rows: usize,
    /// Bytes of the arena from one part's activations to the next one's.
    pub arena: usize,
}

impl Parts {
    pub const WHOLE: Parts = Parts { count: 1, rows: 0, arena: 0 };

    pub fn rows(&self, index: usize) -> Range<usize> {
        Lane { index, count: self.count }.share(self.rows, 1)
    }
}

/// Parts of a step, at most.
pub const MOST: usize = 4;

/// Rows of a part, at least: with fewer, products take longer a row.
pub const LEAST_ROWS: usize = 16;

/// Bytes of weights up to which each worker takes some rows of a batch through the whole model: that every worker reads all weights
/// costs less than to divide every op and to wait for each other (32 texts, by turns: 1.2 times as fast with 3 MB, 1.09 and 1.14 with
/// 100 MB, 0.99 with 400 MB).
const SMALL: u64 = 128 << 20;

/// Parts that batches of up to `batch` rows may be divided into: 1, or as many as there are workers.
pub fn of_batches(workers: usize, batch: usize, weight_bytes: u64) -> usize {
    let divides = weight_bytes <= SMALL && workers <= MOST && workers * LEAST_ROWS <= batch;
    if divides { workers } else { 1 }
}

/// Lanes of a phase where a worker helps another.
pub const LANES: usize = 2;
const FIRST: Lane = Lane { index: 0, count: LANES };
const SECOND: Lane = Lane { index: 1, count: LANES };

/// A phase that no part has.
const NONE_LEFT: usize = usize::MAX;

/// How far a part is. Phases are counted from 1 here.
#[derive(Default)]
struct Part {
    /// Whether a worker has begun it, and whether one helps.
    led: AtomicBool,
    helped: AtomicBool,
    /// The last phase that the helper may enter, whose second lane somebody has taken, and whose second lane the helper has done.
    open: AtomicUsize,
    taken: AtomicUsize,
    done: AtomicUsize,
}

/// How far the parts of a step are.
pub struct Progress {
    parts: Vec<Line<Part>>,
    spins: u32,
    /// Has the phases of all parts two lanes from the beginning: for tests, and then nobody helps.
    pub halves: bool,
}

impl Progress {
    /// Of as many parts as there are workers, which wait with so many turns of a loop before they let other threads run.
    pub fn new(workers: usize, spins: u32) -> Self {
        Self { parts: (0..workers).map(|_| Line(Part::default())).collect(), spins, halves: false }
    }

    /// While no worker is there.
    pub fn begin(&mut self) {
        let helped = self.halves;
        self.parts.iter_mut().for_each(|part| part.0 = Part { helped: helped.into(), ..Part::default() });
    }

    /// What a worker does: `job` runs a lane of a phase of a part.
    pub fn work(&self, worker: usize, phases: usize, job: &impl Fn(usize, usize, Lane)) {
        let order = || (worker..self.parts.len()).chain(0..worker);
        for index in order() {
            if !self.parts[index].0.led.swap(true, Ordering::Relaxed) {
                self.lead(index, phases, job);
            }
        }
        for index in order() {
            let part = &self.parts[index].0;
            if part.open.load(Ordering::Relaxed) != NONE_LEFT && !part.helped.swap(true, Ordering::Relaxed) {
                self.help(index, job);
            }
        }
    }

    fn lead(&self, index: usize, phases: usize, job: &impl Fn(usize, usize, Lane)) {
        let part = &self.parts[index].0;
        for phase in 0..phases {
            if !part.helped.load(Ordering::Relaxed) {
                job(index, phase, Lane::ALONE);
                continue;
            }
            let number = phase + 1;
            // Releases what was written before to the helper, as the helper's `done` does to us.
            part.open.store(number, Ordering::Release);
            job(index, phase, FIRST);
            if part.take(number) {
                job(index, phase, SECOND);
            } else {
                let mut turns = 0;
                while part.done.load(Ordering::Acquire) != number {
                    relax(&mut turns, self.spins);
                }
            }
        }
        part.open.store(NONE_LEFT, Ordering::Release);
    }

    /// Runs second lanes until the part is done.
    fn help(&self, index: usize, job: &impl Fn(usize, usize, Lane)) {
        let part = &self.parts[index].0;
        let mut seen = 0;
        loop {
            let mut turns = 0;
            while part.open.load(Ordering::Acquire) == seen {
                relax(&mut turns, self.spins);
            }
            seen = part.open.load(Ordering::Acquire);
            if seen == NONE_LEFT {
                return;
            }
            if part.take(seen) {
                job(index, seen - 1, SECOND);
                part.done.store(seen, Ordering::Release);
            }
        }
    }
}

impl Part {
    /// Whether the second lane of a phase is the caller's: nobody goes on before somebody has it, so that a helper who comes late
    /// finds a later number.
    fn take(&self, number: usize) -> bool {
        let before = self.taken.load(Ordering::Relaxed);
        let exchange = || self.taken.compare_exchange(before, number, Ordering::Relaxed, Ordering::Relaxed);
        before < number && exchange().is_ok()
    }
}
