//! Whole programs: chains, thread counts, refusals, and that a replay allocates nothing. A program of its own, because its
//! tests measure their process.

#[path = "../all/rig.rs"]
mod rig;

mod decoder;
mod refusals;

use akunu_cpu::{Cpu, Level, Options};
use akunu_plan::Backend;
use akunu_plan::record::Region;
use decoder::Decoder;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts allocations of the whole process while it is told to.
struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The tests of this binary run one after the other, because one of them counts allocations.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn cpu(level: Level, threads: usize) -> Cpu {
    Cpu::new(Options { threads: Some(threads), level: Some(level), ..Options::default() }).expect("an available level")
}

#[test]
fn a_replay_allocates_nothing() {
    let _alone = alone();
    let decoder = Decoder::new(1);
    for threads in [1, 2, 3] {
        let mut cpu = cpu(Level::detect(), threads);
        let mut running = decoder.start(&cpu);
        cpu.replay(&running.ready, &mut running.memory, 1).expect("a checked program");
        COUNTS.store(true, Ordering::SeqCst);
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        for _ in 0..4 {
            cpu.replay(&running.ready, &mut running.memory, 4).expect("a checked program");
        }
        let after = ALLOCATIONS.load(Ordering::SeqCst);
        COUNTS.store(false, Ordering::SeqCst);
        assert_eq!(after - before, 0, "{threads} threads");
    }
}

#[test]
fn a_chain_is_its_steps_one_by_one_at_any_thread_count() {
    let _alone = alone();
    let decoder = Decoder::new(1);
    for level in Level::available() {
        let mut tokens = Vec::new();
        for threads in [1, 2, 3, 5] {
            let mut cpu = cpu(level, threads);
            let mut chained = decoder.start(&cpu);
            cpu.replay(&chained.ready, &mut chained.memory, 20).expect("a checked program");
            let mut stepped = decoder.start(&cpu);
            for _ in 0..20 {
                cpu.replay(&stepped.ready, &mut stepped.memory, 1).expect("a checked program");
            }
            let emitted = chained.memory.step_vars().into_emitted().to_vec();
            assert_eq!(emitted.len(), 20);
            assert_eq!(emitted, stepped.memory.step_vars().into_emitted(), "{level}, {threads} threads");
            let bits = |row: Vec<f32>| row.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let (a, b) = (chained.row(decoder.logits, 0), stepped.row(decoder.logits, 0));
            assert!(a.iter().all(|v| v.is_finite()));
            assert_eq!(bits(a.clone()), bits(b), "{level}, {threads} threads");
            tokens.push((emitted, bits(a)));
        }
        assert!(tokens.windows(2).all(|pair| pair[0] == pair[1]), "{level}: thread counts differ");
    }
}

#[test]
fn rows_of_different_texts_come_out_the_same_in_row_groups() {
    let _alone = alone();
    let decoder = Decoder::new(37);
    for level in Level::available() {
        let mut cpu = cpu(level, 2);
        // The third number has too few rows for two row groups.
        for (count, halves) in [(32, false), (37, false), (31, false), (32, true), (37, true)] {
            if halves {
                cpu.halve_row_groups();
            }
            let [whole, groups] = [1, 2].map(|row_groups| {
                let mut running = decoder.start_many(&cpu, count, row_groups);
                let before = ALLOCATIONS.load(Ordering::SeqCst);
                COUNTS.store(true, Ordering::SeqCst);
                cpu.replay(&running.ready, &mut running.memory, 3).expect("a checked program");
                COUNTS.store(false, Ordering::SeqCst);
                assert_eq!(ALLOCATIONS.load(Ordering::SeqCst), before);
                let arena = running.program.arena_bytes;
                let second = running.memory.bytes(Region::ARENA)[arena..].iter().any(|&byte| byte != 0xFF);
                assert_eq!(second, row_groups == 2 && count >= 32, "{level}, {count} rows in {row_groups} row groups");
                let logits: Vec<Vec<u32>> = (0..count as usize)
                    .map(|output| running.memory.logits(running.ready.bound(), output, decoder.vocab()).expect("a row"))
                    .map(|row| row.iter().map(|v| v.to_bits()).collect())
                    .collect();
                let positions: Vec<u32> = running.memory.step_vars().rows().iter().map(|row| row.position).collect();
                (running.memory.step_vars().into_emitted().to_vec(), positions, logits)
            });
            assert_eq!(whole.0.len(), 3 * count as usize);
            assert!(
                whole.0 == groups.0 && whole.1 == groups.1 && whole.2 == groups.2,
                "{level}, {count} rows, {halves}"
            );
        }
    }
}

#[test]
fn rows_of_one_text_and_outputs_out_of_order_are_not_divided() {
    let _alone = alone();
    let decoder = Decoder::new(32);
    let mut cpu = cpu(Level::detect(), 2);
    for change in 0..3 {
        let mut running = decoder.start_many(&cpu, 32, 2);
        let mut vars = running.memory.step_vars();
        match change {
            1 => vars.rows_mut()[16].sequence = 15,
            2 => vars.outputs_mut().swap(3, 20),
            _ => {}
        }
        cpu.replay(&running.ready, &mut running.memory, 1).expect("a checked program");
        let second = &running.memory.bytes(Region::ARENA)[running.program.arena_bytes..];
        assert_eq!(second.iter().any(|&byte| byte != 0xFF), change == 0, "change {change}");
    }
}

#[test]
fn records_replayed_one_by_one_and_timed_give_the_same_result() {
    let _alone = alone();
    let decoder = Decoder::new(1);
    let mut cpu = cpu(Level::detect(), 2);
    let mut whole = decoder.start(&cpu);
    cpu.replay(&whole.ready, &mut whole.memory, 1).expect("a checked program");
    let mut single = decoder.start(&cpu);
    for index in 0..single.ready.bound().records.len() {
        cpu.replay_one(&single.ready, &mut single.memory, index).expect("a checked program");
    }
    let mut timed = decoder.start(&cpu);
    let times = cpu.replay_timed(&timed.ready, &mut timed.memory).expect("a checked program");
    assert_eq!(times.len(), timed.ready.bound().records.len());
    assert!(times.iter().all(|&ns| ns > 0));
    assert_eq!(whole.row(decoder.logits, 0), single.row(decoder.logits, 0));
    assert_eq!(whole.row(decoder.logits, 0), timed.row(decoder.logits, 0));
}

#[test]
fn many_replays_with_more_threads_than_cores_end() {
    let _alone = alone();
    let decoder = Decoder::new(1);
    let mut cpu = cpu(Level::detect(), 12);
    for _ in 0..3 {
        let mut running = decoder.start(&cpu);
        for _ in 0..20 {
            cpu.replay(&running.ready, &mut running.memory, 1).expect("a checked program");
        }
    }
}

#[test]
fn backend_and_memory_may_move_between_threads() {
    fn moves<T: Send>() {}
    fn is_shared<T: Sync>() {}
    moves::<Cpu>();
    moves::<akunu_cpu::Memory>();
    moves::<akunu_cpu::Ready>();
    is_shared::<akunu_cpu::Memory>();
    is_shared::<akunu_cpu::Ready>();
}

#[test]
fn kv_memory_costs_nothing_until_it_is_used() {
    let _alone = alone();
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
        statm.split(' ').nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
    };
    let decoder = Decoder::new(1);
    let cpu = cpu(Level::detect(), 1);
    let mut rig = decoder.rig();
    rig.kv[0].blocks = (1 << 30) / rig.kv[0].block_bytes;
    let bound = cpu.bind(&rig.program).expect("every op has a kernel");
    let plan = akunu_cpu::MemoryPlan {
        programs: &[&bound],
        steps: rig.layout,
        kv: &rig.kv,
        files: vec![std::sync::Arc::new(rig.file.clone())],
        copy: false,
        arena: 0,
        row_groups: 1,
    };
    // From here on: what the allocator keeps of making the weights is not the pool's.
    let Some(before) = resident() else {
        eprintln!("skipped: no /proc/self/statm here");
        return;
    };
    let _memory = akunu_cpu::Memory::new(plan).expect("memory that is only promised");
    let grown = resident().unwrap_or(0).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes became resident for a 1 GB pool");
}
