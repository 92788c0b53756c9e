//! Frames that are unfolded, and direct convolutions.

use crate::rig::*;
use akunu_metal_emulator::{Buffer, Geometry, dispatch};
use akunu_plan::op::*;
use akunu_plan::program::{ActivationLayout, Arg};

#[test]
fn frames_are_unfolded_as_by_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(41);
    for (per, stride) in [(Per::Frame, 1), (Per::Row, 2)] {
        for (channels, taps) in [(1, 1), (5, 3), (80, 3), (90, 5)] {
            let rows = 3;
            let mut rig = Rig::new(rows, 0);
            let x = rig.buffer(Per::Frame, channels, ActivationLayout::F32);
            let y = rig.buffer(per, channels * taps, ActivationLayout::F32);
            let params = UnfoldParams { channels: channels as u32, taps: taps as u32, stride };
            rig.op(OpKind::Unfold, per, &[Arg::Buffer(x), Arg::Buffer(y)], Params::Unfold(params));
            let case = Case::new(rig);
            let mut running = case.start(&chip());
            // What is beyond the step's frames is not looked at.
            running.set(x, &vec![f32::NAN; 2 * rows * channels]);
            for rows in [rows, 2] {
                running.rows(&vec![Default::default(); rows]);
                running.set(x, &noise.values(2 * rows * channels));
                running.run();
                let count = if per == Per::Frame { 2 * rows } else { rows };
                let name = format!("{channels} channels, {taps} taps, {rows} rows, stride {stride}");
                failures.compare(&name, &running.got(y, count), &running.want(y, count), 0.0);
            }
        }
    }
    failures.report();
}

/// Numbers as `conv1d_f32` and `conv1d_f16` read them, and what they then are.
fn weights(name: &str, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
    if name == "conv1d_f32" {
        return (bytemuck::cast_slice(values).to_vec(), values.to_vec());
    }
    let rounded: Vec<half::f16> = values.iter().map(|v| half::f16::from_f32(*v)).collect();
    (rounded.iter().flat_map(|v| v.to_le_bytes()).collect(), rounded.iter().map(|v| v.to_f32()).collect())
}

fn gelu(x: f64) -> f64 {
    // What the shaders call Activation::GeluTanh.
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

#[test]
fn direct_convolutions_are_those_of_their_definition() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(42);
    for name in ["conv1d_f32", "conv1d_f16"] {
        for (frames, channels, taps, stride, padding, with_bias, with_gelu) in [
            (9, 5, 3, 1, 1, true, true),
            (10, 40, 3, 2, 1, true, false),
            (3, 1, 5, 1, 2, false, true),
            (8, 3, 2, 2, 0, false, false),
        ] {
            let (out_frames, out_channels) = ((frames + 2 * padding - taps) / stride + 1, 6);
            let (x_stride, y_stride) = (channels + 3, out_channels + 2);
            let x = noise.values(frames * x_stride);
            let (w, values) = weights(name, &noise.values(out_channels * channels * taps));
            let bias = noise.values(out_channels);
            let activation = if with_gelu { Activation::GeluTanh } else { Activation::None };
            let params = [
                frames,
                out_frames,
                channels,
                out_channels,
                taps,
                stride,
                padding,
                activation as usize,
                usize::from(with_bias),
                x_stride,
                y_stride,
                0,
            ];
            let params: Vec<u32> = params.iter().map(|p| *p as u32).collect();
            let mut got = vec![f32::NAN; out_frames * y_stride];
            let threadgroups = [out_channels.div_ceil(4) as u32, out_frames.div_ceil(4) as u32, 1];
            let geometry = Geometry { threadgroups, threads: [128, 1, 1], ..Geometry::default() };
            let mut buffers = [
                Buffer::Constant(bytemuck::cast_slice(&x)),
                Buffer::Constant(&w),
                Buffer::Device(bytemuck::cast_slice_mut(&mut got)),
                Buffer::Constant(bytemuck::cast_slice(&params)),
                Buffer::Constant(bytemuck::cast_slice(&bias)),
            ];
            dispatch(name, &geometry, &mut buffers[..if with_bias { 5 } else { 4 }]).unwrap();
            let mut want = Vec::new();
            for f in 0..out_frames {
                for o in 0..out_channels {
                    let mut sum = if with_bias { f64::from(bias[o]) } else { 0.0 };
                    for (c, t) in (0..channels).flat_map(|c| (0..taps).map(move |t| (c, t))) {
                        let Some(frame) = (f * stride + t).checked_sub(padding).filter(|f| *f < frames) else {
                            continue;
                        };
                        sum += f64::from(values[(o * channels + c) * taps + t]) * f64::from(x[frame * x_stride + c]);
                    }
                    want.push(if with_gelu { gelu(sum) } else { sum } as f32);
                }
            }
            let case = format!("{name}, {frames} frames of {channels}, {taps} taps, stride {stride}");
            let tight: Vec<f32> = got.chunks(y_stride).flat_map(|row| &row[..out_channels]).copied().collect();
            failures.compare(&case, &tight, &want, 1e-5);
            let outside = got.chunks(y_stride).all(|row| row[out_channels..].iter().all(|v| v.is_nan()));
            failures.check(&case, outside, "writes beyond its channels");
        }
    }
    failures.report();
}

#[test]
fn positions_are_added() {
    let mut noise = Noise::new(43);
    let (rows, dim, stride, first) = (3, 300, 304, 2);
    let (x, table) = (noise.values(rows * stride), noise.values((first + rows) * dim));
    let mut y = vec![0.0f32; rows * stride];
    let params = [dim as u32, first as u32, stride as u32, stride as u32];
    let geometry = Geometry { threadgroups: [2, rows as u32, 1], threads: [256, 1, 1], ..Geometry::default() };
    let mut buffers = [
        Buffer::Constant(bytemuck::cast_slice(&x)),
        Buffer::Constant(bytemuck::cast_slice(&table)),
        Buffer::Device(bytemuck::cast_slice_mut(&mut y)),
        Buffer::Constant(bytemuck::cast_slice(&params)),
    ];
    dispatch("pos_embed_add", &geometry, &mut buffers).unwrap();
    for (r, i) in (0..rows).flat_map(|r| (0..dim).map(move |i| (r, i))) {
        assert_eq!(y[r * stride + i], x[r * stride + i] + table[(first + r) * dim + i], "row {r}, value {i}");
    }
}
