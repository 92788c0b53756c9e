use crate::rig::*;
use akunu_plan::op::*;
use akunu_plan::program::Arg;
use akunu_plan::steps::RowVars;

#[test]
fn angles_are_exact_at_any_position() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(5);
    for pairs in [1, 8, 13, 32, 64] {
        for rows in [1, 5] {
            let mut rig = Rig::new(rows, 0);
            // Frequencies of a base, some divided as scaling does.
            let frequency = |i: usize| 1e4f32.powf(-(i as f32) / pairs as f32) / if i % 3 == 2 { 8.0 } else { 1.0 };
            let frequencies = rig.constant(&(0..pairs).map(frequency).collect::<Vec<_>>());
            let y = rig.f32(2 * pairs);
            let params = RopeAnglesParams { pairs: pairs as u32, magnitude: 1.25 };
            rig.op(OpKind::RopeAngles, Per::Row, &[frequencies, Arg::Buffer(y)], Params::RopeAngles(params));
            let case = Case::new(rig);
            let mut running = case.start(&chip());
            let far = [0, 1, 4096, (1 << 17) - 1, noise.below(1 << 17) as u32];
            let row = |r: usize| RowVars { position: far[(r + pairs) % 5], ahead: 3, ..RowVars::default() };
            running.rows(&(0..rows).map(row).collect::<Vec<_>>());
            running.run();
            failures.compare(&format!("{pairs} pairs"), &running.got(y, rows), &running.want(y, rows), 1e-6);
        }
    }
    failures.report();
}

/// Head size, pairs that rotate.
const HEADS: [(usize, usize); 8] = [(16, 8), (20, 5), (64, 32), (64, 8), (80, 40), (96, 24), (128, 64), (256, 128)];

#[test]
fn heads_turn_in_place() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(6);
    for (d, most) in HEADS {
        for style in [ROPE_NONE, ROPE_INTERLEAVED, ROPE_SPLIT_HALF] {
            for normed in [false, true] {
                let (heads, rows) = (noise.pick(&[1, 3, 9]), noise.pick(&[1, 2, 5]));
                let pairs = if style == ROPE_NONE { 0 } else { most };
                let p = HeadParams { heads: heads as u32, head_dim: d as u32, pairs: pairs as u32, style, eps: 1e-6 };
                let mut rig = Rig::new(rows, 0);
                let (x, angles) = (rig.f32(heads * d), rig.f32((2 * pairs).max(1)));
                let mut args = [Arg::Buffer(x), Arg::None, Arg::None];
                if style != ROPE_NONE {
                    args[slots::head::ANGLES] = Arg::Buffer(angles);
                }
                if normed {
                    args[slots::head::NORM] = rig.constant(&noise.values(d));
                }
                rig.op(OpKind::HeadNormRope, Per::Row, &args, Params::Head(p));
                let case = Case::new(rig);
                let mut running = case.start(&chip());
                running.set(x, &noise.values(rows * heads * d));
                running.set(angles, &noise.values(rows * 2 * pairs));
                running.run();
                let name = format!("{heads} heads of {d}, style {style}, {pairs} pairs, norm {normed}");
                failures.compare(&name, &running.got(x, rows), &running.want(x, rows), 2e-6);
            }
        }
    }
    failures.report();
}
