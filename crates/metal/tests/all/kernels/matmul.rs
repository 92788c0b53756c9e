//! Products of few rows: every format, every epilogue, the same bits in a batch.

use super::convert::{random_block, weights};
use crate::rig::*;
use akunu_dtype::{DType, Format};
use akunu_metal::chip::Chip;
use akunu_plan::backend::{Loaded, Want};
use akunu_plan::op::*;
use akunu_plan::program::*;
use akunu_plan::record::{Addr, Region};
use akunu_plan::steps::RowVars;

/// Chips whose choices a small product shows: the standard kernel, rows that SIMD groups share, and the wide kernel.
fn chips() -> [(&'static str, Chip); 3] {
    [
        ("standard", Chip { large_k: 4096, wide_rows: 32_768, ..chip() }),
        ("large K", Chip { large_k: 16, wide_rows: 32_768, ..chip() }),
        ("wide", Chip { large_k: 16, wide_rows: 1, ..chip() }),
    ]
}

/// A matrix of any format: of random bits where nobody can write it.
fn matrix(rig: &mut Rig, noise: &mut Noise, f: &Format, rows: usize, cols: usize) -> (Arg, MatMulParams) {
    if f.encode.is_some() {
        let matrix = rig.matrix(noise, f.dtype, rows, cols);
        return (matrix.arg, matrix.product);
    }
    let at = rig.file.len().next_multiple_of(32);
    rig.file.resize(at, 0xAA);
    for _ in 0..rows * cols / f.block {
        let [data, ..] = random_block(noise, f, 0.1..2.0);
        rig.file.extend(data);
    }
    let data = Addr::new(Region::file(0), at);
    let (dtype, none) = (f.dtype, Addr::NONE);
    rig.program.weights.push(Weight { name: "bits".into(), dtype, rows, cols, data, scales: none, biases: none });
    let product = MatMulParams {
        n: rows as u32,
        k: cols as u32,
        dtype: f.dtype.index().into(),
        row_bytes: dtype.row_bytes(cols).unwrap() as u32,
        side_bytes: 0,
        activation: Activation::None as u32,
        scale: 1.0,
        soft_cap: 0.0,
    };
    (Arg::Weight(WeightId(rig.program.weights.len() as u32 - 1)), product)
}

/// Every format, but of MLX's one group and one type of scales for each width: others differ in what is read, which dequantizers
/// are tested for.
fn some_weights() -> impl Iterator<Item = &'static Format> {
    const MLX: [&str; 6] =
        ["MLX2_G32_F16", "MLX3_G64_BF16", "MLX4_G128_F32", "MLX5_G64_F16", "MLX6_G32_BF16", "MLX8_G64_F32"];
    weights().filter(|f| f.side.is_none() || MLX.contains(&f.name))
}

/// Columns that make whole blocks, and more than one group for some lane; of floats a last group that is not whole.
fn columns(f: &Format) -> usize {
    match f.block {
        1 => 16 * 33 + 5,
        256 => 768,
        _ => 640,
    }
}

/// What is compared: rows `0..rows` of `y` of any number of rows that share a step, with the reference executor and, to the bit,
/// with each other.
fn check(
    failures: &mut Failures,
    name: &str,
    running: &mut Running<'_>,
    ids: (BufferId, BufferId),
    x: &[f32],
    tolerance: f32,
) {
    let (from, y) = ids;
    let most = 19;
    let k = x.len() / most;
    running.rows(&vec![RowVars::default(); most]);
    running.set(from, x);
    running.run();
    let all = running.got(y, most);
    let n = all.len() / most;
    failures.compare(name, &all, &running.want(y, most), tolerance);
    // From the first row on, and the last one in another place.
    for (first, rows) in [(0, 1), (0, 2), (0, 3), (0, 7), (0, 16), (18, 1)] {
        running.rows(&vec![RowVars::default(); rows]);
        running.set(y, &vec![f32::NAN; most * n]);
        running.set(from, &x[first * k..][..rows * k]);
        running.loaded.submit(0, 1, Want::All).unwrap();
        let same = bits(&running.got(y, rows)) == bits(&all[first * n..][..rows * n]);
        failures.check(name, same, &format!("{rows} rows from {first} on have other bits than {most}"));
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn products_of_every_format_and_number_of_rows_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(7);
    for f in some_weights() {
        let (n, k) = (5, columns(f));
        let mut rig = Rig::new(19, 0);
        rig.aligned = true;
        let (w, product) = matrix(&mut rig, &mut noise, f, n, k);
        let (x, y) = (rig.f32(k), rig.f32(n));
        rig.op(OpKind::MatMul, Per::Row, &[Arg::Buffer(x), Arg::Buffer(y), w], Params::MatMul(product));
        let values = noise.values(19 * k);
        let case = Case::new(rig);
        for (choice, chip) in chips() {
            check(&mut failures, &format!("{} {choice}", f.name), &mut case.start(&chip), (x, y), &values, 2e-6);
        }
    }
    failures.report();
}

#[test]
fn gated_products_of_every_format_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(8);
    let activations = [Activation::Silu, Activation::GeluTanh, Activation::GeluErf];
    for (index, f) in some_weights().enumerate() {
        let (n, k) = (5, columns(f));
        let mut rig = Rig::new(19, 0);
        rig.aligned = true;
        let (w, product) = matrix(&mut rig, &mut noise, f, n, k);
        let (u, _) = matrix(&mut rig, &mut noise, f, n, k);
        let (x, y) = (rig.f32(k), rig.f32(n));
        let params = MatMulParams { activation: activations[index % 3] as u32, ..product };
        rig.op(OpKind::MatMulGated, Per::Row, &[Arg::Buffer(x), Arg::Buffer(y), w, u], Params::MatMul(params));
        let values: Vec<f32> = noise.values(19 * k).iter().map(|v| 0.3 * v).collect();
        let case = Case::new(rig);
        for (choice, chip) in &chips()[..2] {
            check(&mut failures, &format!("{} {choice}", f.name), &mut case.start(chip), (x, y), &values, 4e-6);
        }
    }
    failures.report();
}

/// What there may be besides a product.
#[derive(Clone, Copy, Debug)]
struct Tail {
    bias: bool,
    residual: bool,
    activation: Activation,
    scale: f32,
    soft_cap: f32,
    maxima: bool,
    per: Per,
}

#[rustfmt::skip]
const TAILS: [Tail; 6] = [
    Tail { bias: true, residual: false, activation: Activation::None, scale: 1.0, soft_cap: 0.0, maxima: false, per: Per::Row },
    Tail { bias: false, residual: true, activation: Activation::None, scale: 0.5, soft_cap: 0.0, maxima: false, per: Per::Row },
    Tail { bias: true, residual: true, activation: Activation::GeluErf, scale: 1.0, soft_cap: 0.0, maxima: true, per: Per::Row },
    Tail { bias: true, residual: false, activation: Activation::GeluTanh, scale: 2.0, soft_cap: 3.0, maxima: false, per: Per::Row },
    Tail { bias: false, residual: false, activation: Activation::None, scale: 1.5, soft_cap: 2.0, maxima: true, per: Per::Output },
    Tail { bias: true, residual: true, activation: Activation::Silu, scale: -1.0, soft_cap: 5.0, maxima: true, per: Per::Output },
];

#[test]
fn what_follows_a_product_agrees_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(9);
    for (dtype, n, k) in [(DType::F32, 1, 5), (DType::F16, 256, 33), (DType::Q4_0, 260, 32)] {
        for tail in TAILS {
            let rows = 5;
            let mut rig = Rig::new(rows, rows);
            rig.aligned = true;
            let (w, product) = matrix(&mut rig, &mut noise, dtype.format(), n, k);
            let mut buffer = |width| rig.buffer(tail.per, width, ActivationLayout::F32);
            let (x, other, out, maxima) = (buffer(k), buffer(n), buffer(n), buffer(n.div_ceil(MAXIMA_SLICE)));
            let bias = noise.values(n);
            let bias = if tail.bias { rig.constant(&bias) } else { Arg::None };
            // The residual stream in place, as models have it.
            let y = if tail.residual && dtype != DType::F16 { other } else { out };
            let residual = if tail.residual { Arg::Buffer(other) } else { Arg::None };
            let kept = if tail.maxima { Arg::Buffer(maxima) } else { Arg::None };
            let Tail { scale, soft_cap, .. } = tail;
            let params = MatMulParams { activation: tail.activation as u32, scale, soft_cap, ..product };
            let args = [Arg::Buffer(x), Arg::Buffer(y), w, bias, residual, kept];
            rig.op(OpKind::MatMul, tail.per, &args, Params::MatMul(params));
            let case = Case::new(rig);
            for (choice, chip) in chips() {
                for rows in [1, 5] {
                    let mut running = case.start(&chip);
                    running.rows(&vec![RowVars::default(); rows]);
                    running.outputs(&(0..rows as u32).collect::<Vec<_>>());
                    running.set(x, &noise.values(rows * k));
                    running.set(other, &noise.values(rows * n));
                    running.run();
                    let name = format!("{dtype} {n} by {k}, {choice}, {rows} rows, {tail:?}");
                    failures.compare(&name, &running.got(y, rows), &running.want(y, rows), 4e-6);
                    if tail.maxima {
                        let (got, want) = (running.got(maxima, rows), running.want(maxima, rows));
                        failures.compare(&format!("maxima of {name}"), &got, &want, 4e-6);
                        let largest = |values: &[f32]| values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                        let all: Vec<f32> =
                            running.got(y, rows).chunks(n).flat_map(|y| y.chunks(MAXIMA_SLICE).map(largest)).collect();
                        failures.check(&name, got == all, "maxima are not those of the results");
                    }
                }
            }
        }
    }
    failures.report();
}

#[test]
fn maxima_pass_over_what_is_no_number() {
    let mut failures = Failures::default();
    let n = 300;
    let mut noise = Noise::new(10);
    let mut rig = Rig::new(2, 0);
    rig.aligned = true;
    let (w, product) = matrix(&mut rig, &mut noise, DType::F16.format(), n, 16);
    let (x, y, maxima) = (rig.f32(16), rig.f32(n), rig.f32(2));
    let mut bias = vec![0.0; n];
    (bias[3], bias[299]) = (f32::NAN, f32::NAN);
    let bias = rig.constant(&bias);
    let args = [Arg::Buffer(x), Arg::Buffer(y), w, bias, Arg::None, Arg::Buffer(maxima)];
    rig.op(OpKind::MatMul, Per::Row, &args, Params::MatMul(product));
    let case = Case::new(rig);
    for (choice, chip) in chips() {
        for rows in [1, 2] {
            let mut running = case.start(&chip);
            running.rows(&vec![RowVars::default(); rows]);
            running.set(x, &noise.values(rows * 16));
            running.run();
            failures.compare(choice, &running.got(maxima, rows), &running.want(maxima, rows), 1e-6);
        }
    }
    failures.report();
}
