//! Attention kernels that no op of a program asks for as they are here: dispatched directly.

use super::attention::{bits, texts};
use crate::rig::*;
use akunu_metal_emulator::{Buffer, Geometry, dispatch};
use akunu_plan::steps::{StepLayout, StepVars};

fn floats(values: &[f32]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// No op has sinks: every kernel is dispatched directly, over rows of the step.
#[test]
fn a_sink_takes_its_part_of_every_heads_weights() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(38);
    let (d, heads, n) = (16, 2, 70);
    let rows = texts(&[n as u32]);
    let layout = StepLayout { max_rows: n, max_outputs: 0, groups: 0, sequences: 1, table_blocks: 0, max_chain: 0 };
    let mut steps = vec![0; layout.bytes() / 4];
    let mut vars = StepVars::new(&mut steps);
    *vars.header_mut() = layout.header();
    vars.header_mut().rows = n as u32;
    vars.rows_mut().copy_from_slice(&rows);
    let [q, k, v] = [(); 3].map(|()| noise.values(n * heads * d));
    let sinks = [0.5f32, 40.0];
    let (scale, stride) = (0.5f32, (heads * d) as u32);
    let kv = [0, 0, 0, 0, 0, 4 * d as u32, 4 * stride];
    let mut params = vec![n as u32, 1, stride, stride, scale.to_bits(), 0, 0, 1];
    params.extend(kv.into_iter().chain([1]));
    let want: Vec<f32> = (0..n * heads)
        .flat_map(|i| {
            let (row, head) = (i / heads, i % heads);
            let of = |values: &[f32], row: usize| values[(row * heads + head) * d..][..d].to_vec();
            let dot = |key: Vec<f32>| of(&q, row).iter().zip(key).map(|(q, k)| f64::from(q * k)).sum::<f64>();
            let weights: Vec<f64> = (0..=row).map(|p| (dot(of(&k, p)) * 0.5).exp()).collect();
            let total = weights.iter().sum::<f64>() + f64::from(sinks[head]).exp();
            let value = |c| weights.iter().enumerate().map(|(p, w)| w * f64::from(of(&v, p)[c])).sum::<f64>();
            (0..d).map(|c| (value(c) / total) as f32).collect::<Vec<_>>()
        })
        .collect();
    let mut decoded = None;
    for (name, threadgroups, threads, shared) in [
        ("flash_attention_decode_fast_f32", [2, n as u32, 1], 32, 18 * 4),
        ("flash_attention_f32", [2, n as u32, 1], 256, 8 * 18 * 4),
        ("flash_attention_decode_parallel_f32", [2, n as u32, 1], 1024, 32 * 18 * 4),
        ("flash_attention_prefill_f32", [n.div_ceil(16) as u32, 2, 1], 128, 16 * 16 * 4),
        ("flash_attention_prefill_v2_f32", [n.div_ceil(32) as u32, 2, 1], 128, 32 * 24 * 4),
    ] {
        let geometry = Geometry {
            threadgroups,
            threads: [threads, 1, 1],
            constants: vec![(0, d as u64), (1, 0), (2, 16), (3, 0), (4, 1)],
            shared: vec![shared],
            bounds_only: threads > 256,
        };
        let mut y = vec![f32::NAN; n * heads * d];
        let mut buffers = [
            Buffer::Constant(floats(&q)),
            Buffer::Constant(floats(&k)),
            Buffer::Device(bytemuck::cast_slice_mut(&mut y)),
            Buffer::Constant(bytemuck::cast_slice(&params)),
            Buffer::Constant(bytemuck::cast_slice(&steps)),
            Buffer::Constant(floats(&v)),
            Buffer::Constant(floats(&sinks)),
        ];
        dispatch(name, &geometry, &mut buffers).unwrap();
        failures.compare(name, &y, &want, 1e-5);
        if !name.contains("prefill") {
            let first = decoded.get_or_insert_with(|| y.clone());
            failures.check(name, bits(first) == bits(&y), "other bits than from one SIMD group");
        }
    }
    failures.report();
}

#[test]
fn softmax_and_cap_alone() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(39);
    for dim in [1, 31, 256, 1000] {
        let rows = 2;
        let x: Vec<f32> = noise.values(rows * dim).iter().map(|v| v * 10.0).collect();
        let want = |f: &dyn Fn(&[f32]) -> Vec<f32>| x.chunks(dim).flat_map(f).collect::<Vec<f32>>();
        let softmax = want(&|x| {
            let weights: Vec<f64> = x.iter().map(|v| (f64::from(*v) * 0.5).exp()).collect();
            let sum: f64 = weights.iter().sum();
            weights.iter().map(|w| (w / sum) as f32).collect()
        });
        let cap = want(&|x| x.iter().map(|v| (v / 3.0).tanh() * 3.0).collect());
        let (n, d) = (rows as u32, dim as u32);
        let softmax_params = [n, d, d, d, 0.5f32.to_bits(), 0, 0, 0];
        let cap_params = [n, d, d, 0, d, 0, 3.0f32.to_bits(), 0];
        for (name, params, threadgroups, want) in
            [("softmax", softmax_params, [n, 1, 1], softmax), ("logit_cap", cap_params, [d.div_ceil(256), n, 1], cap)]
        {
            let geometry = Geometry { threadgroups, threads: [256, 1, 1], ..Geometry::default() };
            let mut y = vec![f32::NAN; rows * dim];
            let mut buffers = [
                Buffer::Constant(floats(&x)),
                Buffer::Constant(&[]),
                Buffer::Device(bytemuck::cast_slice_mut(&mut y)),
                Buffer::Constant(bytemuck::cast_slice(&params)),
            ];
            dispatch(name, &geometry, &mut buffers).unwrap();
            failures.compare(&format!("{name} of {dim}"), &y, &want, 1e-5);
        }
    }
    failures.report();
}
