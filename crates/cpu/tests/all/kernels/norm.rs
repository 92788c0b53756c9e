//! Norms of both kinds, with and without bias, residual and int8 result.

use crate::rig::*;
use akunu_plan::op::{slots::norm::*, *};
use akunu_plan::program::{ActivationLayout, Arg};

#[test]
fn norms_agree_with_their_definition() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(10);
    for mut cpu in backends() {
        for case in 0..60 {
            let layout = noise.pick(&[ActivationLayout::F32, ActivationLayout::Q8, ActivationLayout::Bf16]);
            let dim = match layout {
                ActivationLayout::F32 | ActivationLayout::Bf16 => noise.pick(&[1, 5, 16, 100, 255, 576, 1000, 2048]),
                ActivationLayout::Q8 => noise.pick(&[32, 96, 256, 576, 2048]),
            };
            let rows = noise.pick(&[1, 1, 2, 3, 4, 17]);
            let kind = noise.pick(&[NORM_RMS, NORM_LAYER]);
            let (with_bias, with_residual) = (noise.below(2) == 0, noise.below(2) == 0);
            let mut rig = Rig::new(rows, 0);
            let x = rig.f32(dim);
            let residual = with_residual.then(|| rig.f32(dim));
            // In place of the residual, in place of the input, or apart.
            let y = match (noise.below(3), residual, layout) {
                (0, Some(residual), ActivationLayout::F32) => residual,
                (1, _, ActivationLayout::F32) => x,
                _ => rig.buffer(Per::Row, dim, layout),
            };
            let (w, b) = (noise.values(dim), noise.values(dim));
            let mut args = [Arg::None; 5];
            (args[X], args[Y]) = (Arg::Buffer(x), Arg::Buffer(y));
            args[WEIGHT] = rig.constant(&w);
            if with_bias {
                args[BIAS] = rig.constant(&b);
            }
            if let Some(residual) = residual {
                args[RESIDUAL] = Arg::Buffer(residual);
            }
            let (eps, scale) = (1e-5, noise.pick(&[1.0, 0.22]));
            let params = NormParams { dim: dim as u32, kind, eps, scale };
            rig.op(OpKind::Norm, Per::Row, &args, Params::Norm(params));
            let mut running = rig.start(&cpu);
            let vx: Vec<f32> = noise.values(rows * dim).iter().map(|v| v * 3.0 + 0.5).collect();
            let vr = noise.values(rows * dim);
            running.set(x, &vx);
            if let Some(residual) = residual {
                running.set(residual, &vr);
            }
            running.run(&mut cpu);
            for row in 0..rows {
                let x: Vec<f64> = vx[row * dim..][..dim].iter().map(|&v| v.into()).collect();
                let mean = if kind == NORM_LAYER { x.iter().sum::<f64>() / dim as f64 } else { 0.0 };
                let square = x.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / dim as f64;
                let factor = 1.0 / (square + f64::from(eps)).sqrt();
                let want: Vec<f32> = (0..dim)
                    .map(|i| {
                        let v = (x[i] - mean) * factor * f64::from(w[i]);
                        let v = v + if with_bias { f64::from(b[i]) } else { 0.0 };
                        let r = if with_residual { f64::from(vr[row * dim + i]) } else { 0.0 };
                        (r + f64::from(scale) * v) as f32
                    })
                    .collect();
                let name = format!(
                    "norm case {case}: kind {kind}, {rows} × {dim}, {layout:?}, bias {with_bias}, residual {with_residual}"
                );
                // A single value has no spread: its layer norm divides by the square root of eps.
                let near = if dim == 1 && kind == NORM_LAYER { 1e-3 } else { 3e-6 };
                let got = running.row(y, row);
                let bound = layout_bound(layout, &want);
                failures.compare(&name, &cpu, &got, &want, |i| near * (1.0 + want[i].abs()) + bound(i));
            }
        }
    }
    failures.report();
}
