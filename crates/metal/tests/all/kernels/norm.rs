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
