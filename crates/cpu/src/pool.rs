//! The thread pool: workers that stay, spin a little for the next job, then sleep.
//!
//! A job is broadcast: every worker runs the same closure once, the caller as worker 0. Inside a
//! job the workers meet at a [`Barrier`], or go through phases of which each has a share for every worker.
//! Where other processes want the cores too, a worker may lose its own for milliseconds: its shares are then run by those
//! that are there. Nothing here allocates or locks once the pool stands.

use crate::share::Share;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};

/// Turns of a spin loop before a waiting thread gives its time slice away: some 20 µs. None where
/// there are more workers than cores, because the one waited for may need this core.
const SPINS: u32 = 1000;
/// Turns after which a worker that has nothing to do runs a share whose worker has not come: more than the time between the
/// first and the last to see a phase begin.
const LATE: u32 = 100;
/// Time slices given away before a worker without a job goes to sleep: well under a millisecond
/// on an idle machine, longer than the host needs between two tokens.
const YIELDS: u32 = 200;

/// One cache line of its own, and its neighbour, which prefetchers pair with it.
#[repr(align(128))]
pub(crate) struct Line<T>(pub T);

/// Where the workers of one job meet.
pub struct Barrier {
    workers: usize,
    spins: u32,
    arrived: Line<AtomicUsize>,
    /// How often all have met. Waiting for it to change needs no per-worker sense.
    met: Line<AtomicU32>,
}

impl Barrier {
    fn new(workers: usize, spins: u32) -> Self {
        Self { workers, spins, arrived: Line(AtomicUsize::new(0)), met: Line(AtomicU32::new(0)) }
    }

    /// Returns once every worker has called it: what they wrote before is visible to all after.
    #[inline]
    pub fn wait(&self) {
        if self.workers == 1 {
            return;
        }
        let met = self.met.0.load(Ordering::Relaxed);
        // The last one's read-modify-write acquires what the others released by theirs, and its
        // release of `met` hands all of it on.
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == self.workers {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.met.0.store(met.wrapping_add(1), Ordering::Release);
        } else {
            let mut turns = 0;
            while self.met.0.load(Ordering::Acquire) == met {
                relax(&mut turns, self.spins);
            }
        }
    }
}

/// Where the workers of a job stand in its phases.
struct Phases {
    spins: u32,
    /// The phase that runs.
    current: Line<AtomicUsize>,
    /// Its shares that are done.
    done: Line<AtomicUsize>,
    /// By share, in how many phases a worker has taken it.
    taken: Vec<Line<AtomicUsize>>,
}

impl Phases {
    fn new(workers: usize, spins: u32) -> Self {
        let taken = (0..workers).map(|_| Line(AtomicUsize::new(0))).collect();
        Self { spins, current: Line(AtomicUsize::new(0)), done: Line(AtomicUsize::new(0)), taken }
    }

    /// While no worker is in a job.
    fn begin(&self) {
        self.current.0.store(0, Ordering::Relaxed);
        self.done.0.store(0, Ordering::Relaxed);
        self.taken.iter().for_each(|taken| taken.0.store(0, Ordering::Relaxed));
    }

    /// A worker's part of `phases` phases.
    fn work(&self, worker: Share, phases: usize, job: &(dyn Fn(usize, Share) + Sync)) {
        let mut phase = 0;
        while phase < phases {
            self.run(phase, worker, job);
            let mut turns = 0;
            while self.current.0.load(Ordering::Acquire) == phase {
                if turns == LATE.min(self.spins) {
                    (0..worker.count).for_each(|index| self.run(phase, Share { index, ..worker }, job));
                }
                relax(&mut turns, self.spins);
            }
            phase = self.current.0.load(Ordering::Acquire);
        }
    }

    /// Runs a share of a phase that this worker has seen begin, unless a worker has taken it: no phase ends before all its
    /// shares were taken, so a share that can be taken belongs to the phase that runs.
    fn run(&self, phase: usize, share: Share, job: &(dyn Fn(usize, Share) + Sync)) {
        let taken = &self.taken[share.index].0;
        let mine = taken.load(Ordering::Relaxed) == phase
            && taken.compare_exchange(phase, phase + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !mine {
            return;
        }
        job(phase, share);
        // As in `Barrier::wait`.
        if self.done.0.fetch_add(1, Ordering::AcqRel) + 1 == share.count {
            self.done.0.store(0, Ordering::Relaxed);
            self.current.0.store(phase + 1, Ordering::Release);
        }
    }
}

/// One turn of a wait: pause while `turns < spins`, afterwards let other threads run.
#[inline]
pub(crate) fn relax(turns: &mut u32, spins: u32) {
    if *turns < spins {
        spin_loop();
    } else {
        thread::yield_now();
    }
    *turns += 1;
}

/// A broadcast closure, its lifetime erased; see the safety argument in [`Pool::run`].
type Job = *const (dyn Fn(Share) + Sync);

struct Shared {
    /// Counts jobs, wrapping; a change is the signal.
    epoch: Line<AtomicU32>,
    /// Workers that have not finished the current job.
    running: Line<AtomicUsize>,
    job: UnsafeCell<Option<Job>>,
    stop: AtomicBool,
    /// Per worker, whether it sleeps or is about to.
    asleep: Vec<Line<AtomicBool>>,
    spins: u32,
    workers: usize,
}

// SAFETY: `job` is the only part that is not `Sync` by itself. It is written by the caller of
// `run` while no worker reads it (`running` is 0), and read by workers after they have acquired the
// `epoch` that was released after the write.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `job` is dereferenced only during `run`, whose caller keeps the closure
// alive, and the closure is `Sync`.
unsafe impl Send for Shared {}

/// Threads that run broadcast jobs.
pub struct Pool {
    shared: Arc<Shared>,
    barrier: Arc<Barrier>,
    phases: Arc<Phases>,
    threads: Vec<(Thread, Option<JoinHandle<()>>)>,
}

/// A kernel that panics leaves the others waiting at a barrier for ever, with its results half
/// written: there is nothing to go on with, so the process ends with the panic's message.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

impl Pool {
    /// The cores this process may use, by affinity and cgroup.
    pub fn default_threads() -> usize {
        thread::available_parallelism().map_or(1, NonZeroUsize::get)
    }

    /// A pool of `threads` workers, the caller among them.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let workers = threads.max(1);
        let spins = if workers <= Self::default_threads() { SPINS } else { 0 };
        let shared = Arc::new(Shared {
            epoch: Line(AtomicU32::new(0)),
            running: Line(AtomicUsize::new(0)),
            job: UnsafeCell::new(None),
            stop: AtomicBool::new(false),
            asleep: (0..workers).map(|_| Line(AtomicBool::new(false))).collect(),
            spins,
            workers,
        });
        let (barrier, phases) = (Arc::new(Barrier::new(workers, spins)), Arc::new(Phases::new(workers, spins)));
        let mut pool = Self { shared, barrier, phases, threads: Vec::new() };
        for index in 1..workers {
            let shared = Arc::clone(&pool.shared);
            // On failure `pool` is dropped, which stops the threads already there.
            let handle = thread::Builder::new().name(format!("akunu-{index}")).spawn(move || work(&shared, index))?;
            pool.threads.push((handle.thread().clone(), Some(handle)));
        }
        Ok(pool)
    }

    pub fn workers(&self) -> usize {
        self.shared.workers
    }

    /// Turns of a wait before a worker lets other threads run.
    pub fn spins(&self) -> u32 {
        self.shared.spins
    }

    /// Where the workers of the running job meet.
    pub fn barrier(&self) -> Arc<Barrier> {
        self.barrier.clone()
    }

    /// Runs `job` once on every worker, the calling thread as worker 0, and returns when all are done.
    pub fn run(&mut self, job: &(dyn Fn(Share, &Barrier) + Sync)) {
        let barrier = &self.barrier;
        let job = |share: Share| job(share, barrier);
        let shared = &*self.shared;
        let others = shared.workers - 1;
        let share = Share { index: 0, count: shared.workers };
        let _guard = AbortOnPanic;
        if others == 0 {
            return job(share);
        }
        let job: &(dyn Fn(Share) + Sync) = &job;
        // SAFETY: only the lifetime changes. Workers use the closure between the `epoch` change
        // below and their decrement of `running`; this function does not return before `running` is
        // 0 again (a panic aborts), so the closure outlives every use.
        let job_ptr = unsafe { std::mem::transmute::<&(dyn Fn(Share) + Sync), Job>(job) };
        // SAFETY: `&mut self` keeps other callers out, and no worker reads before the epoch changes.
        unsafe { *shared.job.get() = Some(job_ptr) };
        shared.running.0.store(others, Ordering::Relaxed);
        // SeqCst on `epoch` and `asleep`: either the worker sees the new epoch before it sleeps, or
        // we see that it is asleep and wake it.
        shared.epoch.0.fetch_add(1, Ordering::SeqCst);
        self.wake();
        job(share);
        let mut turns = 0;
        while shared.running.0.load(Ordering::Acquire) != 0 {
            relax(&mut turns, shared.spins);
        }
    }

    /// Runs `job` once for every phase and every share of it: all shares of a phase are done, and what they wrote is visible,
    /// before the next begins. Which worker runs a share is open, but shares that wait for each other run at once.
    pub fn run_phases(&mut self, phases: usize, job: &(dyn Fn(usize, Share) + Sync)) {
        let all = Arc::clone(&self.phases);
        all.begin();
        self.run(&|worker, _| all.work(worker, phases, job));
    }

    fn wake(&self) {
        for (asleep, (thread, _)) in self.shared.asleep[1..].iter().zip(&self.threads) {
            if asleep.0.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.epoch.0.fetch_add(1, Ordering::SeqCst);
        for (thread, handle) in &mut self.threads {
            thread.unpark();
            if let Some(handle) = handle.take() {
                // A worker that panicked has ended the process already.
                let _ = handle.join();
            }
        }
    }
}

/// A worker's life: wait for a job, run it, say so.
fn work(shared: &Shared, index: usize) {
    let mut seen = 0;
    loop {
        seen = next_epoch(shared, index, seen);
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let _guard = AbortOnPanic;
        // SAFETY: the caller wrote `job` before the epoch we acquired, and does not touch it until
        // `running` is 0, which needs our decrement below.
        if let Some(job) = unsafe { *shared.job.get() } {
            // SAFETY: the caller keeps the closure alive until our decrement below.
            unsafe { (*job)(Share { index, count: shared.workers }) };
        }
        shared.running.0.fetch_sub(1, Ordering::Release);
    }
}

/// Waits until the epoch is another than `seen`: spins, then yields, then sleeps.
fn next_epoch(shared: &Shared, index: usize, seen: u32) -> u32 {
    let mut turns = 0;
    loop {
        let epoch = shared.epoch.0.load(Ordering::Acquire);
        if epoch != seen {
            return epoch;
        }
        if turns < shared.spins + YIELDS {
            relax(&mut turns, shared.spins);
            continue;
        }
        let asleep = &shared.asleep[index].0;
        asleep.store(true, Ordering::SeqCst);
        if shared.epoch.0.load(Ordering::SeqCst) == seen {
            // May wake for no reason; the loop looks again.
            thread::park();
        }
        asleep.store(false, Ordering::Relaxed);
    }
}
