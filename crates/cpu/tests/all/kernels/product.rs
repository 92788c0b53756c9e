//! Matrix products: every format that can be written, both activation forms, every epilogue.

use super::elementwise::{ACTIVATIONS, activation};
use crate::rig::*;
use akunu_cpu::{Cpu, Level};
use akunu_dtype::{DType, FORMATS};
use akunu_plan::op::{slots, *};
use akunu_plan::program::{ActivationLayout, Arg};

fn formats() -> Vec<DType> {
    FORMATS.iter().filter(|f| f.encode.is_some()).map(|f| f.dtype).collect()
}

/// The dot product and the sum of the magnitudes that went into it, for the bound.
fn dot(x: &[f32], w: &[f32]) -> (f64, f64) {
    let terms = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w));
    terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
}

/// The forms activations can have before weights of a format.
fn forms(dtype: DType) -> impl Iterator<Item = ActivationLayout> {
    [ActivationLayout::F32, ActivationLayout::Q8, ActivationLayout::Bf16]
        .into_iter()
        .filter(move |&form| form != ActivationLayout::Q8 || dtype.is_quantized())
}

/// Those that multiply activations of a form: bf16 is for tiles.
fn for_form<'a>(cpus: impl Iterator<Item = &'a mut Cpu>, form: ActivationLayout) -> impl Iterator<Item = &'a mut Cpu> {
    cpus.filter(move |cpu| form != ActivationLayout::Bf16 || cpu.level() == Level::Amx)
}

/// What rounding weights to bf16 may change, as a part of the sum of magnitudes.
fn rounding(form: ActivationLayout) -> f32 {
    if form == ActivationLayout::Bf16 { 1.02 / 256.0 } else { 0.0 }
}

#[test]
fn products_and_epilogues_agree_with_their_definition() {
    use slots::matmul::*;
    let mut failures = Failures::default();
    let mut noise = Noise::new(30);
    let mut backends = backends();
    for dtype in formats() {
        for form in forms(dtype) {
            for _ in 0..2 {
                let rows = noise.pick(&[1, 2, 3, 9, 17, 33, 70, 300]);
                // Whole blocks of the format and of int8 activations; float weights have rows of any length.
                let unit = if dtype.is_quantized() { dtype.format().block.max(32) } else { 1 };
                let k = unit * (1 + noise.below(700 / unit));
                let layout = noise.pick(&[ActivationLayout::F32, ActivationLayout::Q8, ActivationLayout::Bf16]);
                let n =
                    noise.pick(if layout == ActivationLayout::Q8 { &[32, 64, 160, 288] } else { &[1, 31, 77, 300] });
                let (with_bias, with_residual) = (noise.below(2) == 0, noise.below(2) == 0);
                let kind = noise.pick(&ACTIVATIONS);
                let (scale, cap) = (noise.pick(&[1.0f32, 0.3]), noise.pick(&[0.0f32, 30.0]));
                let mut rig = Rig::new(rows, 0);
                let w = rig.matrix(&mut noise, dtype, n, k);
                let x = rig.buffer(Per::Row, k, form);
                let residual = with_residual.then(|| rig.f32(n));
                let shared = if layout == ActivationLayout::F32 && noise.below(2) == 0 { residual } else { None };
                let y = shared.unwrap_or_else(|| rig.buffer(Per::Row, n, layout));
                let b = noise.values(n);
                let mut args = [Arg::None; 5];
                (args[X], args[Y], args[W]) = (Arg::Buffer(x), Arg::Buffer(y), w.arg);
                if with_bias {
                    args[BIAS] = rig.constant(&b);
                }
                if let Some(residual) = residual {
                    args[RESIDUAL] = Arg::Buffer(residual);
                }
                let params = MatMulParams { activation: kind as u32, scale, soft_cap: cap, ..w.product };
                rig.op(OpKind::MatMul, Per::Row, &args, Params::MatMul(params));
                let (vx, vr) = (noise.values(rows * k), noise.values(rows * n));
                for cpu in for_form(one_per_level(&mut backends, &mut noise), form) {
                    let mut running = rig.start(cpu);
                    let vx = running.fill(x, &vx);
                    if let Some(residual) = residual {
                        running.set(residual, &vr);
                    }
                    running.run(cpu);
                    for row in 0..rows {
                        let mut sizes = Vec::new();
                        let want: Vec<f32> = (0..n)
                            .map(|i| {
                                let (v, size) = dot(&vx[row * k..][..k], &w.values[i * k..][..k]);
                                sizes.push(size as f32);
                                let v = v + if with_bias { f64::from(b[i]) } else { 0.0 };
                                let v = activation(kind, v) * f64::from(scale);
                                let c = f64::from(cap);
                                let v = if cap != 0.0 { c * (v / c).tanh() } else { v };
                                (v + if with_residual { f64::from(vr[row * n + i]) } else { 0.0 }) as f32
                            })
                            .collect();
                        let case = format!(
                            "matmul {dtype} {form:?}, {rows} × {k} → {n} {layout:?}, {kind:?}, cap {cap}, bias {with_bias}"
                        );
                        let rounding = rounding(form);
                        let bound = layout_bound(layout, &want);
                        // An error of the peak moves its whole block.
                        let most = sizes.iter().fold(0.0f32, |m, s| m.max(*s));
                        let size = |i: usize| if layout == ActivationLayout::Q8 { most } else { sizes[i] };
                        let got = running.row(y, row);
                        failures
                            .compare(&case, cpu, &got, &want, |i| 5e-6 + (2e-6 + rounding) * 1.01 * size(i) + bound(i));
                    }
                }
            }
        }
    }
    failures.report();
}

/// Wide enough for workers to steal shards, which must not be added to the residual twice.
#[test]
fn wide_products_add_to_their_residual_once() {
    use slots::matmul::*;
    let (rows, k, n) = (3, 672, 4160);
    let mut failures = Failures::default();
    let mut noise = Noise::new(34);
    let mut rig = Rig::new(rows, 0);
    let w = rig.matrix(&mut noise, DType::Q4_0, n, k);
    let (x, y) = (rig.buffer(Per::Row, k, ActivationLayout::Q8), rig.f32(n));
    let mut args = [Arg::None; 5];
    (args[X], args[Y], args[W], args[RESIDUAL]) = (Arg::Buffer(x), Arg::Buffer(y), w.arg, Arg::Buffer(y));
    rig.op(OpKind::MatMul, Per::Row, &args, Params::MatMul(w.product));
    let (vx, vr) = (noise.values(rows * k), noise.values(rows * n));
    for cpu in &mut backends() {
        let mut running = rig.start(cpu);
        let vx = running.fill(x, &vx);
        running.set(y, &vr);
        running.run(cpu);
        for row in 0..rows {
            let dots: Vec<_> = (0..n).map(|i| dot(&vx[row * k..][..k], &w.values[i * k..][..k])).collect();
            let want: Vec<f32> = (0..n).map(|i| (dots[i].0 + f64::from(vr[row * n + i])) as f32).collect();
            failures.compare("wide", cpu, &running.row(y, row), &want, |i| 5e-6 + 2e-6 * dots[i].1 as f32);
        }
    }
    failures.report();
}

/// What kernels keep of a packed row has room for so many values.
#[test]
fn rows_that_are_too_long_stay_as_they_are() {
    use akunu_cpu::PACKED;
    use akunu_plan::Backend;
    let mut noise = Noise::new(33);
    for cpu in backends() {
        for (k, most) in [(1 << 16, true), ((1 << 16) + 32, false)] {
            let mut rig = Rig::new(1, 0);
            let w = rig.matrix(&mut noise, DType::Q4_0, 16, k);
            let (x, y) = (rig.buffer(Per::Row, k, ActivationLayout::Q8), rig.f32(16));
            rig.op(OpKind::MatMul, Per::Row, &[Arg::Buffer(x), Arg::Buffer(y), w.arg], Params::MatMul(w.product));
            let bound = cpu.bind(&rig.program).expect("a kernel for either");
            let packed = bound.records[0].weight_layout == PACKED;
            let packs = [1, 3].contains(&cpu.threads()) && akunu_gemm::table::packs(DType::Q4_0, cpu.level());
            assert_eq!(packed, most && packs, "{k} values, {} threads", cpu.threads());
        }
    }
}

/// Weight rows longer than what tiles are unpacked for at a time, and more activation rows; columns enough for activations to
/// stay near, and for more of them to pass at a time.
#[test]
fn long_rows_are_summed_in_parts() {
    use slots::matmul::*;
    if !has_tiles() {
        return;
    }
    let mut failures = Failures::default();
    let mut noise = Noise::new(32);
    let mut backends = backends();
    let cases = [
        (DType::F16, 545, 4100, 40),
        (DType::Q4_0, 520, 8224, 9),
        (DType::Q4_0, 70, 1120, 840),
        (DType::Q8_0, 40, 4160, 840),
        (DType::Q4_0, 530, 1120, 5140),
        (DType::F16, 33, 1100, 5140),
    ];
    for (dtype, rows, k, n) in cases {
        let mut rig = Rig::new(rows, 0);
        let w = rig.matrix(&mut noise, dtype, n, k);
        let (x, y) = (rig.buffer(Per::Row, k, ActivationLayout::Bf16), rig.f32(n));
        let mut args = [Arg::None; 5];
        (args[X], args[Y], args[W]) = (Arg::Buffer(x), Arg::Buffer(y), w.arg);
        rig.op(OpKind::MatMul, Per::Row, &args, Params::MatMul(w.product));
        let vx = noise.values(rows * k);
        for cpu in for_form(one_per_level(&mut backends, &mut noise), ActivationLayout::Bf16) {
            let mut running = rig.start(cpu);
            let vx = running.fill(x, &vx);
            running.run(cpu);
            for row in (0..rows).filter(|row| row % 37 == 0 || *row + 1 == rows) {
                let dots = (0..n).map(|i| dot(&vx[row * k..][..k], &w.values[i * k..][..k]));
                let (want, sizes): (Vec<f32>, Vec<f32>) = dots.map(|(v, size)| (v as f32, size as f32)).unzip();
                let case = format!("matmul {dtype} {rows} × {k} → {n}, row {row}");
                failures.compare(&case, cpu, &running.row(y, row), &want, |i| {
                    5e-6 + (2e-6 + rounding(ActivationLayout::Bf16)) * sizes[i]
                });
            }
        }
    }
    failures.report();
}

#[test]
fn gated_products_reach_every_form() {
    use slots::gated::*;
    let mut failures = Failures::default();
    let mut noise = Noise::new(31);
    let mut backends = backends();
    for dtype in formats() {
        for form in forms(dtype) {
            let layout = noise.pick(&[ActivationLayout::F32, ActivationLayout::Q8, ActivationLayout::Bf16]);
            let rows = noise.pick(&[1, 2, 5, 66, 130]);
            let n = if layout == ActivationLayout::Q8 { noise.pick(&[32, 96, 160]) } else { noise.pick(&[7, 65, 96]) };
            // Once long rows and many columns, of which tiles take more at a time.
            let wide = (dtype, form) == (DType::Q4_0, ActivationLayout::Bf16);
            let (layout, rows, k, n) =
                if wide { (ActivationLayout::Bf16, 35, 1120, 2600) } else { (layout, rows, 256, n) };
            let kind = noise.pick(&ACTIVATIONS);
            let mut rig = Rig::new(rows, 0);
            let (w, u) = (rig.matrix(&mut noise, dtype, n, k), rig.matrix(&mut noise, dtype, n, k));
            let x = rig.buffer(Per::Row, k, form);
            let y = rig.buffer(Per::Row, n, layout);
            let mut args = [Arg::None; 4];
            (args[X], args[Y], args[W], args[U]) = (Arg::Buffer(x), Arg::Buffer(y), w.arg, u.arg);
            let params = MatMulParams { activation: kind as u32, ..w.product };
            rig.op(OpKind::MatMulGated, Per::Row, &args, Params::MatMul(params));
            let vx = noise.values(rows * k);
            for cpu in for_form(one_per_level(&mut backends, &mut noise), form) {
                let mut running = rig.start(cpu);
                let vx = running.fill(x, &vx);
                running.run(cpu);
                for row in 0..rows {
                    let mut sizes = Vec::new();
                    let want: Vec<f32> = (0..n)
                        .map(|i| {
                            let x = &vx[row * k..][..k];
                            let (gate, gate_size) = dot(x, &w.values[i * k..][..k]);
                            let (up, up_size) = dot(x, &u.values[i * k..][..k]);
                            sizes.push((gate_size * up.abs() + up_size * gate.abs()) as f32);
                            (activation(kind, gate) * up) as f32
                        })
                        .collect();
                    let rounding = rounding(form);
                    let case = format!("gated {dtype} {form:?}, {rows} × {k} → {n} {layout:?}, {kind:?}");
                    let got = running.row(y, row);
                    let bound = layout_bound(layout, &want);
                    // An error of the peak moves its whole block.
                    let most = sizes.iter().fold(0.0f32, |m, s| m.max(*s));
                    let size = |i: usize| if layout == ActivationLayout::Q8 { most } else { sizes[i] };
                    failures.compare(&case, cpu, &got, &want, |i| 1e-5 + (4e-6 + rounding) * 1.01 * size(i) + bound(i));
                }
            }
        }
    }
    failures.report();
}
