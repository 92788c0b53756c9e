//! Every target over its corpus and over mutations of it: no panic, one sentence for an error, bounded memory and time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use akunu_fuzz::{TARGETS, Target};

/// What an input may take. Fuzzing runs optimized, allows a second less, and has fewer neighbours.
const MOST_BYTES: usize = 1 << 30;
const MOST_TIME: Duration = Duration::from_secs(20);
/// How long the seeds of a target are mutated.
const MUTATING: Duration = Duration::from_millis(700);

/// The system's allocator, counting what all threads have and had at most.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to `System` unchanged; counting neither allocates nor drops.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The seeds of a target by name, in order.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder("corpus").join(target)).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap()))
        .collect()
}

/// What an input did that it must not.
fn fault(target: Target, bytes: &[u8]) -> Option<String> {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let started = Instant::now();
    let panicked = catch_unwind(|| target(bytes)).is_err();
    let (took, peak) = (started.elapsed(), PEAK.load(Ordering::Relaxed).saturating_sub(before));
    if panicked {
        return Some("panicked".to_owned());
    }
    (took > MOST_TIME || peak > MOST_BYTES).then(|| format!("took {took:?} and {peak} bytes"))
}

#[test]
fn every_target_keeps_the_promise_over_its_corpus_and_mutations_of_it() {
    let mut faults = Vec::new();
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for (seed, bytes) in &seeds {
            faults.extend(fault(target, bytes).map(|fault| format!("{name}/{seed} {fault}")));
        }
        let mut random = Random(0x5eed);
        let started = Instant::now();
        for round in 0.. {
            if started.elapsed() > MUTATING {
                println!("{name}: {} seeds, {round} mutations", seeds.len());
                break;
            }
            let (seed, bytes) = &seeds[round % seeds.len()];
            let mut bytes = bytes.clone();
            let other = &seeds[random.below(seeds.len())].1;
            mutate(&mut random, &mut bytes, other);
            if let Some(fault) = fault(target, &bytes) {
                let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{round}"));
                fs::write(&kept, bytes).unwrap();
                faults.push(format!("{name}/{seed}, mutation {round}, {fault}: {}", kept.display()));
                break;
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| name.to_string()).collect();
    for list in ["corpus", "fuzz_targets"] {
        let stems = fs::read_dir(folder(list)).unwrap().map(|e| e.unwrap().path().file_stem().unwrap().to_os_string());
        assert_eq!(stems.map(|name| name.into_string().unwrap()).collect::<BTreeSet<_>>(), names, "{list}");
    }
}

/// Values that break things more often than random ones.
const EDGES: [u64; 8] = [0, 1, 31, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX];

/// Changes bytes here and there, repeats some, and takes some of another seed.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let count = edge.len().min(bytes.len() - at);
                bytes[at..at + count].copy_from_slice(&edge[..count]);
            }
            3 => drop(bytes.drain(at..bytes.len().min(at + random.below(32)))),
            4 => {
                let from = random.below(bytes.len() + 1);
                let part = bytes[from..bytes.len().min(from + 1 + random.below(32))].repeat(1 + random.below(9));
                drop(bytes.splice(at..at, part));
            }
            5 => {
                let from = random.below(other.len() + 1);
                let part = &other[from..other.len().min(from + 1 + random.below(64))];
                drop(bytes.splice(at..at, part.iter().copied()));
            }
            _ => bytes.insert(at, b"\"'{}[]()<>|*+?\\/.,:;=-_ \n0159aeZ\0\x7f\xc3\xff"[random.below(36)]),
        }
    }
}

/// A generator of numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
