//! Products of many rows. Floats are multiplied as they are, and differ by the order of f32 sums alone; quantized weights are
//! rounded to half, by 2^-11 at most, and as much of their products is the most that a sum can be off.

use crate::rig::*;
use akunu_dtype::DType;
use akunu_metal::chip::Chip;
use akunu_metal::{formats, kernels};
use akunu_plan::backend::{Loaded, Want};
use akunu_plan::op::*;
use akunu_plan::program::{ActivationLayout, Arg};

fn chips() -> [(&'static str, Chip); 2] {
    [("matrices", chip()), ("no matrices", Chip { matrices: false, ..chip() })]
}

/// Formats that the shaders have and tests can write.
fn dtypes() -> Vec<DType> {
    let known = |dtype: &DType| formats::FORMATS.iter().any(|(suffix, _)| *suffix == kernels::suffix(*dtype));
    let all = (0..=u8::MAX).filter_map(DType::from_index);
    all.filter(|dtype| known(dtype) && dtype.format().encode.is_some()).collect()
}

fn tolerance(dtype: DType) -> f32 {
    if dtype.is_quantized() { 5e-4 } else { 1e-5 }
}

/// Of whole blocks, about so many.
fn columns(dtype: DType, about: usize) -> usize {
    about.next_multiple_of(dtype.format().block)
}

fn rig(rows: usize) -> Rig {
    let mut rig = Rig::new(rows, 0);
    rig.aligned = true;
    rig.program.may_round = true;
    rig
}

#[derive(Clone, Copy)]
struct Epilogue {
    bias: bool,
    /// In place where it is 2.
    residual: u32,
    activation: Activation,
    scale: f32,
    soft_cap: f32,
}

const NONE: Epilogue = Epilogue { bias: false, residual: 0, activation: Activation::None, scale: 1.0, soft_cap: 0.0 };

/// `steps` of so many rows each, on both executors.
fn product(
    failures: &mut Failures,
    noise: &mut Noise,
    on: &(&str, Chip),
    dtype: DType,
    (n, k): (usize, usize),
    steps: &[usize],
    e: Epilogue,
) {
    let most = *steps.iter().max().unwrap();
    let mut rig = rig(most);
    let (x, residual) = (rig.f32(k), rig.f32(n));
    let y = if e.residual == 2 { residual } else { rig.f32(n) };
    let w = rig.matrix(noise, dtype, n, k);
    let bias = if e.bias { rig.constant(&noise.values(n)) } else { Arg::None };
    let added = if e.residual > 0 { Arg::Buffer(residual) } else { Arg::None };
    let params = MatMulParams { activation: e.activation as u32, scale: e.scale, soft_cap: e.soft_cap, ..w.product };
    let args = [Arg::Buffer(x), Arg::Buffer(y), w.arg, bias, added];
    rig.op(OpKind::MatMul, Per::Row, &args, Params::MatMul(params));
    let case = Case::new(rig);
    let mut running = case.start(&on.1);
    for &rows in steps {
        running.rows(&vec![Default::default(); rows]);
        running.set(x, &noise.values(rows * k));
        running.set(residual, &noise.values(rows * n));
        running.run();
        let name = format!("{dtype} {n}x{k}, {rows} rows, {}", on.0);
        failures.compare(&name, &running.got(y, rows), &running.want(y, rows), tolerance(dtype));
    }
}

#[test]
fn products_of_many_rows_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(31);
    for on in &chips() {
        for dtype in dtypes() {
            // By two small tiles and by one that is not whole. Where there are no matrices there is one tile.
            let steps: &[usize] = if on.1.matrices { &[9, 17] } else { &[9] };
            product(&mut failures, &mut noise, on, dtype, (10, columns(dtype, 33)), steps, NONE);
        }
        // Several tiles in all directions, whole and not.
        for (dtype, n, k) in [(DType::F32, 64, 32), (DType::F16, 70, 1), (DType::BF16, 129, 77), (DType::Q8_0, 70, 96)]
        {
            product(&mut failures, &mut noise, on, dtype, (n, k), &[1, 8, 32, 34], NONE);
        }
    }
    failures.report();
}

#[test]
fn products_of_many_rows_end_as_the_op_says() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(32);
    let all = Epilogue { bias: true, residual: 1, activation: Activation::GeluErf, scale: 0.5, soft_cap: 3.0 };
    let ends = [
        Epilogue { bias: true, ..NONE },
        Epilogue { residual: 1, scale: 0.3, ..NONE },
        Epilogue { residual: 2, bias: true, ..NONE },
        Epilogue { activation: Activation::Silu, scale: 4.0, ..NONE },
        Epilogue { activation: Activation::GeluTanh, bias: true, ..NONE },
        Epilogue { activation: Activation::GeluErf, bias: true, ..NONE },
        Epilogue { soft_cap: 1.5, ..NONE },
        all,
    ];
    for on in &chips() {
        for end in ends {
            product(&mut failures, &mut noise, on, DType::F16, (66, 37), &[3, 18], end);
        }
    }
    failures.report();
}

#[test]
fn gate_and_up_of_many_rows_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(33);
    for (chip_name, chip) in chips() {
        let mut dtypes = dtypes();
        dtypes.dedup_by_key(|dtype| kernels::suffix(*dtype));
        for (nth, dtype) in dtypes.into_iter().enumerate() {
            let (n, k) = (if nth == 0 { 70 } else { 10 }, columns(dtype, 33));
            let mut rig = rig(17);
            let (x, y) = (rig.f32(k), rig.f32(n));
            let (w, u) = (rig.matrix(&mut noise, dtype, n, k), rig.matrix(&mut noise, dtype, n, k));
            let activation = [Activation::Silu, Activation::GeluTanh][nth % 2];
            let params = MatMulParams { activation: activation as u32, ..w.product };
            let args = [Arg::Buffer(x), Arg::Buffer(y), w.arg, u.arg];
            rig.op(OpKind::MatMulGated, Per::Row, &args, Params::MatMul(params));
            let case = Case::new(rig);
            let mut running = case.start(&chip);
            for rows in if chip.matrices { vec![5, 17] } else { vec![9] } {
                running.rows(&vec![Default::default(); rows]);
                running.set(x, &noise.values(rows * k));
                running.run();
                let name = format!("gated {dtype}, {rows} rows, {chip_name}");
                // Two products, each of which may be off.
                failures.compare(&name, &running.got(y, rows), &running.want(y, rows), 2.0 * tolerance(dtype));
            }
        }
    }
    failures.report();
}

/// The frames of a convolution are twice as many as the rows.
#[test]
fn products_of_frames_and_numbers_beyond_half_are_right() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(34);
    for (chip_name, chip) in chips() {
        for dtype in [DType::F32, DType::BF16] {
            let (n, k) = (40, 32);
            let mut rig = rig(3);
            let x = rig.buffer(Per::Frame, k, ActivationLayout::F32);
            let y = rig.buffer(Per::Frame, n, ActivationLayout::F32);
            let w = rig.matrix(&mut noise, dtype, n, k);
            rig.op(OpKind::MatMul, Per::Frame, &[Arg::Buffer(x), Arg::Buffer(y), w.arg], Params::MatMul(w.product));
            let mut large = |bytes: usize, value: &[u8]| {
                let at = rig.file.len() - n * k * bytes;
                rig.file[at..at + value.len()].copy_from_slice(value);
            };
            match dtype {
                DType::F32 => large(4, &1e6f32.to_le_bytes()),
                _ => large(2, &half::bf16::from_f32(1e6).to_le_bytes()),
            }
            let case = Case::new(rig);
            let mut running = case.start(&chip);
            // Activations too are beyond half.
            let values: Vec<f32> = noise.values(6 * k).iter().map(|v| v * 1e5).collect();
            running.set(x, &values);
            running.run();
            let (got, want) = (running.got(y, 6), running.want(y, 6));
            failures.check(chip_name, want.iter().any(|v| v.abs() > 1e9), "the large weight is not there");
            failures.compare(&format!("frames {dtype}, {chip_name}"), &got, &want, 1e-5);
        }
    }
    failures.report();
}

/// To the bit: alone, in chunks of any size, by either tile.
#[test]
fn a_rows_bits_do_not_depend_on_how_many_rows_there_are() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(35);
    for (chip_name, chip) in chips() {
        let dtype = DType::Q4_0;
        let (n, k) = (20, 128);
        let mut rig = rig(40);
        let (x, y) = (rig.f32(k), rig.f32(n));
        let w = rig.matrix(&mut noise, dtype, n, k);
        rig.op(OpKind::MatMul, Per::Row, &[Arg::Buffer(x), Arg::Buffer(y), w.arg], Params::MatMul(w.product));
        let case = Case::new(rig);
        let mut running = case.start(&chip);
        let values = noise.values(40 * k);
        let mut of = |rows: std::ops::Range<usize>| {
            running.rows(&vec![Default::default(); rows.len()]);
            running.set(x, &values[rows.start * k..rows.end * k]);
            running.loaded.submit(0, 1, Want::All).unwrap();
            running.got(y, rows.len())
        };
        let whole = of(0..40);
        for chunk in [1, 8, 16, 17, 33] {
            let parts: Vec<f32> =
                (0..40).step_by(chunk).take(3).flat_map(|from| of(from..(from + chunk).min(40))).collect();
            let same = parts.iter().zip(&whole).all(|(a, b)| a.to_bits() == b.to_bits());
            failures.check(&format!("chunks of {chunk}, {chip_name}"), same, "other bits");
        }
    }
    failures.report();
}

/// No number of rows is served by two dispatches, and none by none.
#[test]
fn every_number_of_rows_has_one_tile() {
    let mut rig = rig(512);
    let mut noise = Noise::new(36);
    let (x, y) = (rig.f32(32), rig.f32(8));
    let w = rig.matrix(&mut noise, DType::F16, 8, 32);
    rig.op(OpKind::MatMul, Per::Row, &[Arg::Buffer(x), Arg::Buffer(y), w.arg], Params::MatMul(w.product));
    let record = akunu_plan::bind::describe(&rig.program, &rig.program.ops[0]);
    for (name, chip) in chips() {
        let row = &kernels::table()[kernels::choose(&record, &chip).unwrap() as usize];
        let dispatches = row.encode(&record, &chip);
        for rows in 1..=512 {
            let count = dispatches.iter().filter(|d| d.when.contains(&rows)).count();
            assert_eq!(count, 1, "{rows} rows, {name}");
        }
    }
}
