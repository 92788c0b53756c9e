use crate::rig::*;
use akunu_plan::op::*;
use akunu_plan::program::Arg;

#[test]
fn sums_and_picked_rows_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(1);
    for dim in [1, 31, 64, 300, 1025] {
        let rows = noise.pick(&[1, 2, 5]);
        let mut rig = Rig::new(rows, 2);
        let (a, b, y) = (rig.f32(dim), rig.f32(dim), rig.f32(dim));
        let params = ElementParams { dim: dim as u32, activation: 0, scale: 0.7 };
        rig.op(OpKind::Add, Per::Row, &[Arg::Buffer(a), Arg::Buffer(y), Arg::Buffer(b)], Params::Element(params));
        let picked = rig.buffer(Per::Output, dim, akunu_plan::program::ActivationLayout::F32);
        rig.op(OpKind::GatherRows, Per::Output, &[Arg::Buffer(y), Arg::Buffer(picked)], Params::Element(params));
        let case = Case::new(rig);
        let mut running = case.start(&chip());
        running.outputs(&[rows as u32 - 1, 0]);
        for id in [a, b] {
            running.set(id, &noise.values(rows * dim));
        }
        running.run();
        failures.compare(&format!("add of {dim}"), &running.got(y, rows), &running.want(y, rows), 1e-6);
        failures.compare(&format!("gather of {dim}"), &running.got(picked, 2), &running.want(picked, 2), 1e-6);
    }
    failures.report();
}
