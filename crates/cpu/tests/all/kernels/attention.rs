//! Attention against plain softmax in f64: shuffled blocks, several sequences, windows, caps, GQA.

use super::heads::kv_params;
use crate::rig::*;
use akunu_cpu::Level;
use akunu_dtype::{DType, Planes, PlanesMut};
use akunu_plan::op::{slots::attention::*, *};
use akunu_plan::program::{ActivationLayout, Arg, BufferId};
use akunu_plan::steps::{KV_BLOCK, NO_BLOCK, RowVars};
use akunu_plan::{KvPool, StepError, SubmitError};

struct Case {
    dtype: DType,
    d: usize,
    kv_heads: usize,
    group: usize,
    window: usize,
    cap: f32,
    layout: ActivationLayout,
    sees: Sees,
    rows: Vec<RowVars>,
}

impl Case {
    fn random(noise: &mut Noise) -> Case {
        let layout = noise.pick(&[ActivationLayout::F32, ActivationLayout::Q8, ActivationLayout::Bf16]);
        let dtype = noise.pick(&[DType::F32, DType::F16, DType::F16, DType::Q8_0]);
        let whole = layout != ActivationLayout::F32 || dtype == DType::Q8_0;
        let d = if whole { noise.pick(&[32, 64, 96, 128, 256]) } else { noise.pick(&[16, 20, 48, 64, 80, 128, 256]) };
        let group = 1 + noise.below(8);
        // Chunks of sequences: rows of one sequence follow one another, at rising positions.
        let count = noise.pick(&[1, 1, 2, 5, 16, 70, 90]);
        let mut rows = Vec::new();
        // Sometimes far enough on for rows to be split among workers.
        let far = noise.pick(&[0, 0, 500]);
        let mut next = [(); 3].map(|()| far + noise.below(130));
        while rows.len() < count {
            let sequence = noise.below(3);
            for _ in 0..1 + noise.below(count) {
                if rows.len() < count {
                    let position = next[sequence] as u32;
                    let length = (far + 200) as u32 + 7 * sequence as u32;
                    rows.push(RowVars { position, sequence: sequence as u32, length, ..RowVars::default() });
                    next[sequence] += 1;
                }
            }
        }
        let window = noise.pick(&[0, 0, 1, 7, 64, 100]);
        let cap = noise.pick(&[0.0, 0.0, 5.0]);
        let sees = noise.pick(&[Sees::Past, Sees::Past, Sees::All]);
        // Branches: some places of the row's own block are not for it.
        if sees == Sees::Past && noise.below(2) == 0 {
            for row in &mut rows {
                row.ahead = noise.below(3).min(row.position as usize % KV_BLOCK) as u32;
                row.ahead = if row.position as usize % KV_BLOCK + 3 < KV_BLOCK { row.ahead } else { 0 };
                let inside = row.place() % KV_BLOCK;
                let bits = if inside == 0 { 0 } else { noise.bits() & (u64::MAX >> (64 - inside)) & noise.bits() };
                row.hidden = [bits as u32, (bits >> 32) as u32];
            }
        }
        Case { dtype, d, kv_heads: 1 + noise.below(3), group, window, cap, layout, sees, rows }
    }
}

/// Positions a row sees, by the definition of the mask.
fn seen(row: &RowVars, sees: Sees, window: usize) -> std::ops::Range<usize> {
    let at = row.position as usize;
    let all = match sees {
        Sees::Past => 0..row.place() + 1,
        Sees::All => 0..row.length as usize,
    };
    let near = |p: &usize| match sees {
        _ if window == 0 => true,
        Sees::Past => p + window > at,
        Sees::All => p.abs_diff(at) <= window / 2,
    };
    let mut kept = all.filter(near);
    let first = kept.next().expect("a row sees itself");
    first..kept.next_back().unwrap_or(first) + 1
}

const BLOCKS: usize = 36;
const TABLE: usize = 12;

#[test]
fn attention_agrees_with_plain_softmax() {
    let mut failures = Failures::default();
    let mut backends = backends();
    for seed in 0..60 {
        let mut noise = Noise::new(1000 + seed);
        let case = Case::random(&mut noise);
        let Case { dtype, d, kv_heads, group, window, cap, layout, sees, ref rows } = case;
        let heads = kv_heads * group;
        let kv = kv_params(dtype, kv_heads, d);
        let mut rig = Rig::new(rows.len(), 0);
        rig.kv = vec![KvPool { block_bytes: kv.block_bytes as usize, blocks: BLOCKS }];
        rig.layout.sequences = 3;
        rig.layout.table_blocks = TABLE;
        // Programs for prompts know no branches.
        let branches = rows.iter().any(|r| r.ahead != 0 || r.hidden_places() != 0);
        let may_round = noise.below(3) > 0 && !branches;
        rig.program.may_round = may_round;
        rig.program.activations = if may_round { ActivationLayout::Bf16 } else { ActivationLayout::F32 };
        let q = rig.f32(heads * d);
        let y = rig.buffer(Per::Row, heads * d, layout);
        let scale = 2.0 / (d as f32).sqrt();
        let params = AttentionParams {
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            head_dim: d as u32,
            scale,
            soft_cap: cap,
            window: window as u32,
            kv,
            sees: sees as u32,
        };
        let mut args = [Arg::None; 3];
        (args[Q], args[Y], args[KV]) = (Arg::Buffer(q), Arg::Buffer(y), Arg::Kv(0));
        rig.op(OpKind::Attention, Per::Row, &args, Params::Attention(params));

        // Blocks in any order, only as many as positions need; those out of every window are gone.
        let mut free: Vec<u32> = (0..BLOCKS as u32).collect();
        let mut tables = [[NO_BLOCK; TABLE]; 3];
        let seen = |row: &RowVars| seen(row, sees, window);
        for row in rows {
            let blocks = seen(row).start / KV_BLOCK..=(seen(row).end - 1) / KV_BLOCK;
            for entry in &mut tables[row.sequence as usize][blocks] {
                if *entry == NO_BLOCK {
                    *entry = free.swap_remove(noise.below(free.len()));
                }
            }
        }
        // Loud queries have scores whose weights no f32 holds.
        let loud = noise.pick(&[1.0, 15.0]);
        let vq: Vec<f32> = noise.values(rows.len() * heads * d).iter().map(|v| v * 2.0 * loud).collect();
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
                    let visible = || seen(row).filter(|place| !row.hides(*place));
                    let scores: Vec<f64> = visible()
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
                            weights.iter().zip(visible()).map(|(w, position)| w * f64::from(at(position, 1)[i])).sum();
                        out.push((sum / total) as f32);
                    }
                }
                out
            })
            .collect();
        let name = format!(
            "attention seed {seed}: {dtype}, {heads}/{kv_heads} × {d}, window {window}, cap {cap}, {layout:?}, {sees:?}, {} rows, \
             loud {loud}",
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
            // Weights and values of at most 1, both rounded to bf16; an error of a score is a part of its size.
            let tiles = may_round && rows.len() > 16 && cpu.level() == Level::Amx;
            let exactness = if tiles { 1.01 / 256.0 + 1e-4 * loud } else { 4e-6 * loud };
            for (row, want) in want.iter().enumerate() {
                let got = running.row(y, row);
                let bound = layout_bound(layout, want);
                failures.compare(&name, cpu, &got, want, |i| exactness + bound(i));
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
        let params =
            AttentionParams { heads: 1, kv_heads: 1, head_dim: 64, scale: 1.0, soft_cap: 0.0, window: 0, kv, sees: 0 };
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

/// Texts of these lengths, one after the other.
pub fn texts(lengths: &[usize]) -> Vec<RowVars> {
    let text = |(sequence, &length): (usize, &usize)| {
        (0..length).map(move |position| RowVars {
            position: position as u32,
            sequence: sequence as u32,
            length: length as u32,
            ..RowVars::default()
        })
    };
    lengths.iter().enumerate().flat_map(text).collect()
}

/// Attention over keys and values that are rows of the step: a rig of one op, and its buffers q, k, v, y.
fn own_rig(
    rows: usize,
    (heads, kv_heads, d): (usize, usize, usize),
    window: usize,
    sees: Sees,
) -> (Rig, [BufferId; 4]) {
    let mut rig = Rig::new(rows, 0);
    (rig.layout.groups, rig.layout.sequences, rig.layout.table_blocks) = (0, rows, 0);
    let (q, k, v, y) = (rig.f32(heads * d), rig.f32(kv_heads * d), rig.f32(kv_heads * d), rig.f32(heads * d));
    let kv = KvParams {
        group: 0,
        dtype: DType::F32.index().into(),
        block_bytes: 0,
        layer_offset: 0,
        value_offset: 0,
        head_bytes: 4 * d as u32,
        row_bytes: rig.program.buffer(k).stride() as u32,
    };
    let params = AttentionParams {
        heads: heads as u32,
        kv_heads: kv_heads as u32,
        head_dim: d as u32,
        scale: 0.3,
        soft_cap: 0.0,
        window: window as u32,
        kv,
        sees: sees as u32,
    };
    let args = [Arg::Buffer(q), Arg::Buffer(y), Arg::None, Arg::Buffer(k), Arg::Buffer(v)];
    rig.op(OpKind::Attention, Per::Row, &args, Params::Attention(params));
    (rig, [q, k, v, y])
}

#[test]
fn texts_packed_into_a_step_see_themselves_alone() {
    let mut failures = Failures::default();
    let mut backends = backends();
    for seed in 0..24 {
        let mut noise = Noise::new(7000 + seed);
        let (sees, window) = (noise.pick(&[Sees::All, Sees::Past]), noise.pick(&[0, 0, 1, 8, 32, 130]));
        let (d, kv_heads) = (noise.pick(&[16, 20, 32, 64]), 1 + noise.below(3));
        let group = noise.pick(&[1, 1, 2, 5]);
        let heads = kv_heads * group;
        let rows = texts(noise.pick(&[&[1][..], &[2, 1, 1, 17, 3], &[70, 1, 64, 65], &[200], &[15, 16, 17, 128]]));
        let (rig, [q, k, v, y]) = own_rig(rows.len(), (heads, kv_heads, d), window, sees);
        let vq = noise.values(rows.len() * heads * d);
        let (vk, vv) = (noise.values(rows.len() * kv_heads * d), noise.values(rows.len() * kv_heads * d));
        let want: Vec<f32> = (0..rows.len() * heads)
            .flat_map(|at| {
                let (r, head) = (at / heads, at % heads);
                let first = r - rows[r].position as usize;
                let of = |values: &[f32], p: usize| -> Vec<f64> {
                    let from = ((first + p) * kv_heads + head / group) * d;
                    values[from..from + d].iter().map(|&v| v.into()).collect()
                };
                let weights: Vec<(usize, f64)> = seen(&rows[r], sees, window)
                    .map(|p| {
                        let dot: f64 = vq[at * d..][..d].iter().zip(of(&vk, p)).map(|(&q, k)| f64::from(q) * k).sum();
                        (p, (dot * f64::from(0.3f32)).exp())
                    })
                    .collect();
                let total: f64 = weights.iter().map(|(_, w)| w).sum();
                let mut out = vec![0.0; d];
                for (p, w) in weights {
                    out.iter_mut().zip(of(&vv, p)).for_each(|(o, v)| *o += w / total * v);
                }
                out.into_iter().map(|v| v as f32).collect::<Vec<_>>()
            })
            .collect();
        let name = format!("seed {seed}: {heads}/{kv_heads} × {d}, window {window}, {sees:?}, {} rows", rows.len());
        for cpu in &mut backends {
            let mut running = rig.start(cpu);
            running.rows(&rows);
            running.set(q, &vq);
            running.set(k, &vk);
            running.set(v, &vv);
            running.run(cpu);
            for (row, want) in want.chunks(heads * d).enumerate() {
                failures.compare(&name, cpu, &running.row(y, row), want, |_| 4e-6);
            }
        }
    }
    failures.report();
}

#[test]
fn texts_that_are_not_whole_are_refused() {
    let good = texts(&[3, 1, 4]);
    type Break = (&'static str, fn(&mut Vec<RowVars>));
    let table: &[Break] = &[
        ("a text that ends too early", |r| r.truncate(7)),
        ("a text that begins too late", |r| r.rotate_left(1)),
        ("a gap", |r| r[5].position = 2),
        ("a length that reaches past the step", |r| r.iter_mut().for_each(|v| v.length = u32::MAX)),
        ("lengths that differ within a text", |r| r[1].length = 4),
        ("two texts with one number", |r| r[3].sequence = 0),
        ("a position past the length", |r| r[3].position = 1),
        ("rows in another order", |r| r.swap(4, 5)),
        ("no length", |r| r[3].length = 0),
    ];
    let (rig, _) = own_rig(good.len(), (2, 1, 16), 0, Sees::All);
    for mut cpu in backends() {
        let mut running = rig.start(&cpu);
        running.rows(&good);
        assert_eq!(cpu.replay(&running.ready, &mut running.memory, 1), Ok(()));
        for (what, break_it) in table {
            let mut rows = good.clone();
            break_it(&mut rows);
            running.rows(&rows);
            let found = cpu.replay(&running.ready, &mut running.memory, 1);
            assert!(matches!(found, Err(SubmitError::Steps(StepError::Text { .. }))), "{what}: {found:?}");
        }
    }
}

/// A row beside another of its text goes with it in a tile; one that is alone with its text does not.
#[test]
fn a_row_is_the_same_alone_and_beside_others_of_its_text() {
    let (kv_heads, group) = (2, 3);
    for dtype in [DType::F32, DType::F16, DType::Q8_0] {
        for d in [32, 64, 96, 128] {
            let mut noise = Noise::new(d as u64);
            let kv = kv_params(dtype, kv_heads, d);
            let mut rig = Rig::new(3, 0);
            rig.kv = vec![KvPool { block_bytes: kv.block_bytes as usize, blocks: 10 }];
            (rig.layout.sequences, rig.layout.table_blocks) = (2, 5);
            let width = kv_heads * group * d;
            let (q, y) = (rig.f32(width), rig.buffer(Per::Row, width, ActivationLayout::Q8));
            let (heads, head_dim) = ((kv_heads * group) as u32, d as u32);
            let (soft_cap, window, sees, scale) = (0.0, 0, Sees::Past as u32, 0.3);
            let params =
                AttentionParams { heads, kv_heads: kv_heads as u32, head_dim, scale, soft_cap, window, kv, sees };
            let args = [Arg::Buffer(q), Arg::Buffer(y), Arg::Kv(0)];
            rig.op(OpKind::Attention, Per::Row, &args, Params::Attention(params));
            let mut rows = Vec::new();
            for _ in 0..10 * kv.block_bytes / kv.row_bytes {
                let mut data = vec![0; kv.row_bytes as usize];
                let encode = dtype.format().encode.expect("a KV format");
                encode(&noise.values(d), PlanesMut { data: &mut data, ..PlanesMut::default() });
                rows.extend(data);
            }
            let queries = noise.values(3 * width);
            for cpu in &mut backends() {
                let mut running = rig.start(cpu);
                running.memory.kv_mut(0)[..rows.len()].copy_from_slice(&rows);
                // At and beyond the end of a span, too, and with a block that is not there.
                for position in [0, 1, 15, 16, 17, 63, 64, 100, 130, 254, 255, 256, 300] {
                    for sequence in 0..2 {
                        let mut table: Vec<u32> = (0..5).map(|block| 9 - (5 * sequence as u32 + block)).collect();
                        if position % 3 == 1 {
                            table[sequence] = NO_BLOCK;
                        }
                        running.memory.step_vars().table_mut(0, sequence).copy_from_slice(&table);
                    }
                    let at = |position, sequence| RowVars { position, sequence, ..RowVars::default() };
                    let mut of = |step: &[RowVars], first: usize| {
                        running.rows(step);
                        running.set(q, &queries[first * width..][..step.len() * width]);
                        running.run(cpu);
                        [1, 2].map(|row| running.row(y, row - first))
                    };
                    let [alone, other] = of(&[at(position, 0), at(77, 1)], 1);
                    let [beside, same] = of(&[at(position + 1, 0), at(position, 0), at(77, 1)], 0);
                    assert!(alone == beside && other == same, "{dtype}, {d}, {position}, {}", cpu.level());
                }
            }
        }
    }
}
