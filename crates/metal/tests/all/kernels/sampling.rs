//! Choosing tokens.

mod alone;
mod draws;
mod texts;

use crate::rig::*;
use akunu_plan::Loaded;
use akunu_plan::backend::Want;
use akunu_plan::op::*;
use akunu_plan::program::{ActivationLayout, Arg, BufferId};
use akunu_plan::rules::RuleVars;
use akunu_plan::steps::RowVars;

/// The end of a program, whose logits and their maxima are given.
struct Choice {
    logits: BufferId,
    maxima: BufferId,
    n: usize,
}

impl Choice {
    fn new(rig: &mut Rig, n: usize, ruled: bool, drawn: bool) -> Self {
        let mut buffer = |width| rig.buffer(Per::Output, width, ActivationLayout::F32);
        let (logits, maxima) = (buffer(n), buffer(n.div_ceil(MAXIMA_SLICE)));
        let [x, m, t, d] = [logits, maxima, buffer(1), buffer(1)].map(Arg::Buffer);
        let params = Params::Token(TokenParams { n: n as u32 });
        // Nothing is done to texts without rules; `Advance` needs an op that it waits for.
        rig.op(OpKind::Suppress, Per::Output, &[x, m, t], params);
        if drawn {
            rig.op(OpKind::Sample, Per::Output, &[x, d], params);
        }
        let there = |is: bool, arg| if is { arg } else { Arg::None };
        rig.op(OpKind::Advance, Per::Output, &[x, m, there(drawn, d), there(ruled, t)], params);
        rig.program.logits = logits;
        Self { logits, maxima, n }
    }

    fn give(&self, running: &mut Running<'_>, logits: &[f32]) {
        let largest = |slice: &[f32]| slice.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let maxima: Vec<f32> = logits.chunks(self.n).flat_map(|row| row.chunks(MAXIMA_SLICE).map(largest)).collect();
        running.set(self.logits, logits);
        running.set(self.maxima, &maxima);
    }
}

/// Several steps in one submission, on both.
fn chain(running: &mut Running<'_>, steps: usize) {
    running.loaded.submit(0, steps, Want::All).unwrap_or_else(|error| panic!("{error}"));
    (0..steps).for_each(|_| running.reference.run());
}

/// Whether the step variables of both are the same, but for sums of logarithms, which are near; else what differs.
fn compare(failures: &mut Failures, case: &str, running: &mut Running<'_>) {
    let (got, want) = (running.loaded.steps(), running.reference.steps());
    failures.check(case, got.header() == want.header(), &format!("{:?}, want {:?}", got.header(), want.header()));
    let rows = |vars: &[RowVars]| bytemuck::cast_slice::<RowVars, u32>(vars).to_vec();
    failures.check(case, rows(got.rows()) == rows(want.rows()), &format!("{:?}, want {:?}", got.rows(), want.rows()));
    failures.check(case, got.draws() == want.draws(), &format!("{:?}, want {:?}", got.draws(), want.draws()));
    for (got, want) in got.texts().iter().zip(want.texts()) {
        let near = |a: f32, b: f32| a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-4;
        let rest = |text: &RuleVars| RuleVars { sum: 0.0, total: 0.0, ..*text };
        let holds = rest(got) == rest(want) && near(got.sum, want.sum) && near(got.total, want.total);
        failures.check(case, holds, &format!("{got:?}, want {want:?}"));
    }
    let (got, want) = (got.into_emitted(), want.into_emitted());
    failures.check(case, got == want, &format!("{got:?}, want {want:?}"));
}

#[test]
fn the_first_of_the_largest_logits_is_the_next_token() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(20);
    for n in [1usize, 5, 63, 256, 257, 4097, 10_000] {
        for outputs in [1, 3, 40] {
            let rows = outputs + 2;
            let mut rig = Rig::new(rows, outputs);
            let choice = Choice::new(&mut rig, n, false, false);
            let case = Case::new(rig);
            let mut running = case.start(&chip());
            // Few distinct values, so that there are ties; both zeros; what is no number.
            let mut logit = || match noise.below(60) {
                0 => f32::NAN,
                1 => -f32::NAN,
                2 => f32::NEG_INFINITY,
                3 => -0.0,
                _ => -(noise.below(9) as f32),
            };
            let mut values: Vec<f32> = (0..outputs * n).map(|_| logit()).collect();
            if outputs > 1 {
                values[2 * n - 1] = f32::INFINITY;
            }
            choice.give(&mut running, &values);
            let vars = |r: usize| RowVars { position: r as u32 * 3, token: 99, ..RowVars::default() };
            running.rows(&(0..rows).map(vars).collect::<Vec<_>>());
            running.outputs(&(0..outputs as u32).map(|o| o + 2).collect::<Vec<_>>());
            running.run();
            compare(&mut failures, &format!("{outputs} rows of {n}"), &mut running);
        }
    }
    failures.report();
}

#[test]
fn logits_without_numbers_leave_a_token_to_go_on_with() {
    let mut failures = Failures::default();
    let n = 1000;
    let nothing = vec![f32::NAN; n];
    let never = vec![f32::NEG_INFINITY; n];
    // The first -∞ is in the third slice.
    let mut late = nothing.clone();
    late[600] = f32::NEG_INFINITY;
    for (name, row) in [("NaN", nothing), ("-∞", never), ("-∞ late", late)] {
        let mut rig = Rig::new(1, 1);
        let choice = Choice::new(&mut rig, n, false, true);
        let case = Case::new(rig);
        let mut running = case.start(&chip());
        choice.give(&mut running, &row);
        for temperature in [0.0, 1.0] {
            for mut vars in [running.loaded.steps(), running.reference.steps()] {
                vars.draws_mut()[0].temperature = temperature;
            }
            running.run();
            compare(&mut failures, name, &mut running);
        }
    }
    failures.report();
}

#[test]
fn a_row_of_several_outputs_moves_on_as_often_and_steps_without_outputs_are_steps() {
    let mut failures = Failures::default();
    let n = 300;
    let mut rig = Rig::new(4, 5);
    let choice = Choice::new(&mut rig, n, false, false);
    let case = Case::new(rig);
    let mut running = case.start(&chip());
    let values = Noise::new(4).values(5 * n);
    for outputs in [&[1, 3, 1, 0, 1][..], &[2, 2], &[]] {
        running.outputs(outputs);
        choice.give(&mut running, &values);
        running.run();
        compare(&mut failures, &format!("{outputs:?}"), &mut running);
    }
    failures.report();
}
