//! Matrix products: every format that can be written, both activation forms, every epilogue.

use crate::elementwise::{ACTIVATIONS, activation};
use crate::rig::*;
use akunu_cpu::{Cpu, Level};
use akunu_dtype::{DType, FORMATS};
use akunu_plan::op::{slots, *};
use akunu_plan::program::{Arg, Store};

fn formats() -> Vec<DType> {
    FORMATS.iter().filter(|f| f.encode.is_some()).map(|f| f.dtype).collect()
}

/// The dot product and the sum of the magnitudes that went into it, for the bound.
fn dot(x: &[f32], w: &[f32]) -> (f64, f64) {
    let terms = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w));
    terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
}

/// What rounding both operands to bf16 may change, as a part of the sum of magnitudes.
fn rounding(rig: &Rig, cpu: &Cpu) -> f32 {
    let tiles = rig.program.may_round && rig.program.max_rows > 16 && cpu.level() == Level::Amx;
    if tiles { 1.01 / 256.0 } else { 0.0 }
}

#[test]
fn products_and_epilogues_agree_with_their_definition() {
    use slots::matmul::*;
    let mut failures = Failures::default();
    let mut noise = Noise::new(30);
    let mut backends = backends();
    for dtype in formats() {
        for int8 in [false, true] {
            if int8 && !dtype.is_quantized() {
                continue;
            }
            for _ in 0..2 {
                let rows = noise.pick(&[1, 2, 3, 9, 17, 33, 70, 300]);
                // Whole blocks of the format and of int8 activations; float weights have rows of any length.
                let unit = if dtype.is_quantized() { dtype.format().block.max(32) } else { 1 };
                let k = unit * (1 + noise.below(700 / unit));
                let n = noise.pick(&[1, 31, 32, 77, 130, 300]);
                let (with_bias, with_residual) = (noise.below(2) == 0, noise.below(2) == 0);
                let kind = noise.pick(&ACTIVATIONS);
                let (scale, cap) = (noise.pick(&[1.0f32, 0.3]), noise.pick(&[0.0f32, 30.0]));
                let mut rig = Rig::new(rows, 0);
                rig.program.may_round = noise.below(3) > 0;
                let w = rig.matrix(&mut noise, dtype, n, k);
                let x = rig.buffer(Per::Row, k, if int8 { Store::Q8 } else { Store::F32 });
                let residual = with_residual.then(|| rig.f32(n));
                let y = if noise.below(2) == 0 { residual } else { None }.unwrap_or_else(|| rig.f32(n));
                let b = noise.values(n);
                let mut args = [Arg::None; 5];
                (args[X], args[Y], args[W]) = (Arg::Buffer(x), Arg::Buffer(y), w.arg);
                if with_bias {
                    args[BIAS] = rig.constant(&b);
                }
                if let Some(residual) = residual {
                    args[RESIDUAL] = Arg::Buffer(residual);
                }
                let params = MatMulParams {
                    n: n as u32,
                    k: k as u32,
                    dtype: dtype.index().into(),
                    row_bytes: w.row_bytes,
                    side_bytes: w.side_bytes,
                    activation: kind as u32,
                    scale,
                    soft_cap: cap,
                };
                rig.op(OpKind::MatMul, Per::Row, &args, Params::MatMul(params));
                let (vx, vr) = (noise.values(rows * k), noise.values(rows * n));
                for cpu in one_per_level(&mut backends, &mut noise) {
                    let mut running = rig.start(cpu);
                    let vx = if int8 {
                        running.set_int8(x, &vx)
                    } else {
                        running.set(x, &vx);
                        vx.clone()
                    };
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
                            "matmul {dtype} int8 {int8}, {rows} × {k} → {n}, {kind:?}, cap {cap}, bias {with_bias}"
                        );
                        let rounding = rounding(&rig, cpu);
                        failures
                            .compare(&case, cpu, &running.row(y, row), &want, |i| 5e-6 + (2e-6 + rounding) * sizes[i]);
                    }
                }
            }
        }
    }
    failures.report();
}

#[test]
fn gated_products_reach_f32_and_int8_rows() {
    use slots::gated::*;
    let mut failures = Failures::default();
    let mut noise = Noise::new(31);
    let mut backends = backends();
    for dtype in formats() {
        for int8 in [false, true] {
            if int8 && !dtype.is_quantized() {
                continue;
            }
            let store = noise.pick(&[Store::F32, Store::Q8]);
            let rows = noise.pick(&[1, 2, 5, 66, 130]);
            let k = 256;
            let n = if store == Store::Q8 { noise.pick(&[32, 96, 160]) } else { noise.pick(&[7, 65, 96]) };
            let kind = noise.pick(&ACTIVATIONS);
            let mut rig = Rig::new(rows, 0);
            rig.program.may_round = noise.below(3) > 0;
            let (w, u) = (rig.matrix(&mut noise, dtype, n, k), rig.matrix(&mut noise, dtype, n, k));
            let x = rig.buffer(Per::Row, k, if int8 { Store::Q8 } else { Store::F32 });
            let y = rig.buffer(Per::Row, n, store);
            let mut args = [Arg::None; 4];
            (args[X], args[Y], args[W], args[U]) = (Arg::Buffer(x), Arg::Buffer(y), w.arg, u.arg);
            let params = MatMulParams {
                n: n as u32,
                k: k as u32,
                dtype: dtype.index().into(),
                row_bytes: w.row_bytes,
                side_bytes: w.side_bytes,
                activation: kind as u32,
                scale: 1.0,
                soft_cap: 0.0,
            };
            rig.op(OpKind::MatMulGated, Per::Row, &args, Params::MatMul(params));
            let vx = noise.values(rows * k);
            for cpu in one_per_level(&mut backends, &mut noise) {
                let mut running = rig.start(cpu);
                let vx = if int8 {
                    running.set_int8(x, &vx)
                } else {
                    running.set(x, &vx);
                    vx.clone()
                };
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
                    let rounding = rounding(&rig, cpu);
                    let case = format!("gated {dtype} int8 {int8}, {rows} × {k} → {n} {store:?}, {kind:?}");
                    let got = running.row(y, row);
                    match store {
                        Store::F32 => {
                            failures.compare(&case, cpu, &got, &want, |i| 1e-5 + (4e-6 + rounding) * sizes[i])
                        }
                        Store::Q8 => {
                            let bound = int8_bound(&want);
                            let most = sizes.iter().fold(0.0f32, |m, s| m.max(*s));
                            failures.compare(&case, cpu, &got, &want, |i| 1e-5 + (4e-6 + rounding) * most + bound(i));
                        }
                    }
                }
            }
        }
    }
    failures.report();
}
