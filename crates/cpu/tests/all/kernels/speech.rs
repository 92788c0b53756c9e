//! Frames unfolded for convolutions, keys written without queries, and where a head looks.

use super::heads::kv_params;
use crate::rig::*;
use akunu_dtype::{DType, Planes};
use akunu_plan::KvPool;
use akunu_plan::op::*;
use akunu_plan::program::{ActivationLayout, Arg};
use akunu_plan::steps::{KV_BLOCK, RowVars};

#[test]
fn unfolded_frames_are_those_around_each_result() {
    let mut failures = Failures::default();
    let mut backends = backends();
    for seed in 0..20 {
        let mut noise = Noise::new(300 + seed);
        let (rows, channels, taps) = (1 + noise.below(40), 1 + noise.below(100), noise.pick(&[1, 3, 5]));
        let (per, stride) = noise.pick(&[(Per::Frame, 1), (Per::Row, 2)]);
        let mut rig = Rig::new(rows, 0);
        let x = rig.buffer(Per::Frame, channels, ActivationLayout::F32);
        let layout = noise.pick(&[ActivationLayout::F32, ActivationLayout::Bf16]);
        let y = rig.buffer(per, channels * taps, layout);
        let params = UnfoldParams { channels: channels as u32, taps: taps as u32, stride };
        rig.op(OpKind::Unfold, per, &[Arg::Buffer(x), Arg::Buffer(y)], Params::Unfold(params));
        let frames = noise.values(2 * rows * channels);
        for cpu in one_per_level(&mut backends, &mut noise) {
            let mut running = rig.start(cpu);
            running.set(x, &frames);
            running.run(cpu);
            for row in 0..2 * rows / stride as usize {
                let mut want = vec![0.0; channels * taps];
                for t in 0..taps {
                    let frame = (row * stride as usize + t).checked_sub(taps / 2).filter(|f| *f < 2 * rows);
                    let Some(frame) = frame else { continue };
                    (0..channels).for_each(|c| want[c * taps + t] = frames[frame * channels + c]);
                }
                let bound = layout_bound(layout, &want);
                failures.compare(&format!("seed {seed} row {row}"), cpu, &running.row(y, row), &want, bound);
            }
        }
    }
    failures.report();
}

#[test]
fn the_weights_of_a_head_are_its_softmax() {
    const ENCODED: usize = 150;
    let mut failures = Failures::default();
    let mut backends = backends();
    for seed in 0..24 {
        let mut noise = Noise::new(500 + seed);
        let dtype = noise.pick(&[DType::F32, DType::F16, DType::Q8_0]);
        let d = if dtype == DType::Q8_0 { 64 } else { noise.pick(&[16, 20, 64, 80]) };
        let (kv_heads, rows) = (1 + noise.below(3), 1 + noise.below(20));
        let heads = kv_heads * noise.pick(&[1, 2]);
        let kv = kv_params(dtype, kv_heads, d);
        let mut rig = Rig::new(rows.max(ENCODED), 0);
        rig.kv = vec![KvPool { block_bytes: kv.block_bytes as usize, blocks: 3 }];
        rig.layout.table_blocks = 3;
        let [k, v, q] = [kv_heads, kv_heads, heads].map(|n| rig.f32(n * d));
        let y = rig.f32(2 * ENCODED);
        let write = HeadsParams {
            heads: 0,
            kv_heads: kv_heads as u32,
            head_dim: d as u32,
            pairs: 0,
            style: ROPE_NONE,
            eps: 0.0,
            kv,
        };
        let none = Arg::None;
        let args = [none, Arg::Buffer(k), Arg::Buffer(v), none, none, none, Arg::Kv(0)];
        rig.op(OpKind::HeadNormRopeKvWrite, Per::Row, &args, Params::Heads(write));
        let attention = AttentionParams {
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            head_dim: d as u32,
            scale: 0.3,
            soft_cap: 0.0,
            window: 0,
            kv,
            sees: Sees::All as u32,
        };
        let head = noise.below(heads);
        let at = noise.pick(&[0, ENCODED]);
        let params = AttentionWeightsParams { attention, head: head as u32, positions: ENCODED as u32, at: at as u32 };
        let args = [Arg::Buffer(q), Arg::Buffer(y), Arg::Kv(0)];
        rig.op(OpKind::AttentionWeights, Per::Row, &args, Params::AttentionWeights(params));
        let (keys, values) = (noise.values(ENCODED * kv_heads * d), noise.values(ENCODED * kv_heads * d));
        let queries = noise.values(ENCODED * heads * d);
        let length = noise.pick(&[ENCODED, 70]);
        for cpu in one_per_level(&mut backends, &mut noise) {
            let mut running = rig.start(cpu);
            let row =
                |position: usize| RowVars { position: position as u32, length: length as u32, ..RowVars::default() };
            running.rows(&(0..ENCODED).map(row).collect::<Vec<_>>());
            let mut vars = running.memory.step_vars();
            vars.table_mut(0, 0).copy_from_slice(&[2, 0, 1]);
            running.set(k, &keys);
            running.set(v, &values);
            running.set(q, &queries);
            running.run(cpu);
            let stored = |position: usize| {
                let block = [2, 0, 1][position / KV_BLOCK] * kv.block_bytes as usize + kv.layer_offset as usize;
                let kv_head = head / (heads / kv_heads);
                let at = block + kv_head * kv.head_bytes as usize + position % KV_BLOCK * kv.row_bytes as usize;
                let mut key = vec![0.0; d];
                let bytes = dtype.row_bytes(d).expect("whole blocks");
                let data = &running.memory.bytes(akunu_plan::record::Region::kv(0))[at..at + bytes];
                (dtype.format().decode)(Planes { data, ..Planes::default() }, &mut key);
                key
            };
            for r in 0..rows {
                let q = &queries[(r * heads + head) * d..][..d];
                let score = |p: usize| -> f64 {
                    stored(p).iter().zip(q).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() * 0.3
                };
                let exps: Vec<f64> = (0..ENCODED).map(|p| if p < length { score(p).exp() } else { 0.0 }).collect();
                let total: f64 = exps.iter().sum();
                let want: Vec<f32> = exps.iter().map(|e| (e / total) as f32).collect();
                let case = format!("seed {seed} {dtype} row {r}");
                failures.compare(&case, cpu, &running.row(y, r)[at..at + ENCODED], &want, |i| 1e-5 * want[i] + 1e-7);
            }
        }
    }
    failures.report();
}
