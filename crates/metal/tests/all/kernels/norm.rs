//! Norms of rows.

use crate::direct::Direct;
use crate::rig::*;
use akunu_plan::op::*;
use akunu_plan::program::Arg;

#[test]
fn norms_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(2);
    for kind in [NORM_RMS, NORM_LAYER] {
        for (dim, with_bias, with_residual) in
            [(1, false, false), (32, true, true), (300, false, true), (1025, true, false), (4096, true, true)]
        {
            let rows = noise.pick(&[1, 3]);
            let mut rig = Rig::new(rows, 0);
            let (x, residual) = (rig.f32(dim), rig.f32(dim));
            let y = if with_residual && noise.below(2) == 0 { residual } else { rig.f32(dim) };
            let weight = rig.constant(&noise.values(dim));
            let bias = if with_bias && kind == NORM_LAYER { rig.constant(&noise.values(dim)) } else { Arg::None };
            let added = if with_residual { Arg::Buffer(residual) } else { Arg::None };
            let params = NormParams { dim: dim as u32, kind, eps: 1e-5, scale: 0.5 };
            let args = [Arg::Buffer(x), Arg::Buffer(y), weight, bias, added];
            rig.op(OpKind::Norm, Per::Row, &args, Params::Norm(params));
            let case = Case::new(rig);
            let mut running = case.start(&chip());
            running.set(x, &noise.values(rows * dim));
            running.set(residual, &noise.values(rows * dim));
            running.run();
            let name = format!("norm {kind} of {dim}, bias {with_bias}, residual {with_residual}");
            failures.compare(&name, &running.got(y, rows), &running.want(y, rows), 1e-5);
        }
    }
    failures.report();
}

#[test]
fn gemmas_norm_adds_one_to_weights() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(10);
    for (dim, stride) in [(1, 16), (300, 304)] {
        let (rows, eps) = (2, 1e-5f32);
        let (x, weight) = (noise.values(rows * stride), noise.values(dim));
        let params = [rows as u32, dim as u32, stride as u32, stride as u32, 0, eps.to_bits(), 1.0f32.to_bits()];
        let direct = Direct::new("rmsnorm_gemma", [rows as u32, 1, 1], [256, 1, 1]);
        let got = direct.values(0, &x).values(1, &weight).output(2, rows * stride).params(&params).floats().remove(0);
        for row in 0..rows {
            let x = &x[row * stride..][..dim];
            let mean = x.iter().map(|v| f64::from(v * v)).sum::<f64>() / dim as f64;
            let by = 1.0 / (mean + f64::from(eps)).sqrt();
            let want: Vec<f32> =
                (0..dim).map(|i| (f64::from(x[i]) * by * (1.0 + f64::from(weight[i]))) as f32).collect();
            failures.compare(&format!("Gemma's norm of {dim}"), &got[row * stride..][..dim], &want, 1e-6);
        }
    }
    failures.report();
}
