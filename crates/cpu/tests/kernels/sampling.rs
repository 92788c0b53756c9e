//! Arg-max, draws, and the step to the next token.

use crate::rig::*;
use akunu_plan::DrawVars;
use akunu_plan::op::*;
use akunu_plan::program::{Arg, Store};
use akunu_plan::steps::RowVars;

#[test]
fn argmax_finds_the_first_largest_and_advance_takes_it() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(20);
    for mut cpu in backends() {
        for n in [1usize, 5, 63, 4096, 4097, 10_000, 20_001] {
            let outputs = 1 + noise.below(3);
            let rows = outputs + 2;
            let slices = n.div_ceil(ARGMAX_SLICE);
            let mut rig = Rig::new(rows, outputs);
            rig.layout.table_blocks = 100;
            let x = rig.buffer(Per::Output, n, Store::F32);
            let best = rig.buffer(Per::Output, 2 * slices, Store::F32);
            let params = Params::ArgMax(ArgMaxParams { n: n as u32, slices: slices as u32 });
            rig.op(OpKind::ArgMax, Per::Output, &[Arg::Buffer(x), Arg::Buffer(best)], params);
            rig.op(OpKind::Advance, Per::Output, &[Arg::Buffer(best)], params);
            let mut running = rig.start(&cpu);
            // Few distinct values, so that there are ties, and some NaN.
            let values: Vec<f32> = (0..outputs * n)
                .map(|_| if noise.below(50) == 0 { f32::NAN } else { noise.below(9) as f32 - 20.0 })
                .collect();
            running.set(x, &values);
            let vars: Vec<RowVars> =
                (0..rows).map(|r| RowVars { position: r as u32 * 3, token: 99, ..RowVars::default() }).collect();
            running.rows(&vars);
            let picked: Vec<u32> = (0..outputs as u32).map(|o| o + 2).collect();
            running.outputs(&picked);
            running.run(&mut cpu);
            let want: Vec<u32> = values.chunks(n).map(first_largest).collect();
            let name = format!("argmax {n}");
            let emitted = running.memory.step_vars().into_emitted().to_vec();
            failures.check(&name, &cpu, emitted == want, &format!("{emitted:?}, want {want:?}"));
            let vars = running.memory.step_vars();
            for (row, vars) in vars.rows().iter().enumerate() {
                let chosen = picked.iter().position(|&p| p as usize == row);
                let (token, moved) = chosen.map_or((99, 0), |o| (want[o], 1));
                let right = vars.token == token && vars.position == row as u32 * 3 + moved;
                failures.check(&name, &cpu, right, &format!("row {row} is {vars:?}"));
            }
        }
    }
    failures.report();
}

#[test]
fn logits_that_are_all_nan_choose_a_token_all_the_same() {
    for mut cpu in backends() {
        let mut rig = Rig::new(1, 1);
        let x = rig.buffer(Per::Output, 100, Store::F32);
        let best = rig.buffer(Per::Output, 2, Store::F32);
        let params = Params::ArgMax(ArgMaxParams { n: 100, slices: 1 });
        rig.op(OpKind::ArgMax, Per::Output, &[Arg::Buffer(x), Arg::Buffer(best)], params);
        rig.op(OpKind::Advance, Per::Output, &[Arg::Buffer(best)], params);
        let mut running = rig.start(&cpu);
        running.run(&mut cpu);
        assert_eq!(running.memory.step_vars().into_emitted(), [0]);
    }
}

#[test]
fn what_is_drawn_is_what_its_definition_draws_and_the_next_draw_is_another() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(21);
    let cuts = [(0, 1.0, 0.0), (0, 1.0, 0.05), (1, 1.0, 0.0), (40, 0.95, 0.05), (256, 0.5, 0.0), (7, 1.0, 0.3)];
    for mut cpu in backends() {
        for n in [1usize, 5, 63, 64, 1000, 4097, 20_001] {
            let outputs = cuts.len() + 1;
            let slices = n.div_ceil(ARGMAX_SLICE);
            let mut rig = Rig::new(outputs, outputs);
            let x = rig.buffer(Per::Output, n, Store::F32);
            let best = rig.buffer(Per::Output, 2 * slices, Store::F32);
            let params = Params::ArgMax(ArgMaxParams { n: n as u32, slices: slices as u32 });
            for kind in [OpKind::ArgMax, OpKind::Sample] {
                rig.op(kind, Per::Output, &[Arg::Buffer(x), Arg::Buffer(best)], params);
            }
            rig.op(OpKind::Advance, Per::Output, &[Arg::Buffer(best)], params);
            let mut running = rig.start(&cpu);
            // Ties, numbers that are none, and now and then one that leaves no chance to others.
            let mut logit = || match noise.below(400) {
                0 => f32::NAN,
                1 => f32::NEG_INFINITY,
                _ => noise.below(2000) as f32 / 128.0 + 1.0,
            };
            let mut values: Vec<f32> = (0..outputs * n).map(|_| logit()).collect();
            values[n - 1] = f32::INFINITY;
            running.set(x, &values);
            running.rows(&vec![RowVars::default(); outputs]);
            running.outputs(&(0..outputs as u32).collect::<Vec<_>>());
            let vars = |output: usize, index: u32| {
                let Some(&(top_k, top_p, min_p)) = cuts.get(output) else { return DrawVars::default() };
                let seed = [output as u32, 77];
                DrawVars { temperature: 0.9, top_k, top_p, min_p, seed, index, reserved: 0 }
            };
            running.memory.step_vars().draws_mut().iter_mut().enumerate().for_each(|(o, v)| *v = vars(o, 5));
            let expected: Vec<u32> = (0..3)
                .flat_map(|step| values.chunks(n).enumerate().map(move |(o, row)| (step, o, row)))
                .map(|(step, o, row)| vars(o, 5 + step).draw(row).unwrap_or_else(|| first_largest(row)))
                .collect();
            (0..3).for_each(|_| running.run(&mut cpu));
            let emitted = running.memory.step_vars().into_emitted().to_vec();
            failures.check(
                &format!("sample {n}"),
                &cpu,
                emitted == expected,
                &format!("{emitted:?}, want {expected:?}"),
            );
        }
    }
    failures.report();
}

fn first_largest(row: &[f32]) -> u32 {
    let mut best = None;
    for (i, &v) in row.iter().enumerate() {
        if !v.is_nan() && best.is_none_or(|(_, most)| v > most) {
            best = Some((i as u32, v));
        }
    }
    best.map_or(0, |(i, _)| i)
}
