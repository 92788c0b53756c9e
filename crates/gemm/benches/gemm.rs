//! How fast the micro-kernels are: GB/s of weights for one activation row, on one thread and
//! two, from the L3 and from memory, and for eight rows on two threads from memory; GOP/s
//! for several rows with weights in the L2.
//!
//! `cargo bench -p akunu-gemm --bench gemm -- [PART OF A NAME]...`
//! Every figure is the best of several passes, since other processes only ever slow one down.

use akunu_dtype::{DType, Format, q8};
use akunu_gemm::gemm::{Gemm, STREAMS};
use akunu_gemm::table::{Act, GemmRow, KERNELS};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Values of a row.
const K: usize = 2048;
/// The results of a tile, as products have it, and its weight rows at most.
const TILE: usize = 4096;
const COLS: usize = 2048;
const MEMORY: usize = 480 << 20;
/// Activation rows, threads, and bytes of weights: in the L3, in memory.
const RUNS: [(usize, usize, usize); 5] =
    [(1, 1, 24 << 20), (1, 2, 24 << 20), (1, 1, MEMORY), (1, 2, MEMORY), (8, 2, MEMORY)];
/// Weight rows that fit in the L2, and activation rows with them, on one thread.
const CACHED: usize = 256;
const ROWS: [usize; 6] = [2, 4, 8, 16, 32, MOST];
const MOST: usize = 64;
/// What one thread reads between two looks at the clock.
const CHUNK: usize = 6 << 20;
/// How long to look for the best pass.
const PATIENCE: Duration = Duration::from_millis(700);

/// The results of a tile, aligned as rows of activations are.
#[repr(align(64))]
struct Results([f32; TILE]);

fn main() {
    // Cargo adds an option of its own.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let weights = noise(MEMORY + 4096);
    let heads = RUNS.map(|(rows, threads, bytes)| format!("{rows}: {} MB ×{threads}", bytes >> 20));
    print("", heads.iter().cloned().chain(ROWS.map(|rows| format!("rows {rows}"))));
    print("", RUNS.map(|_| "GB/s".to_owned()).into_iter().chain(ROWS.map(|_| "GOP/s".to_owned())));
    let reading = RUNS.map(|(_, threads, bytes)| bandwidth(threads, bytes, 1, |from, to| read(&weights[from..to])));
    print("reading alone", reading.map(figure));
    for row in KERNELS.iter().filter(|row| row.level.checked().is_ok()) {
        let chosen = wanted.iter().all(|part| row.name.to_lowercase().contains(&part.to_lowercase()));
        // A kernel for every format is measured on those that have no other.
        let dtypes = match (row.dtype, row.act) {
            (Some(dtype), _) => vec![dtype],
            (None, Act::F32) => vec![DType::Q4_0],
            (None, Act::Q8) => vec![DType::TQ1_0, DType::TQ2_0, DType::NVFP4],
        };
        for dtype in dtypes.into_iter().filter(|_| chosen) {
            let name = if row.dtype.is_some() { row.name.to_owned() } else { format!("{} {dtype}", row.name) };
            report(row, &name, dtype.format(), &weights);
        }
    }
}

fn report(row: &GemmRow, name: &str, f: &Format, weights: &[u8]) {
    let stride = K / f.block * f.bytes;
    let side = K / f.block * f.side_bytes;
    let row_bytes = stride + 2 * side;
    let x = activations(row.act, MOST);
    let x_stride = x.len() / MOST;
    let tile = |rows: usize, (n, cols): (usize, usize), total: usize, out: &mut [f32]| {
        // All weights, then all scales, then all biases.
        let d = Gemm {
            w: weights[n * stride..].as_ptr(),
            w_scales: weights[total * stride + n * side..].as_ptr(),
            w_biases: weights[total * (stride + side) + n * side..].as_ptr(),
            w_stride: stride,
            w_side_stride: side,
            next: weights.as_ptr().wrapping_add((n + cols) * stride),
            x: x.as_ptr(),
            x_stride,
            rows,
            cols,
            k: K,
            out: out.as_mut_ptr(),
            out_stride: cols,
            dtype: f.dtype.index(),
        };
        // SAFETY: the weights of `total` rows, the activations of `MOST`, and room for the tile.
        unsafe { (row.run)(&d) };
    };
    let runs = RUNS.map(|(rows, threads, bytes)| {
        let cols = COLS.min(TILE / rows);
        let total = bytes / row_bytes / cols * cols;
        bandwidth(threads, total * row_bytes, cols * row_bytes, |from, to| {
            let mut out = Results([0.0; TILE]);
            for n in (from / row_bytes..to / row_bytes).step_by(cols) {
                tile(rows, (n, cols), total, &mut out.0);
            }
        })
    });
    let cached = ROWS.map(|rows| {
        let cols = CACHED.min(TILE / rows);
        let mut out = Results([0.0; TILE]);
        let time = best(|| (0..CACHED).step_by(cols).for_each(|n| tile(rows, (n, cols), CACHED, &mut out.0)));
        2.0 * (rows * CACHED * K) as f64 / time / 1e9
    });
    print(name, runs.into_iter().chain(cached).map(figure));
}

fn figure(v: f64) -> String {
    format!("{v:.1}")
}

fn print(name: &str, columns: impl IntoIterator<Item = String>) {
    let columns: String = columns.into_iter().map(|c| format!(" {c:>10}")).collect();
    println!("{name:30}{columns}");
}

/// GB/s of `work(from, to)` over `bytes` bytes that `threads` threads share, in chunks of whole units: other
/// processes interrupt few of the chunks, so the fastest tenth of them counts.
fn bandwidth(threads: usize, bytes: usize, unit: usize, work: impl Fn(usize, usize) + Sync) -> f64 {
    let bytes = bytes / unit / threads * unit * threads;
    let chunk = (CHUNK.min(bytes / threads) / unit).max(1) * unit;
    let chunks = bytes / threads / chunk;
    let (barrier, over) = (Barrier::new(threads), AtomicBool::new(false));
    let end = Instant::now() + PATIENCE;
    let mut times = std::thread::scope(|scope| {
        let each: Vec<_> = (0..threads)
            .map(|t| {
                let (barrier, over, work) = (&barrier, &over, &work);
                scope.spawn(move || {
                    let mut times = Vec::new();
                    for pass in 0.. {
                        let from = bytes / threads * t + chunk * (pass % chunks);
                        // One thread decides, between two barriers, whether there is another chunk.
                        if barrier.wait().is_leader() {
                            over.store(pass >= chunks && Instant::now() > end, Ordering::Relaxed);
                        }
                        barrier.wait();
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        let start = Instant::now();
                        work(from, from + chunk);
                        times.push(start.elapsed());
                    }
                    times
                })
            })
            .collect();
        // A chunk takes as long as the slowest thread's.
        let each: Vec<Vec<Duration>> = each.into_iter().map(|t| t.join().unwrap()).collect();
        (0..each[0].len()).filter_map(|i| each.iter().map(|t| t[i]).max()).collect::<Vec<_>>()
    });
    times.sort();
    (chunk * threads) as f64 / times[times.len() / 10].as_secs_f64() / 1e9
}

fn best(mut work: impl FnMut()) -> f64 {
    let end = Instant::now() + PATIENCE;
    let mut least = f64::INFINITY;
    while Instant::now() < end {
        let start = Instant::now();
        work();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

/// Touches all bytes but a last few, in as many streams as the kernels do.
fn read(bytes: &[u8]) {
    let mut sums = [0u64; 32];
    // SAFETY: any bytes are integers.
    let (_, words, _) = unsafe { bytes.align_to::<u64>() };
    let part = words.len() / STREAMS / 32 * 32;
    for at in (0..part).step_by(32) {
        for stream in 0..STREAMS {
            for (sum, word) in sums.iter_mut().zip(&words[stream * part + at..][..32]) {
                *sum ^= word;
            }
        }
    }
    std::hint::black_box(sums);
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        // Exponents in the middle of the range, whatever the type.
        bytes.extend_from_slice(&(state >> 3 & 0x3f3f_3f3f_3f3f_3f3f | 0x2020_2020_2020_2020).to_le_bytes());
    }
    bytes
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; 64]);

fn activations(act: Act, rows: usize) -> &'static [u8] {
    let bytes = match act {
        Act::F32 => 4 * K,
        Act::Q8 => q8::row_bytes(K),
    };
    let line = Line(std::array::from_fn(|i| [0, 0, 0, 0x3f][i % 4]));
    let lines = vec![line; bytes.div_ceil(64) * rows].leak();
    // SAFETY: lines are bytes without padding.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
}
