//! The thread pool: every worker runs every job once, and barriers order memory.

use akunu_cpu::pool::Pool;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn every_worker_runs_every_job_once() {
    for workers in [1, 2, 3, 5, 16] {
        let mut pool = Pool::new(workers).unwrap();
        let counts: Vec<AtomicUsize> = (0..workers).map(|_| AtomicUsize::new(0)).collect();
        for _ in 0..500 {
            pool.run(&|share, _| {
                assert_eq!(share.count, workers);
                counts[share.index].fetch_add(1, Ordering::Relaxed);
            });
        }
        assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 500));
    }
}

#[test]
fn what_is_written_before_a_barrier_is_read_after_it() {
    for workers in [2, 3, 8] {
        let mut pool = Pool::new(workers).unwrap();
        let slots: Vec<AtomicUsize> = (0..workers).map(|_| AtomicUsize::new(0)).collect();
        let rounds = if workers > Pool::default_threads() { 200 } else { 2000 };
        pool.run(&|share, barrier| {
            for round in 1..=rounds {
                slots[share.index].store(round, Ordering::Relaxed);
                barrier.wait();
                for slot in &slots {
                    assert_eq!(slot.load(Ordering::Relaxed), round);
                }
                barrier.wait();
            }
        });
    }
}

#[test]
fn every_share_of_every_phase_runs_once_and_sees_the_phase_before() {
    for workers in [1, 2, 3, 8] {
        let mut pool = Pool::new(workers).unwrap();
        let slots: Vec<AtomicUsize> = (0..workers).map(|_| AtomicUsize::new(0)).collect();
        let phases = if cfg!(miri) { 20 } else { 500 };
        for job in 0..3 {
            // Workers that sleep are late for the first phases.
            thread::sleep(Duration::from_millis(5));
            pool.run_phases(phases, &|phase, share| {
                let before = job * phases + phase;
                assert_eq!(slots[share.index].fetch_add(1, Ordering::Relaxed), before);
                for slot in &slots {
                    let now = slot.load(Ordering::Relaxed);
                    assert!(now == before || now == before + 1);
                }
            });
        }
        assert!(slots.iter().all(|slot| slot.load(Ordering::Relaxed) == 3 * phases));
    }
}

#[test]
fn shares_that_wait_for_each_other_run_at_once() {
    for workers in [2, 3, 8] {
        let mut pool = Pool::new(workers).unwrap();
        let barrier = pool.barrier();
        let passed = AtomicUsize::new(0);
        pool.run_phases(20, &|phase, _| {
            if phase % 2 == 1 {
                barrier.wait();
            }
            passed.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(passed.load(Ordering::Relaxed), 20 * workers);
    }
}

#[test]
fn sleeping_workers_wake_for_a_job_and_for_the_end() {
    let mut pool = Pool::new(3).unwrap();
    let total = AtomicUsize::new(0);
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(20));
        pool.run(&|_, barrier| {
            total.fetch_add(1, Ordering::Relaxed);
            barrier.wait();
        });
    }
    assert_eq!(total.load(Ordering::Relaxed), 15);
    thread::sleep(Duration::from_millis(20));
    drop(pool);
}

#[test]
fn a_pool_dropped_at_once_ends() {
    for workers in [1, 2, 9] {
        drop(Pool::new(workers).unwrap());
    }
}
