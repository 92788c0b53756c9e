//! Head norm, rotation and the KV write.

use crate::rig::*;
use akunu_cpu::Level;
use akunu_dtype::{DType, Planes};
use akunu_plan::KvPool;
use akunu_plan::op::{slots::heads::*, *};
use akunu_plan::program::{ActivationLayout, Arg};
use akunu_plan::record::Region;
use akunu_plan::steps::{KV_BLOCK, NO_BLOCK, RowVars};

/// The KV layout the builder writes, with another layer's bytes before and after this one's.
pub fn kv_params(dtype: DType, kv_heads: usize, head_dim: usize) -> KvParams {
    let row = dtype.row_bytes(head_dim).expect("whole blocks");
    let half = kv_heads * KV_BLOCK * row;
    KvParams {
        group: 0,
        dtype: dtype.index().into(),
        block_bytes: 6 * half as u32,
        layer_offset: 2 * half as u32,
        value_offset: half as u32,
        head_bytes: (KV_BLOCK * row) as u32,
        row_bytes: row as u32,
    }
}

/// The blocks of two sequences, out of order; one is missing.
const TABLES: [[u32; 3]; 2] = [[3, 0, NO_BLOCK], [1, 4, 2]];

/// Rows of both sequences at distinct positions.
fn place(running: &mut Running, rows: usize) -> Vec<RowVars> {
    for (sequence, table) in TABLES.iter().enumerate() {
        running.memory.step_vars().table_mut(0, sequence).copy_from_slice(table);
    }
    let row = |r| RowVars { position: (r * 29 % 192) as u32, sequence: (r % 2) as u32, ..RowVars::default() };
    let mut vars: Vec<RowVars> = (0..rows).map(row).collect();
    vars.sort_by_key(|v| (v.sequence, v.position));
    running.rows(&vars);
    vars
}

/// A row's key or value of a head, if it has a block.
fn stored(
    running: &Running,
    kv: &KvParams,
    (head, d): (usize, usize),
    row: &RowVars,
    are_values: bool,
) -> Option<Vec<f32>> {
    let position = row.position as usize;
    let block = TABLES[row.sequence as usize][position / KV_BLOCK];
    let at = block as usize * kv.block_bytes as usize
        + kv.layer_offset as usize
        + if are_values { kv.value_offset as usize } else { 0 }
        + head * kv.head_bytes as usize
        + position % KV_BLOCK * kv.row_bytes as usize;
    let dtype = DType::from_index(kv.dtype as u8).expect("a format");
    let mut values = vec![0.0; d];
    (block != NO_BLOCK).then(|| {
        let data = &running.memory.bytes(Region::kv(0))[at..][..kv.row_bytes as usize];
        (dtype.format().decode)(Planes { data, ..Planes::default() }, &mut values);
        values
    })
}

fn expected(head: &[f32], weight: Option<&[f32]>, angles: &[f32], p: &HeadParams) -> Vec<f32> {
    let mut v: Vec<f64> = head.iter().map(|&v| v.into()).collect();
    if let Some(weight) = weight {
        let square = v.iter().map(|v| v * v).sum::<f64>() / v.len() as f64;
        let factor = 1.0 / (square + f64::from(p.eps)).sqrt();
        v.iter_mut().zip(weight).for_each(|(v, &w)| *v *= factor * f64::from(w));
    }
    let pairs = p.pairs as usize;
    for i in 0..pairs {
        let (a, b) = match p.style {
            ROPE_INTERLEAVED => (2 * i, 2 * i + 1),
            ROPE_SPLIT_HALF => (i, i + pairs),
            _ => break,
        };
        let (cos, sin) = (f64::from(angles[2 * i]), f64::from(angles[2 * i + 1]));
        (v[a], v[b]) = (v[a] * cos - v[b] * sin, v[a] * sin + v[b] * cos);
    }
    v.iter().map(|&v| v as f32).collect()
}

#[test]
fn heads_are_normalized_rotated_and_stored() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(40);
    for mut cpu in backends() {
        for case in 0..24 {
            let dtype = noise.pick(&[DType::F32, DType::F16, DType::Q8_0]);
            let d = if dtype == DType::Q8_0 { noise.pick(&[32, 64, 128]) } else { noise.pick(&[16, 20, 64, 80, 256]) };
            let kv_heads = noise.pick(&[1, 2, 3, 18]);
            let heads = kv_heads * (1 + noise.below(8));
            let rows = noise.pick(&[1, 2, 7]);
            let style = noise.pick(&[ROPE_NONE, ROPE_INTERLEAVED, ROPE_SPLIT_HALF]);
            let pairs = if style == ROPE_NONE { 0 } else { noise.pick(&[d / 2, d / 4]) };
            let normed = noise.below(2) == 0;
            let kv = kv_params(dtype, kv_heads, d);
            let p = HeadsParams {
                heads: heads as u32,
                kv_heads: kv_heads as u32,
                head_dim: d as u32,
                pairs: pairs as u32,
                style,
                eps: 1e-6,
                kv,
            };
            let one = p.each(p.heads);
            let mut rig = Rig::new(rows, 0);
            rig.kv = vec![KvPool { block_bytes: kv.block_bytes as usize, blocks: 5 }];
            (rig.layout.sequences, rig.layout.table_blocks) = (TABLES.len(), TABLES[0].len());
            let (q, k, v) = (rig.f32(heads * d), rig.f32(kv_heads * d), rig.f32(kv_heads * d));
            let angles = rig.f32((2 * pairs).max(1));
            let (qw, kw) = (noise.values(d), noise.values(d));
            let mut args = [Arg::None; 7];
            (args[Q], args[K], args[V], args[KV]) = (Arg::Buffer(q), Arg::Buffer(k), Arg::Buffer(v), Arg::Kv(0));
            if style != ROPE_NONE {
                args[ANGLES] = Arg::Buffer(angles);
            }
            if normed {
                (args[Q_NORM], args[K_NORM]) = (rig.constant(&qw), rig.constant(&kw));
            }
            rig.op(OpKind::HeadNormRopeKvWrite, Per::Row, &args, Params::Heads(p));
            let mut running = rig.start(&cpu);
            let vars = place(&mut running, rows);
            let (vq, vk, vv) =
                (noise.values(rows * heads * d), noise.values(rows * kv_heads * d), noise.values(rows * kv_heads * d));
            let va = noise.values(rows * 2 * pairs);
            running.set(q, &vq);
            running.set(k, &vk);
            running.set(v, &vv);
            if pairs > 0 {
                running.set(angles, &va);
            }
            running.run(&mut cpu);
            let name = format!(
                "heads case {case}: {dtype}, {heads}/{kv_heads} × {d}, style {style}, pairs {pairs}, norm {normed}"
            );
            let mut written = 0;
            for (row, vars) in vars.iter().enumerate() {
                let angles = &va[row * 2 * pairs..][..2 * pairs];
                let want: Vec<f32> = vq[row * heads * d..][..heads * d]
                    .chunks(d)
                    .flat_map(|head| expected(head, normed.then_some(&qw[..]), angles, &one))
                    .collect();
                failures.compare(&name, &cpu, &running.row(q, row), &want, |i| 2e-6 * (1.0 + want[i].abs()));
                for head in 0..kv_heads {
                    let from = row * kv_heads * d + head * d;
                    let key = expected(&vk[from..][..d], normed.then_some(&kw[..]), angles, &one);
                    for (want, are_values) in [(key, false), (vv[from..][..d].to_vec(), true)] {
                        let Some(got) = stored(&running, &kv, (head, d), vars, are_values) else { continue };
                        let bound = |i: usize| match dtype {
                            DType::F32 => 2e-6 * (1.0 + want[i].abs()),
                            DType::F16 => 6e-4 * want[i].abs() + 1e-6,
                            _ => want.iter().fold(0.0f32, |m, v| m.max(v.abs())) / 127.0 * 0.6,
                        };
                        failures.compare(&format!("{name}, KV"), &cpu, &got, &want, bound);
                        written += kv.row_bytes as usize;
                    }
                }
            }
            let touched = running.memory.bytes(Region::kv(0)).iter().filter(|&&b| b != 0xFF).count();
            failures.check(
                &name,
                &cpu,
                touched <= written,
                &format!("{touched} bytes of KV touched, {written} expected"),
            );
        }
    }
    failures.report();
}

#[test]
fn heads_turn_in_place() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(41);
    for mut cpu in backends() {
        for case in 0..12 {
            let (d, heads, rows) = (noise.pick(&[16, 20, 64, 80, 256]), 1 + noise.below(9), noise.pick(&[1, 2, 7]));
            let style = noise.pick(&[ROPE_NONE, ROPE_INTERLEAVED, ROPE_SPLIT_HALF]);
            let pairs = if style == ROPE_NONE { 0 } else { noise.pick(&[d / 2, d / 4]) };
            let p = HeadParams { heads: heads as u32, head_dim: d as u32, pairs: pairs as u32, style, eps: 1e-6 };
            let mut rig = Rig::new(rows, 0);
            let (x, angles) = (rig.f32(heads * d), rig.f32((2 * pairs).max(1)));
            let weight = (noise.below(2) == 0).then(|| noise.values(d));
            let mut args = [Arg::Buffer(x), Arg::None, Arg::None];
            if style != ROPE_NONE {
                args[slots::head::ANGLES] = Arg::Buffer(angles);
            }
            if let Some(weight) = &weight {
                args[slots::head::NORM] = rig.constant(weight);
            }
            rig.op(OpKind::HeadNormRope, Per::Row, &args, Params::Head(p));
            let mut running = rig.start(&cpu);
            let (vx, va) = (noise.values(rows * heads * d), noise.values(rows * 2 * pairs));
            running.set(x, &vx);
            if pairs > 0 {
                running.set(angles, &va);
            }
            running.run(&mut cpu);
            for row in 0..rows {
                let angles = &va[row * 2 * pairs..][..2 * pairs];
                let heads = vx[row * heads * d..][..heads * d].chunks(d);
                let want: Vec<f32> = heads.flat_map(|h| expected(h, weight.as_deref(), angles, &p)).collect();
                let name = format!("head case {case}: {d}, style {style}, pairs {pairs}");
                failures.compare(&name, &cpu, &running.row(x, row), &want, |i| 2e-6 * (1.0 + want[i].abs()));
            }
        }
    }
    failures.report();
}

/// Weights and activations that are bf16 numbers: a product of tiles then differs from its definition by its sum only.
#[test]
fn products_finish_their_heads() {
    use slots::matmul_heads as at;
    if !has_tiles() {
        return;
    }
    let mut failures = Failures::default();
    let mut noise = Noise::new(42);
    for mut cpu in backends().into_iter().filter(|cpu| cpu.level() == Level::Amx) {
        for case in 0..30 {
            let kv_dtype = noise.pick(&[DType::F32, DType::F16, DType::Q8_0]);
            let d = if kv_dtype == DType::Q8_0 { noise.pick(&[32, 64, 128]) } else { noise.pick(&[8, 16, 64, 128]) };
            let (heads, rows, k) = (1 + noise.below(9), noise.pick(&[1, 2, 33, 150]), 1 + noise.below(300));
            let makes = noise.pick(&[Makes::Queries, Makes::Keys, Makes::Values]);
            let turns = makes != Makes::Values;
            let style = noise.pick(if turns { &[ROPE_NONE, ROPE_INTERLEAVED, ROPE_SPLIT_HALF] } else { &[ROPE_NONE] });
            let pairs = if style == ROPE_NONE { 0 } else { noise.pick(&[d / 2, d / 4]) };
            let (normed, biased) = (turns && noise.below(2) == 0, noise.below(2) == 0);
            let (kv, n) = (kv_params(kv_dtype, heads, d), heads * d);
            let mut rig = Rig::new(rows, 0);
            rig.kv = vec![KvPool { block_bytes: kv.block_bytes as usize, blocks: 5 }];
            (rig.layout.sequences, rig.layout.table_blocks) = (TABLES.len(), TABLES[0].len());
            let w = rig.matrix(&mut noise, DType::BF16, n, k);
            let product = w.product;
            let head = HeadParams { heads: heads as u32, head_dim: d as u32, pairs: pairs as u32, style, eps: 1e-6 };
            let (x, y, angles) =
                (rig.buffer(Per::Row, k, ActivationLayout::Bf16), rig.f32(n), rig.f32((2 * pairs).max(1)));
            let (bias, weight) = (noise.values(n), noise.values(d));
            let mut args = [Arg::None; 7];
            (args[at::X], args[at::W]) = (Arg::Buffer(x), w.arg);
            match makes {
                Makes::Queries => args[at::Y] = Arg::Buffer(y),
                _ => args[at::KV] = Arg::Kv(0),
            }
            if biased {
                args[at::BIAS] = rig.constant(&bias);
            }
            if normed {
                args[at::NORM] = rig.constant(&weight);
            }
            if style != ROPE_NONE {
                args[at::ANGLES] = Arg::Buffer(angles);
            }
            let params = MatMulHeadsParams { product, head, makes: makes as u32, kv };
            rig.op(OpKind::MatMulHeads, Per::Row, &args, Params::MatMulHeads(params));
            let mut running = rig.start(&cpu);
            let vars = place(&mut running, rows);
            let vx = running.fill(x, &noise.values(rows * k));
            let va = noise.values(rows * 2 * pairs);
            if pairs > 0 {
                running.set(angles, &va);
            }
            running.run(&mut cpu);
            let name = format!(
                "case {case}: {makes:?} {kv_dtype}, {rows} × {k} → {heads} × {d}, style {style}, pairs {pairs}, norm \
                 {normed}, bias {biased}"
            );
            let mut written = 0;
            for (row, vars) in vars.iter().enumerate() {
                let angles = &va[row * 2 * pairs..][..2 * pairs];
                for index in 0..heads {
                    let mut size = 0.0f64;
                    let dots: Vec<f32> = (index * d..(index + 1) * d)
                        .map(|i| {
                            let terms = || vx[row * k..][..k].iter().zip(&w.values[i * k..][..k]);
                            size = size.max(terms().map(|(x, w)| f64::from(x * w).abs()).sum());
                            let sum: f64 = terms().map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                            (sum + if biased { f64::from(bias[i]) } else { 0.0 }) as f32
                        })
                        .collect();
                    let want = expected(&dots, normed.then_some(&weight[..]), angles, &head);
                    // What the sum's error may become: divided by the root of the mean square, multiplied by weights.
                    let mean = dots.iter().map(|v| f64::from(v * v)).sum::<f64>() / d as f64;
                    let grows = if normed { 1.0 / mean.sqrt() } else { 1.0 };
                    let error = 1e-5 + (4e-6 * size * grows) as f32;
                    let got = if makes == Makes::Queries {
                        running.row(y, row)[index * d..][..d].to_vec()
                    } else {
                        let Some(got) = stored(&running, &kv, (index, d), vars, makes == Makes::Values) else {
                            continue;
                        };
                        written += kv.row_bytes as usize;
                        got
                    };
                    let rounding = |i: usize| match (makes, kv_dtype) {
                        (Makes::Queries, _) | (_, DType::F32) => 2e-6 * want[i].abs(),
                        (_, DType::F16) => 6e-4 * want[i].abs(),
                        _ => want.iter().fold(0.0f32, |m, v| m.max(v.abs())) / 127.0 * 0.6,
                    };
                    failures.compare(&name, &cpu, &got, &want, |i| error + rounding(i));
                }
            }
            let touched = running.memory.bytes(Region::kv(0)).iter().filter(|&&b| b != 0xFF).count();
            failures.check(&name, &cpu, touched <= written, &format!("{touched} bytes of KV touched, not {written}"));
        }
    }
    failures.report();
}
