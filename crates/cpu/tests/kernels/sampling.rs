//! Arg-max, draws, and the step to the next token.

use crate::rig::*;
use akunu_dtype::DType;
use akunu_plan::DrawVars;
use akunu_plan::op::*;
use akunu_plan::program::{Arg, BufferId, Store};
use akunu_plan::steps::RowVars;

/// The end of a program whose logits are given: zeros through a product that adds them.
struct Choice {
    zero: BufferId,
    given: BufferId,
}

impl Choice {
    fn new(rig: &mut Rig, noise: &mut Noise, n: usize, draws: bool) -> Self {
        let w = rig.matrix(noise, DType::F32, n, 1);
        let mut buffer = |width| rig.buffer(Per::Output, width, Store::F32);
        let (zero, given, logits) = (buffer(1), buffer(n), buffer(n));
        let [maxima, drawn] = [buffer(n.div_ceil(MAXIMA_SLICE)), buffer(1)].map(Arg::Buffer);
        let logits = Arg::Buffer(logits);
        let params = MatMulParams {
            n: n as u32,
            k: 1,
            dtype: DType::F32.index().into(),
            row_bytes: w.row_bytes,
            side_bytes: 0,
            activation: 0,
            scale: 1.0,
            soft_cap: 0.0,
        };
        let args = [Arg::Buffer(zero), logits, w.arg, Arg::None, Arg::Buffer(given), maxima];
        rig.op(OpKind::MatMul, Per::Output, &args, Params::MatMul(params));
        let params = Params::Token(TokenParams { n: n as u32 });
        if draws {
            rig.op(OpKind::Sample, Per::Output, &[logits, drawn], params);
        }
        let drawn = if draws { drawn } else { Arg::None };
        rig.op(OpKind::Advance, Per::Output, &[logits, maxima, drawn], params);
        Self { zero, given }
    }

    fn give(&self, running: &mut Running, logits: &[f32]) {
        running.set(self.given, logits);
        running.set(self.zero, &vec![0.0; running.program.max_outputs]);
    }
}

#[test]
fn advance_takes_the_first_of_the_largest_logits() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(20);
    for mut cpu in backends() {
        for n in [1usize, 5, 63, 256, 257, 4097, 10_000, 20_001] {
            let outputs = 1 + noise.below(5);
            let rows = outputs + 2;
            let mut rig = Rig::new(rows, outputs);
            rig.layout.table_blocks = 100;
            let choice = Choice::new(&mut rig, &mut noise, n, false);
            let mut running = rig.start(&cpu);
            // Few distinct values, so that there are ties, and some NaN.
            let values: Vec<f32> = (0..outputs * n)
                .map(|_| if noise.below(50) == 0 { f32::NAN } else { noise.below(9) as f32 - 20.0 })
                .collect();
            choice.give(&mut running, &values);
            let vars: Vec<RowVars> =
                (0..rows).map(|r| RowVars { position: r as u32 * 3, token: 99, ..RowVars::default() }).collect();
            running.rows(&vars);
            let picked: Vec<u32> = (0..outputs as u32).map(|o| o + 2).collect();
            running.outputs(&picked);
            running.run(&mut cpu);
            let want: Vec<u32> = values.chunks(n).map(first_largest).collect();
            let name = format!("advance {n}");
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
        Choice::new(&mut rig, &mut Noise::new(22), 1000, false);
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
            let mut rig = Rig::new(outputs, outputs);
            let choice = Choice::new(&mut rig, &mut noise, n, true);
            let mut running = rig.start(&cpu);
            // Ties, numbers that are none, and now and then one that leaves no chance to others.
            let mut logit = || match noise.below(400) {
                0 => f32::NAN,
                1 => f32::NEG_INFINITY,
                _ => noise.below(2000) as f32 / 128.0 + 1.0,
            };
            let mut values: Vec<f32> = (0..outputs * n).map(|_| logit()).collect();
            values[n - 1] = f32::INFINITY;
            choice.give(&mut running, &values);
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
