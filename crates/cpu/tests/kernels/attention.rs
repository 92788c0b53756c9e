//! Attention against plain softmax in f64: shuffled blocks, several sequences, windows, caps, GQA.

use crate::heads::kv_params;
use crate::rig::*;
use akunu_cpu::KvPool;
use akunu_dtype::{DType, Planes, PlanesMut};
use akunu_plan::op::{slots::attention::*, *};
use akunu_plan::program::{Arg, Store};
use akunu_plan::steps::{KV_BLOCK, NO_BLOCK, RowVars};

struct Case {
    dtype: DType,
    d: usize,
    kv_heads: usize,
    group: usize,
    window: usize,
    cap: f32,
    store: Store,
    rows: Vec<RowVars>,
}

impl Case {
    fn random(noise: &mut Noise) -> Case {
        let store = noise.pick(&[Store::F32, Store::Q8]);
        let dtype = noise.pick(&[DType::F32, DType::F16, DType::F16, DType::Q8_0]);
        let whole = store == Store::Q8 || dtype == DType::Q8_0;
        let d = if whole { noise.pick(&[32, 64, 96, 128, 256]) } else { noise.pick(&[16, 20, 48, 64, 80, 128, 256]) };
        let group = 1 + noise.below(8);
        // Chunks of sequences: rows of one sequence follow one another, at rising positions.
        let count = noise.pick(&[1, 1, 2, 5, 16, 70]);
        let mut rows = Vec::new();
        let mut next = [noise.below(130), noise.below(130), noise.below(130)];
        while rows.len() < count {
            let sequence = noise.below(3);
            for _ in 0..1 + noise.below(count) {
                if rows.len() < count {
                    let position = next[sequence] as u32;
                    rows.push(RowVars { position, sequence: sequence as u32, ..RowVars::default() });
                    next[sequence] += 1;
                }
            }
        }
        let window = noise.pick(&[0, 0, 1, 7, 64, 100]);
        let cap = noise.pick(&[0.0, 0.0, 5.0]);
        Case { dtype, d, kv_heads: 1 + noise.below(3), group, window, cap, store, rows }
    }
}

const BLOCKS: usize = 12;
const TABLE: usize = 4;

#[test]
fn attention_agrees_with_plain_softmax() {
    let mut failures = Failures::default();
    let mut backends = backends();
    for seed in 0..60 {
        let mut noise = Noise::new(1000 + seed);
        let case = Case::random(&mut noise);
        let Case { dtype, d, kv_heads, group, window, cap, store, ref rows } = case;
        let heads = kv_heads * group;
        let kv = kv_params(dtype, kv_heads, d);
        let mut rig = Rig::new(rows.len(), 0);
        rig.kv = vec![KvPool { block_bytes: kv.block_bytes as usize, blocks: BLOCKS }];
        rig.layout.sequences = 3;
        rig.layout.table_blocks = TABLE;
        let q = rig.f32(heads * d);
        let y = rig.buffer(Per::Row, heads * d, store);
        let scale = 2.0 / (d as f32).sqrt();
        let params = AttentionParams {
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            head_dim: d as u32,
            scale,
            soft_cap: cap,
            window: window as u32,
            kv,
        };
        let mut args = [Arg::None; 3];
        (args[Q], args[Y], args[KV]) = (Arg::Buffer(q), Arg::Buffer(y), Arg::Kv(0));
        rig.op(OpKind::Attention, Per::Row, &args, Params::Attention(params));

        // Blocks in any order, only as many as positions need; those out of every window are gone.
        let mut free: Vec<u32> = (0..BLOCKS as u32).collect();
        let mut tables = [[NO_BLOCK; TABLE]; 3];
        let seen = |row: &RowVars| {
            let last = row.position as usize;
            let first = if window == 0 { 0 } else { (last + 1).saturating_sub(window) };
            first..last + 1
        };
        for row in rows {
            let blocks = seen(row).start / KV_BLOCK..=row.position as usize / KV_BLOCK;
            for entry in &mut tables[row.sequence as usize][blocks] {
                if *entry == NO_BLOCK {
                    *entry = free.swap_remove(noise.below(free.len()));
                }
            }
        }
        let vq: Vec<f32> = noise.values(rows.len() * heads * d).iter().map(|v| v * 2.0).collect();
        // Keys and values of every position some row sees, as the cache will hold them.
        let mut bytes = Vec::new();
        let mut stored = std::collections::HashMap::new();
        for row in rows {
            for position in seen(row) {
                for head in 0..kv_heads {
                    for half in 0..2 {
                        let key = (row.sequence, position, head, half);
                        stored.entry(key).or_insert_with(|| {
                            let mut data = vec![0; kv.row_bytes as usize];
                            let encode = dtype.format().encode.expect("a KV format");
                            encode(&noise.values(d), PlanesMut { data: &mut data, ..PlanesMut::default() });
                            let mut values = vec![0.0; d];
                            (dtype.format().decode)(Planes { data: &data, ..Planes::default() }, &mut values);
                            let block = tables[row.sequence as usize][position / KV_BLOCK] as usize;
                            let at = block * kv.block_bytes as usize
                                + kv.layer_offset as usize
                                + half * kv.value_offset as usize
                                + head * kv.head_bytes as usize
                                + position % KV_BLOCK * kv.row_bytes as usize;
                            bytes.push((at, data));
                            values
                        });
                    }
                }
            }
        }
        let want: Vec<Vec<f32>> = rows
            .iter()
            .enumerate()
            .map(|(r, row)| {
                let mut out = Vec::new();
                for head in 0..heads {
                    let q = &vq[(r * heads + head) * d..][..d];
                    let at = |position, half| &stored[&(row.sequence, position, head / group, half)];
                    let scores: Vec<f64> = seen(row)
                        .map(|position| {
                            let dot: f64 =
                                q.iter().zip(at(position, 0)).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
                            let s = dot * f64::from(scale);
                            if cap != 0.0 { f64::from(cap) * (s / f64::from(cap)).tanh() } else { s }
                        })
                        .collect();
                    let most = scores.iter().fold(f64::MIN, |a, &b| a.max(b));
                    let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    for i in 0..d {
                        let sum: f64 =
                            weights.iter().zip(seen(row)).map(|(w, position)| w * f64::from(at(position, 1)[i])).sum();
                        out.push((sum / total) as f32);
                    }
                }
                out
            })
            .collect();
        let name = format!(
            "attention seed {seed}: {dtype}, {heads}/{kv_heads} × {d}, window {window}, cap {cap}, {store:?}, {} rows",
            rows.len()
        );
        for cpu in &mut backends {
            let mut running = rig.start(cpu);
            running.rows(rows);
            for (sequence, table) in tables.iter().enumerate() {
                running.memory.step_vars().table_mut(0, sequence).copy_from_slice(table);
            }
            for (at, data) in &bytes {
                running.memory.kv_mut(0)[*at..*at + data.len()].copy_from_slice(data);
            }
            running.set(q, &vq);
            running.run(cpu);
            for (row, want) in want.iter().enumerate() {
                let got = running.row(y, row);
                match store {
                    Store::F32 => failures.compare(&name, cpu, &got, want, |_| 4e-6),
                    Store::Q8 => failures.compare(&name, cpu, &got, want, int8_bound(want)),
                }
            }
        }
    }
    failures.report();
}

#[test]
fn a_row_that_sees_no_block_gets_zeros() {
    for mut cpu in backends() {
        let kv = kv_params(DType::F16, 1, 64);
        let mut rig = Rig::new(1, 0);
        rig.kv = vec![KvPool { block_bytes: kv.block_bytes as usize, blocks: 1 }];
        let (q, y) = (rig.f32(64), rig.f32(64));
        let params = AttentionParams { heads: 1, kv_heads: 1, head_dim: 64, scale: 1.0, soft_cap: 0.0, window: 0, kv };
        let args = [Arg::Buffer(q), Arg::Buffer(y), Arg::Kv(0)];
        rig.op(OpKind::Attention, Per::Row, &args, Params::Attention(params));
        for entry in [NO_BLOCK, 1, 77] {
            let mut running = rig.start(&cpu);
            running.memory.step_vars().table_mut(0, 0)[0] = entry;
            running.set(q, &[1.0; 64]);
            running.run(&mut cpu);
            assert_eq!(running.row(y, 0), [0.0; 64]);
        }
    }
}
