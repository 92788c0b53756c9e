//! Every number format dequantized, and floats converted.

use crate::rig::*;
use akunu_dtype::{DType, FORMATS, Format, Planes};
use akunu_metal::kernels::{self, ConvertParams, constants};
use akunu_metal::params::Words;
use akunu_metal_emulator::{Buffer, Geometry, dispatch};
use akunu_plan::op::*;
use akunu_plan::program::Arg;
use half::f16;
use std::ops::Range;

/// Formats that weights can have.
pub fn weights() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().filter(|f| f.unpack.is_some() || [DType::F32, DType::F16, DType::BF16].contains(&f.dtype))
}

/// A block of random bits whose values are numbers, the largest of them in `range`.
pub fn random_block(noise: &mut Noise, f: &Format, range: Range<f32>) -> [Vec<u8>; 3] {
    loop {
        let block = [f.bytes, f.side_bytes, f.side_bytes].map(|n| (0..n).map(|_| noise.bits() as u8).collect());
        let values = decode(f, &block);
        let largest = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
        if values.iter().all(|v| v.is_finite()) && range.contains(&largest) {
            return block;
        }
    }
}

fn decode(f: &Format, [data, scales, biases]: &[Vec<u8>; 3]) -> Vec<f32> {
    let mut values = vec![f32::NAN; data.len() / f.bytes * f.block];
    (f.decode)(Planes { data, scales, biases }, &mut values);
    values
}

/// Rows of `[y_stride]` from the dequantizer of a format.
fn dequantize(f: &Format, rows: usize, [data, scales, biases]: &[Vec<u8>; 3], to: &str, size: usize) -> Vec<u8> {
    let dim = data.len() / rows / f.bytes * f.block;
    let params = ConvertParams {
        rows: rows as u32,
        dim: dim as u32,
        y_stride: dim as u32 + 3,
        row_bytes: (data.len() / rows) as u32,
        side_bytes: (scales.len() / rows) as u32,
        ..Default::default()
    };
    let mut y = vec![0; rows * params.y_stride as usize * size];
    let geometry = Geometry {
        threadgroups: [dim.div_ceil(4096) as u32, rows as u32, 1],
        threads: [256, 1, 1],
        constants: constants(f.dtype.index().into(), dim as u32).into_iter().map(|(n, v)| (n, v.into())).collect(),
        ..Geometry::default()
    };
    let name = format!("dequant_{}_to_{to}", kernels::suffix(f.dtype));
    let params = params.bytes();
    let mut buffers = [
        Buffer::Constant(&[]),
        Buffer::Constant(data),
        Buffer::Device(&mut y),
        Buffer::Constant(&params),
        Buffer::Constant(scales),
        Buffer::Constant(biases),
    ];
    dispatch(&name, &geometry, &mut buffers).unwrap_or_else(|error| panic!("{error}"));
    y
}

#[test]
fn every_format_is_dequantized_as_dtype_decodes_it() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(3);
    for f in weights() {
        // Five blocks in each of two rows, and with floats a row that is not whole groups.
        let blocks = if f.block == 1 { 37 } else { 5 };
        let mut planes = [const { Vec::new() }; 3];
        for _ in 0..2 * blocks {
            let block = random_block(&mut noise, f, 0.0..1e4);
            planes.iter_mut().zip(block).for_each(|(plane, part)| plane.extend(part));
        }
        let want = decode(f, &planes);
        let dim = blocks * f.block;
        let wide = dequantize(f, 2, &planes, "f32", 4);
        let wide: Vec<f32> = wide.as_chunks().0.iter().map(|v| f32::from_le_bytes(*v)).collect();
        let small = dequantize(f, 2, &planes, "f16", 2);
        let small: Vec<f16> = small.as_chunks().0.iter().map(|v| f16::from_le_bytes(*v)).collect();
        for (block, want) in want.chunks(f.block).enumerate() {
            let at = block / blocks * (dim + 3) + block % blocks * f.block;
            // Exact, but for a product that `dtype` rounds before it adds the bias, and for what is subnormal, which a GPU takes
            // for zero: a float, or the scale 2^-127 of numbers up to 6.
            let tolerance = if f.side.is_some() { 1e-6 } else { 0.0 };
            let flushed = |(want, got): (&f32, &f32)| {
                if *got == 0.0 && want.abs() < 4.0 * f32::MIN_POSITIVE { 0.0 } else { *want }
            };
            let want: Vec<f32> = want.iter().zip(&wide[at..]).map(flushed).collect();
            let name = format!("{} block {block}", f.name);
            failures.compare(&name, &wide[at..][..f.block], &want, tolerance);
            let halves: Vec<f32> = small[at..][..f.block].iter().map(|v| v.to_f32()).collect();
            let rounded: Vec<f32> = wide[at..][..f.block].iter().map(|v| f16::from_f32(*v).to_f32()).collect();
            failures.compare(&format!("{name} to f16"), &halves, &rounded, 0.0);
        }
        failures.check(f.name, wide[dim..dim + 3] == [0.0; 3], "it writes beyond the row");
    }
    failures.report();
}

#[test]
fn floats_are_converted() {
    let values: Vec<f32> = Noise::new(4).values(2 * 300);
    let params = ConvertParams { rows: 2, dim: 300, x_stride: 300, y_stride: 301, ..Default::default() }.bytes();
    let geometry = Geometry { threadgroups: [2, 2, 1], threads: [256, 1, 1], ..Geometry::default() };
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let run = |name: &str, x: &[u8], size: usize| {
        let mut y = vec![0; 2 * 301 * size];
        let mut buffers =
            [Buffer::Constant(x), Buffer::Constant(&[]), Buffer::Device(&mut y), Buffer::Constant(&params)];
        dispatch(name, &geometry, &mut buffers).unwrap_or_else(|error| panic!("{error}"));
        [&y[..300 * size], &y[301 * size..][..300 * size]].concat()
    };
    let halves = run("f32_to_f16", &bytes, 2);
    let want: Vec<u8> = values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
    assert!(halves == want);
    let want: Vec<u8> = values.iter().flat_map(|v| f16::from_f32(*v).to_f32().to_le_bytes()).collect();
    assert!(run("f16_to_f32", &halves, 4) == want);
}

#[test]
fn activations_that_are_f32_already_are_copied() {
    let (mut failures, mut noise) = (Failures::default(), Noise::new(5));
    let mut rig = Rig::new(3, 0);
    let (x, y) = (rig.f32(70), rig.f32(70));
    let params = ElementParams { dim: 70, activation: 0, scale: 1.0 };
    rig.op(OpKind::Convert, Per::Row, &[Arg::Buffer(x), Arg::Buffer(y)], Params::Element(params));
    let case = Case::new(rig);
    let mut running = case.start(&chip());
    running.set(x, &noise.values(3 * 70));
    running.run();
    failures.compare("copy", &running.got(y, 3), &running.want(y, 3), 0.0);
    failures.report();
}
