//! Times of single dispatches: `cargo bench -p akunu-cpu --bench kernel_times -- [threads] [level]`.
//!
//! Each line is the best of many replays of one record, with the pool's wake-up and end included;
//! the first lines give what an empty replay and a barrier cost, to be taken off.

#[path = "../tests/all/rig.rs"]
mod rig;

use akunu_cpu::pool::Pool;
use akunu_cpu::{Cpu, Level, Options};
use akunu_dtype::DType;
use akunu_plan::KvPool;
use akunu_plan::op::*;
use akunu_plan::program::{ActivationLayout, Arg};
use akunu_plan::rules::{Chosen, RuleVars, Rules};
use akunu_plan::steps::{KV_BLOCK, RowVars};
use rig::{Noise, Rig, Start};
use std::time::Instant;

/// The shortest time of `f` in microseconds: what it takes when nothing else runs.
fn shortest(mut f: impl FnMut()) -> f64 {
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 25 || (begin.elapsed().as_millis() < 300 && times.len() < 20_000) {
        let start = Instant::now();
        f();
        times.push(start.elapsed().as_nanos() as f64 / 1e3);
    }
    times.into_iter().fold(f64::MAX, f64::min)
}

fn pool(threads: usize) {
    let mut pool = Pool::new(threads).expect("threads");
    let empty = shortest(|| pool.run(&|_, _| {}));
    let barriers = shortest(|| {
        pool.run(&|_, barrier| {
            for _ in 0..1000 {
                barrier.wait();
            }
        });
    });
    let phases = shortest(|| pool.run_phases(1000, &|_, _| {}));
    let [barrier, phase] = [barriers, phases].map(|time| (time - empty) / 1e3);
    println!("pool: empty job {empty:.2} µs, barrier {barrier:.3} µs, phase {phase:.3} µs");
}

fn norm(cpu: &mut Cpu, dim: usize, rows: usize, layout: ActivationLayout) {
    let mut noise = Noise::new(1);
    let mut rig = Rig::new(rows, 0);
    let x = rig.f32(dim);
    let y = rig.buffer(Per::Row, dim, layout);
    let weight = rig.constant(&noise.values(dim));
    let params = NormParams { dim: dim as u32, kind: NORM_RMS, eps: 1e-5, scale: 1.0 };
    rig.op(OpKind::Norm, Per::Row, &[Arg::Buffer(x), Arg::Buffer(y), weight], Params::Norm(params));
    let mut running = rig.start(cpu);
    running.set(x, &noise.values(rows * dim));
    let time = shortest(|| running.run(cpu));
    println!("{:8} norm {rows} × {dim} → {layout:?}: {time:.2} µs", cpu.level().name());
}

/// Rows of logits in the middle of a text, where both words and timestamps may come.
fn suppress(cpu: &mut Cpu, n: usize, rows: usize) {
    let mut rig = Rig::new(rows, rows);
    let mut buffer = |width| rig.buffer(Per::Output, width, ActivationLayout::F32);
    let (logits, maxima, total) = (buffer(n), buffer(n.div_ceil(MAXIMA_SLICE)), buffer(1));
    let args = [logits, maxima, total].map(Arg::Buffer);
    rig.op(OpKind::Suppress, Per::Output, &args, Params::Token(TokenParams { n: n as u32 }));
    let mut running = rig.start(cpu);
    running.set(logits, &Noise::new(1).values(rows * n));
    let (end, first) = (n as u32 - 1608, n as u32 - 1501);
    let rules =
        Rules { end, first_timestamp: first, timestamps: 1, latest_start: 50, never: 90, not_first: 0, tokens: [0; _] };
    let mut text = RuleVars::empty();
    [first, 7].iter().for_each(|&token| text.push(&rules, Chosen { token, ..Chosen::default() }));
    let mut vars = running.memory.step_vars();
    *vars.rules_mut() = rules;
    vars.texts_mut().fill(text);
    let time = shortest(|| running.run(cpu));
    println!("{:8} suppress {rows} × {n}: {time:.1} µs", cpu.level().name());
}

struct Heads {
    heads: usize,
    kv_heads: usize,
    d: usize,
}

/// `rows` rows each of some texts, that end at `depth` positions, in each of some layers: the time of one layer.
fn attention(cpu: &mut Cpu, shape: &Heads, dtype: DType, depth: usize, (texts, rows): (usize, usize), layers: usize) {
    let &Heads { heads, kv_heads, d } = shape;
    let row = dtype.row_bytes(d).expect("whole blocks");
    let half = kv_heads * KV_BLOCK * row;
    let kv = KvParams {
        group: 0,
        dtype: dtype.index().into(),
        block_bytes: (layers * 2 * half) as u32,
        layer_offset: 0,
        value_offset: half as u32,
        head_bytes: (KV_BLOCK * row) as u32,
        row_bytes: row as u32,
    };
    let blocks = depth.div_ceil(KV_BLOCK);
    let mut noise = Noise::new(1);
    let mut rig = Rig::new(texts * rows, 0);
    rig.kv = vec![KvPool { block_bytes: layers * 2 * half, blocks: texts * blocks }];
    (rig.layout.sequences, rig.layout.table_blocks) = (texts, blocks);
    let (q, y) = (rig.f32(heads * d), rig.f32(heads * d));
    let params = AttentionParams {
        heads: heads as u32,
        kv_heads: kv_heads as u32,
        head_dim: d as u32,
        scale: 0.1,
        soft_cap: 0.0,
        window: 0,
        kv,
        sees: 0,
    };
    for layer in 0..layers {
        let kv = KvParams { layer_offset: (layer * 2 * half) as u32, ..kv };
        let params = Params::Attention(AttentionParams { kv, ..params });
        rig.op(OpKind::Attention, Per::Row, &[Arg::Buffer(q), Arg::Buffer(y), Arg::Kv(0)], params);
    }
    let mut running = rig.start(cpu);
    // 0x3030 is a small f16, 0x30303030 a small f32, and q8_0 has a small scale.
    running.memory.kv_mut(0).fill(0x30);
    let mut vars = Vec::new();
    for text in 0..texts {
        for (i, entry) in running.memory.step_vars().table_mut(0, text).iter_mut().enumerate() {
            *entry = (text * blocks + i) as u32;
        }
        let row = |r| RowVars { sequence: text as u32, position: (depth - rows + r) as u32, ..RowVars::default() };
        vars.extend((0..rows).map(row));
    }
    running.rows(&vars);
    running.set(q, &noise.values(texts * rows * heads * d));
    let time = shortest(|| running.run(cpu)) / layers as f64;
    let bytes = texts * 2 * kv_heads * depth * row;
    let flops = texts * 4 * heads * d * (depth * rows - rows * (rows - 1) / 2);
    println!(
        "{:8} attention {dtype} {heads}/{kv_heads} × {d}, {texts} × depth {depth}, {rows} rows, {layers} layers: {time:.1} µs, {:.1} GB/s, {:.1} GFLOP/s",
        cpu.level().name(),
        bytes as f64 / time / 1e3,
        flops as f64 / time / 1e3,
    );
}

fn main() {
    let only = std::env::args().nth(2).and_then(|name| Level::from_name(&name));
    let threads = std::env::args().nth(1).and_then(|v| v.parse().ok()).unwrap_or_else(Pool::default_threads);
    pool(threads);
    for level in Level::available().filter(|level| only.is_none_or(|only| only == *level)) {
        let options = Options { threads: Some(threads), level: Some(level), ..Options::default() };
        let mut cpu = Cpu::new(options).expect("an available level");
        norm(&mut cpu, 576, 1, ActivationLayout::Q8);
        norm(&mut cpu, 2048, 1, ActivationLayout::F32);
        norm(&mut cpu, 2048, 1, ActivationLayout::Q8);
        norm(&mut cpu, 2048, 512, ActivationLayout::Q8);
        [1, 5].iter().for_each(|rows| suppress(&mut cpu, 51_865, *rows));
        for shape in [Heads { heads: 8, kv_heads: 4, d: 32 }, Heads { heads: 9, kv_heads: 3, d: 64 }] {
            for depth in [1, 8, 40, 64, 72, 128, 200] {
                attention(&mut cpu, &shape, DType::F16, depth, (8, 1), 1);
            }
            // As much as a step over many texts reads: the second-level cache has it, and it does not.
            [1, 6].iter().for_each(|layers| attention(&mut cpu, &shape, DType::F16, 80, (16, 1), *layers));
            // More than the caches hold.
            [40, 72].iter().for_each(|depth| attention(&mut cpu, &shape, DType::F16, *depth, (1000, 1), 1));
        }
        for shape in [
            Heads { heads: 9, kv_heads: 3, d: 64 },
            Heads { heads: 16, kv_heads: 8, d: 128 },
            Heads { heads: 32, kv_heads: 8, d: 64 },
        ] {
            for dtype in [DType::F16, DType::F32, DType::Q8_0] {
                attention(&mut cpu, &shape, dtype, 4096, (1, 1), 1);
            }
            attention(&mut cpu, &shape, DType::F16, 512, (1, 512), 1);
        }
    }
}
