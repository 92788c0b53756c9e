//! Row groups that a worker takes through a step by itself, and those who help it.

use akunu_cpu::pool::Pool;
use akunu_cpu::row_groups::{MAX_GROUPS, Progress, SHARES};
use akunu_cpu::share::Share;
use std::cell::UnsafeCell;
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Who ran the shares of every phase of a group. Written and read without any order but that of the phases.
struct Ran(UnsafeCell<Vec<[Option<ThreadId>; SHARES]>>);

// SAFETY: what is tested here: a share writes its own entry, and reads those of the phase before.
unsafe impl Sync for Ran {}

impl Ran {
    /// A share: the phase before it is done, and this share was not.
    fn run(&self, phase: usize, share: Share) {
        let shares = if share.count == 1 { 0..SHARES } else { share.index..share.index + 1 };
        // SAFETY: entries of the vector, whose own fields nobody writes; see above.
        unsafe {
            let entries = (*self.0.get()).as_ptr().cast::<Option<ThreadId>>().cast_mut();
            let before = phase.saturating_sub(1) * SHARES..phase * SHARES;
            assert!(before.into_iter().all(|at| (*entries.add(at)).is_some()), "phase {phase}");
            for entry in shares.map(|share| entries.add(phase * SHARES + share)) {
                assert!((*entry).is_none(), "phase {phase}");
                *entry = Some(thread::current().id());
            }
        }
    }
}

/// Who ran the shares of every phase of every group, one of which is slow.
fn run(workers: usize, phases: usize, slow: Option<usize>) -> Vec<Vec<[Option<ThreadId>; SHARES]>> {
    let mut pool = Pool::new(workers).unwrap();
    let mut progress = Progress::new(workers, pool.spins());
    let mut all = Vec::new();
    // A second time, to begin again from what the first has left.
    for _ in 0..2 {
        progress.begin();
        let groups: Vec<Ran> = (0..workers).map(|_| Ran(vec![[None; SHARES]; phases].into())).collect();
        pool.run(&|worker, _| {
            progress.work(worker.index, phases, &|group, phase, share| {
                if slow == Some(group) {
                    thread::sleep(Duration::from_micros(200));
                }
                groups[group].run(phase, share);
            });
        });
        all = groups.into_iter().map(|group| group.0.into_inner()).collect();
    }
    all
}

#[test]
fn every_phase_of_every_group_runs_once() {
    let phases = if cfg!(miri) { 8 } else { 60 };
    for workers in 1..=MAX_GROUPS {
        for slow in (0..workers).map(Some).chain([None]) {
            let all = run(workers, phases, slow);
            assert!(all.iter().flatten().flatten().all(Option::is_some), "{workers} workers, slow {slow:?}");
        }
    }
}

#[test]
fn who_is_done_helps_who_is_slow() {
    let phases = if cfg!(miri) { 20 } else { 200 };
    let all = run(2, phases, Some(1));
    let by_two = all.iter().flatten().filter(|shares| shares[0] != shares[1]).count();
    assert!(by_two > phases / 4, "{by_two} phases of {phases}");
}
