//! Embedding, angles, quantization, sums, gates, gathers.

use crate::rig::*;
use akunu_dtype::{DType, FORMATS, q8};
use akunu_plan::op::{slots, *};
use akunu_plan::program::{ActivationLayout, Arg};
use akunu_plan::steps::RowVars;

#[test]
fn embedding_decodes_every_writable_format_and_clamps_tokens() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(1);
    let mut backends = backends();
    let formats: Vec<DType> = FORMATS.iter().filter(|f| f.encode.is_some()).map(|f| f.dtype).collect();
    for dtype in formats {
        for cols in [256, 512 + 256] {
            let (rows, vocab) = (1 + noise.below(9), 11);
            let mut rig = Rig::new(rows, 0);
            let table = rig.matrix(&mut noise, dtype, vocab, cols);
            let y = rig.f32(cols);
            let scale = noise.pick(&[1.0, 3.5]);
            let index = noise.pick(&[Index::Token, Index::Position, Index::Segment]);
            let params = EmbedParams {
                dim: cols as u32,
                vocab: vocab as u32,
                dtype: dtype.index().into(),
                scale,
                row_bytes: table.product.row_bytes,
                side_bytes: table.product.side_bytes,
                index: index as u32,
            };
            rig.op(OpKind::Embed, Per::Row, &[table.arg, Arg::Buffer(y)], Params::Embed(params));
            // Positions are checked before anything runs.
            let most = if index == Index::Position { 63 } else { u32::MAX };
            let tokens: Vec<u32> = (0..rows).map(|_| noise.pick(&[0, 3, 7, 10, 11, most])).collect();
            for cpu in one_per_level(&mut backends, &mut noise) {
                let mut running = rig.start(cpu);
                let vars: Vec<RowVars> = tokens
                    .iter()
                    .map(|&at| match index {
                        Index::Token => RowVars { token: at, ..RowVars::default() },
                        Index::Position => RowVars { position: at, ..RowVars::default() },
                        Index::Segment => RowVars { segment: at, ..RowVars::default() },
                    })
                    .collect();
                running.rows(&vars);
                running.run(cpu);
                for (row, &token) in tokens.iter().enumerate() {
                    let token = (token as usize).min(vocab - 1);
                    let want: Vec<f32> = table.values[token * cols..][..cols].iter().map(|v| v * scale).collect();
                    failures.compare(&format!("embed {dtype} {cols}"), cpu, &running.row(y, row), &want, |_| 0.0);
                }
            }
        }
    }
    failures.report();
}

#[test]
fn angles_are_exact_at_any_position() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(2);
    for mut cpu in backends() {
        for pairs in [1, 8, 13, 32, 64] {
            let rows = 1 + noise.below(7);
            let mut rig = Rig::new(rows, 0);
            rig.layout.table_blocks = 4096;
            let frequencies: Vec<f32> = (0..pairs).map(|i| 1e4f32.powf(-(i as f32) / pairs as f32)).collect();
            let f = rig.constant(&frequencies);
            let y = rig.f32(2 * pairs);
            let params = RopeAnglesParams { pairs: pairs as u32, magnitude: 1.25, slope: 0.0, period: 1.0 };
            rig.op(OpKind::RopeAngles, Per::Row, &[f, Arg::Buffer(y)], Params::RopeAngles(params));
            let mut running = rig.start(&cpu);
            let vars: Vec<RowVars> =
                (0..rows).map(|_| RowVars { position: noise.below(200_000) as u32, ..RowVars::default() }).collect();
            running.rows(&vars);
            running.run(&mut cpu);
            for (row, vars) in vars.iter().enumerate() {
                let want: Vec<f32> = frequencies
                    .iter()
                    .flat_map(|f| {
                        let angle = f64::from(vars.position as f32 * f);
                        [angle.cos() as f32 * 1.25, angle.sin() as f32 * 1.25]
                    })
                    .collect();
                failures.compare(&format!("angles {pairs}"), &cpu, &running.row(y, row), &want, |_| 2e-7);
            }
        }
    }
    failures.report();
}

#[test]
fn quantization_is_the_definition() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(3);
    for mut cpu in backends() {
        for width in [32, 64, 96, 160, 2048] {
            let rows = 1 + noise.below(20);
            let mut rig = Rig::new(rows, 0);
            let x = rig.f32(width);
            let y = rig.buffer(Per::Row, width, ActivationLayout::Q8);
            let params = ElementParams { dim: width as u32, activation: 0, scale: 1.0 };
            rig.op(OpKind::Convert, Per::Row, &[Arg::Buffer(x), Arg::Buffer(y)], Params::Element(params));
            let mut running = rig.start(&cpu);
            let mut values = noise.values(rows * width);
            values[..32].fill(0.0);
            running.set(x, &values);
            running.run(&mut cpu);
            for (row, values) in values.chunks(width).enumerate() {
                let want: Vec<f32> = values
                    .chunks(q8::BLOCK)
                    .flat_map(|block| {
                        let mut q = [0; q8::BLOCK];
                        let scale = q8::quantize_block(block.try_into().unwrap(), &mut q);
                        q.map(|q| f32::from(q) * scale)
                    })
                    .collect();
                failures.compare(&format!("quantize {width}"), &cpu, &running.row(y, row), &want, |_| 0.0);
            }
        }
    }
    failures.report();
}

#[test]
fn rounding_to_tiles_is_the_definition() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(5);
    for mut cpu in backends() {
        for width in [1, 31, 32, 80, 240, 1031] {
            let rows = 1 + noise.below(40);
            let mut rig = Rig::new(rows, 0);
            let x = rig.f32(width);
            let y = rig.buffer(Per::Row, width, ActivationLayout::Bf16);
            let params = ElementParams { dim: width as u32, activation: 0, scale: 1.0 };
            rig.op(OpKind::Convert, Per::Row, &[Arg::Buffer(x), Arg::Buffer(y)], Params::Element(params));
            let mut running = rig.start(&cpu);
            let mut values = noise.values(rows * width);
            // A tie to even, a large number, and one below the smallest.
            values[0] = f32::from_bits(0x3f80_8000);
            values[(rows * width - 1) / 2] = 3.3e38;
            values[rows * width - 1] = f32::from_bits(1);
            running.set(x, &values);
            running.run(&mut cpu);
            for (row, values) in values.chunks(width).enumerate() {
                let want: Vec<f32> = values.iter().map(|v| akunu_dtype::tiles::round(*v)).collect();
                failures.compare(&format!("round {width}"), &cpu, &running.row(y, row), &want, |_| 0.0);
            }
        }
    }
    failures.report();
}

#[test]
fn sums_are_scaled_and_may_be_in_place() {
    use slots::add::{A, B, Y};
    let mut failures = Failures::default();
    let mut noise = Noise::new(4);
    for mut cpu in backends() {
        for width in [1, 17, 256, 300, 1031] {
            let rows = 1 + noise.below(20);
            let mut rig = Rig::new(rows, 0);
            let (a, b) = (rig.f32(width), rig.f32(width));
            let y = if width % 2 == 0 { a } else { rig.f32(width) };
            let mut args = [Arg::None; 3];
            (args[A], args[B], args[Y]) = (Arg::Buffer(a), Arg::Buffer(b), Arg::Buffer(y));
            let params = ElementParams { dim: width as u32, activation: 0, scale: -0.75 };
            rig.op(OpKind::Add, Per::Row, &args, Params::Element(params));
            let mut running = rig.start(&cpu);
            let (va, vb) = (noise.values(rows * width), noise.values(rows * width));
            running.set(a, &va);
            running.set(b, &vb);
            running.run(&mut cpu);
            for row in 0..rows {
                let want: Vec<f32> = (row * width..(row + 1) * width).map(|i| va[i] - 0.75 * vb[i]).collect();
                failures.compare(&format!("add {width}"), &cpu, &running.row(y, row), &want, |_| 3e-7);
            }
        }
    }
    failures.report();
}

pub fn activation(kind: Activation, x: f64) -> f64 {
    match kind {
        Activation::None => x,
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }
        Activation::GeluErf => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
    }
}

/// erf by its series below 3, where the terms do not cancel, and by the continued fraction of erfc above.
fn erf(x: f64) -> f64 {
    let z = x.abs();
    if z >= 3.0 {
        let fraction = (1..100).rev().fold(0.0, |f, k| f64::from(k) / 2.0 / (z + f));
        return (1.0 - (-z * z).exp() / std::f64::consts::PI.sqrt() / (z + fraction)).copysign(x);
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

pub const ACTIVATIONS: [Activation; 4] =
    [Activation::None, Activation::Silu, Activation::GeluTanh, Activation::GeluErf];

#[test]
fn gates_reach_f32_and_int8_rows() {
    use slots::gated_activation::{U, X, Y};
    let mut failures = Failures::default();
    let mut noise = Noise::new(5);
    for mut cpu in backends() {
        for (width, layout) in [
            (7, ActivationLayout::F32),
            (256, ActivationLayout::F32),
            (701, ActivationLayout::F32),
            (32, ActivationLayout::Q8),
            (288, ActivationLayout::Q8),
            (1024, ActivationLayout::Q8),
            (96, ActivationLayout::Bf16),
            (701, ActivationLayout::Bf16),
        ] {
            for kind in ACTIVATIONS {
                let rows = 1 + noise.below(6);
                let mut rig = Rig::new(rows, 0);
                let (x, u) = (rig.f32(width), rig.f32(width));
                let y = rig.buffer(Per::Row, width, layout);
                let mut args = [Arg::None; 3];
                (args[X], args[U], args[Y]) = (Arg::Buffer(x), Arg::Buffer(u), Arg::Buffer(y));
                let params = ElementParams { dim: width as u32, activation: kind as u32, scale: 1.0 };
                rig.op(OpKind::GatedActivation, Per::Row, &args, Params::Element(params));
                let mut running = rig.start(&cpu);
                let vx: Vec<f32> = noise.values(rows * width).iter().map(|v| v * 5.0).collect();
                let vu = noise.values(rows * width);
                running.set(x, &vx);
                running.set(u, &vu);
                running.run(&mut cpu);
                for row in 0..rows {
                    let want: Vec<f32> = (row * width..(row + 1) * width)
                        .map(|i| (activation(kind, vx[i].into()) * f64::from(vu[i])) as f32)
                        .collect();
                    let case = format!("gate {kind:?} {width} {layout:?}");
                    let got = running.row(y, row);
                    let bound = layout_bound(layout, &want);
                    failures.compare(&case, &cpu, &got, &want, |i| 2e-6 + bound(i));
                }
            }
        }
    }
    failures.report();
}

#[test]
fn gathers_pick_the_output_rows() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(6);
    for mut cpu in backends() {
        for (rows, outputs, width) in [(1, 1, 5), (7, 3, 256), (70, 9, 777), (4, 0, 64)] {
            let mut rig = Rig::new(rows, outputs);
            let x = rig.f32(width);
            let y = rig.buffer(Per::Output, width, ActivationLayout::F32);
            let params = ElementParams { dim: width as u32, activation: 0, scale: 1.0 };
            rig.op(OpKind::GatherRows, Per::Output, &[Arg::Buffer(x), Arg::Buffer(y)], Params::Element(params));
            let mut running = rig.start(&cpu);
            let values = noise.values(rows * width);
            running.set(x, &values);
            let picked: Vec<u32> = (0..outputs).map(|_| noise.below(rows) as u32).collect();
            running.outputs(&picked);
            running.run(&mut cpu);
            for (output, &row) in picked.iter().enumerate() {
                let want = &values[row as usize * width..][..width];
                failures.compare(&format!("gather {width}"), &cpu, &running.row(y, output), want, |_| 0.0);
            }
        }
    }
    failures.report();
}

#[test]
fn means_are_over_the_text_of_the_output_row() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(8);
    for mut cpu in backends() {
        for (lengths, width) in [(&[1][..], 5), (&[3, 1, 70, 2], 96), (&[9, 200], 777)] {
            let rows = super::attention::texts(lengths);
            let mut rig = Rig::new(rows.len(), lengths.len());
            rig.layout.sequences = lengths.len();
            let x = rig.f32(width);
            let y = rig.buffer(Per::Output, width, ActivationLayout::F32);
            let params = ElementParams { dim: width as u32, activation: 0, scale: 1.0 };
            rig.op(OpKind::MeanRows, Per::Output, &[Arg::Buffer(x), Arg::Buffer(y)], Params::Element(params));
            let mut running = rig.start(&cpu);
            let values = noise.values(rows.len() * width);
            running.rows(&rows);
            running.set(x, &values);
            // Any row of a text stands for it; the texts in another order.
            let firsts: Vec<usize> = (0..rows.len()).filter(|r| rows[*r].position == 0).collect();
            let mut steps = running.memory.step_vars();
            steps.header_mut().outputs = lengths.len() as u32;
            for (o, at) in steps.outputs_mut().iter_mut().zip(firsts.iter().zip(lengths).rev()) {
                *o = (at.0 + noise.below(*at.1)) as u32;
            }
            running.run(&mut cpu);
            for (o, (first, length)) in firsts.iter().zip(lengths).rev().enumerate() {
                let want: Vec<f32> = (0..width)
                    .map(|i| {
                        let sum: f64 = (*first..first + length).map(|r| f64::from(values[r * width + i])).sum();
                        (sum / *length as f64) as f32
                    })
                    .collect();
                failures.compare(&format!("mean {lengths:?}"), &cpu, &running.row(y, o), &want, |_| 2e-6);
            }
        }
    }
    failures.report();
}
