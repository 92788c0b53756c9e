//! Arg-max, draws, and the step to the next token.

use crate::rig::*;
use akunu_dtype::DType;
use akunu_plan::DrawVars;
use akunu_plan::NO_TOKEN;
use akunu_plan::op::*;
use akunu_plan::program::{ActivationLayout, Arg, BufferId};
use akunu_plan::record::Addr;
use akunu_plan::reference::{Bytes, Reference};
use akunu_plan::rules::{Chosen, RuleVars, Rules};
use akunu_plan::steps::{RowVars, StepVars};

/// The end of a program whose logits are given: zeros through a product that adds them.
struct Choice {
    zero: BufferId,
    given: BufferId,
}

impl Choice {
    fn new(rig: &mut Rig, noise: &mut Noise, n: usize, draws: bool) -> Self {
        let w = rig.matrix(noise, DType::F32, n, 1);
        let mut buffer = |width| rig.buffer(Per::Output, width, ActivationLayout::F32);
        let (zero, given, logits) = (buffer(1), buffer(n), buffer(n));
        let [maxima, drawn] = [buffer(n.div_ceil(MAXIMA_SLICE)), buffer(1)].map(Arg::Buffer);
        let logits = Arg::Buffer(logits);
        let args = [Arg::Buffer(zero), logits, w.arg, Arg::None, Arg::Buffer(given), maxima];
        rig.op(OpKind::MatMul, Per::Output, &args, Params::MatMul(w.product));
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
            let told: Vec<u32> = values.chunks(n).zip(&want).map(|(row, &token)| told(row, token)).collect();
            failures.check(&name, &cpu, emitted == told, &format!("{emitted:?}, want {told:?}"));
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

/// What the host learns of a choice: nothing of one whose logit is no finite number.
fn told(row: &[f32], token: u32) -> u32 {
    if row[token as usize] < f32::INFINITY { token } else { NO_TOKEN }
}

#[test]
fn logits_that_are_all_nan_choose_no_token_and_leave_one_to_go_on_with() {
    for mut cpu in backends() {
        let mut rig = Rig::new(1, 1);
        Choice::new(&mut rig, &mut Noise::new(22), 1000, false);
        let mut running = rig.start(&cpu);
        running.run(&mut cpu);
        assert_eq!(running.memory.step_vars().rows()[0].token, 0);
        assert_eq!(running.memory.step_vars().into_emitted(), [NO_TOKEN]);
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
                .map(|(step, o, row)| (row, vars(o, 5 + step).draw(row).unwrap_or_else(|| first_largest(row))))
                .map(|(row, token)| told(row, token))
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

/// The end of a program over texts with rules, whose logits and their maxima are given.
struct Ruled {
    logits: BufferId,
    maxima: BufferId,
    total: BufferId,
}

impl Ruled {
    fn new(rig: &mut Rig, n: usize) -> Self {
        let mut buffer = |width| rig.buffer(Per::Output, width, ActivationLayout::F32);
        let (logits, maxima) = (buffer(n), buffer(n.div_ceil(MAXIMA_SLICE)));
        let (total, drawn) = (buffer(1), buffer(1));
        let [x, m, t, d] = [logits, maxima, total, drawn].map(Arg::Buffer);
        let params = Params::Token(TokenParams { n: n as u32 });
        rig.op(OpKind::Suppress, Per::Output, &[x, m, t], params);
        rig.op(OpKind::Sample, Per::Output, &[x, d], params);
        rig.op(OpKind::Advance, Per::Output, &[x, m, d, t], params);
        rig.program.input = Some(logits);
        Self { logits, maxima, total }
    }

    fn give(&self, running: &mut Running, logits: &[f32], n: usize) {
        let largest = |slice: &[f32]| slice.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let maxima: Vec<f32> = logits.chunks(n).flat_map(|row| row.chunks(MAXIMA_SLICE).map(largest)).collect();
        running.set(self.logits, logits);
        running.set(self.maxima, &maxima);
    }
}

/// A program without weights.
struct Weightless;

impl Bytes for Weightless {
    fn bytes(&self, _: Addr, _: usize) -> &[u8] {
        &[]
    }
}

fn rules(noise: &mut Noise, n: usize, timestamps: bool) -> Rules {
    let first = n * 4 / 5;
    let rules = Rules {
        end: first as u32 - 9,
        first_timestamp: first as u32,
        timestamps: timestamps.into(),
        latest_start: n as u32 / 20,
        never: 0,
        not_first: 0,
        tokens: [0; _],
    };
    let mut some = |count: usize| (0..count).map(|_| noise.below(first) as u32).collect::<Vec<_>>();
    let (never, not_first) = (some(30), some(3));
    rules.listing(&never, &not_first)
}

/// A text of up to five tokens, timestamps and words in any order; one in eight has no rules, some have ended.
fn text(noise: &mut Noise, rules: &Rules, n: usize) -> RuleVars {
    let mut text = RuleVars { on: u32::from(noise.below(8) > 0), ..RuleVars::default() };
    for _ in 0..noise.below(6) {
        let token = match noise.below(2) {
            0 => rules.first_timestamp + noise.below(n - rules.first_timestamp as usize) as u32,
            _ => noise.below(rules.end as usize + 1) as u32,
        };
        text.push(rules, Chosen { token, logit: noise.value(), total: 1.0 });
    }
    text
}

/// Every level and the reference executor go on with the same texts, given the same logits, for six steps.
#[test]
fn texts_go_on_by_their_rules_as_in_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(23);
    for mut cpu in backends() {
        for (n, timestamps) in [(100usize, true), (257, false), (1000, true), (5003, true)] {
            let outputs = 9;
            let mut rig = Rig::new(outputs, outputs);
            let ruled = Ruled::new(&mut rig, n);
            let mut running = rig.start(&cpu);
            let mut reference = Reference::new(&rig.program, &Weightless, rig.layout);
            let rules = rules(&mut noise, n, timestamps);
            let texts: Vec<RuleVars> = (0..outputs).map(|_| text(&mut noise, &rules, n)).collect();
            let begin = |mut vars: StepVars<'_>| {
                vars.begin(outputs, outputs);
                vars.rows_mut().fill(RowVars::default());
                (0..outputs).for_each(|o| vars.outputs_mut()[o] = o as u32);
                *vars.rules_mut() = rules;
                vars.texts_mut().copy_from_slice(&texts);
                for (o, draw) in vars.draws_mut().iter_mut().enumerate().skip(5) {
                    *draw = DrawVars { temperature: 0.8, top_p: 1.0, seed: [o as u32, 1], ..DrawVars::default() };
                }
            };
            begin(running.memory.step_vars());
            begin(reference.steps());
            for step in 0..6 {
                let name = format!("suppress {n}, step {step}");
                // Timestamps that are likelier together than any word in some rows, and less likely in others.
                let logits: Vec<f32> = (0..outputs * n)
                    .map(|i| {
                        let time = (i % n) as u32 >= rules.first_timestamp;
                        let raised = if time { (i / n + step) as f32 - 7.0 } else { 0.0 };
                        raised + 2.0 * noise.value() + if i % n == rules.end as usize { 3.0 } else { 0.0 }
                    })
                    .collect();
                ruled.give(&mut running, &logits, n);
                reference.input_mut().copy_from_slice(&logits);
                running.run(&mut cpu);
                reference.run();
                for o in 0..outputs {
                    let want = &reference.buffer(ruled.logits)[o * n..][..n];
                    let row = running.row(ruled.logits, o);
                    failures.check(&name, &cpu, row == want, &format!("output {o} has other logits"));
                    let largest = |slice: &[f32]| slice.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let maxima: Vec<f32> = want.chunks(MAXIMA_SLICE).map(largest).collect();
                    failures.check(&name, &cpu, running.row(ruled.maxima, o) == maxima, "other maxima");
                    let total = reference.buffer(ruled.total)[o];
                    // Five thousand terms of 1e-6 in f32.
                    failures.compare(&name, &cpu, &running.row(ruled.total, o), &[total], |_| 2e-5);
                }
                let (got, want) = (running.memory.step_vars(), reference.steps());
                for (got, want) in got.texts().iter().zip(want.texts()) {
                    let near = (got.sum - want.sum).abs() < 2e-4 && (got.total - want.total).abs() < 2e-5;
                    let same = RuleVars { sum: got.sum, total: got.total, ..*want } == *got;
                    failures.check(&name, &cpu, near && same, &format!("{got:?}, want {want:?}"));
                }
                failures.check(&name, &cpu, got.header() == want.header(), "another header");
                failures.check(&name, &cpu, got.into_emitted() == want.into_emitted(), "other tokens");
            }
        }
    }
    failures.report();
}

#[test]
fn a_chain_stops_where_all_texts_have_ended() {
    let n = 300;
    for mut cpu in backends() {
        let mut rig = Rig::new(2, 2);
        let ruled = Ruled::new(&mut rig, n);
        let mut running = rig.start(&cpu);
        let rules = Rules { end: 200, first_timestamp: 240, timestamps: 0, ..rules(&mut Noise::new(3), n, true) };
        let mut logits = vec![0.0; 2 * n];
        logits[200] = 9.0;
        for (second, steps) in [(n + 210, 5), (n + 200, 1)] {
            logits[n..].fill(0.0);
            logits[second] = 9.0;
            ruled.give(&mut running, &logits, n);
            let mut vars = running.memory.step_vars();
            vars.begin(2, 2);
            vars.rows_mut().fill(RowVars::default());
            *vars.rules_mut() = rules.listing(&[], &[]);
            vars.texts_mut().fill(RuleVars::empty());
            cpu.replay(&running.ready, &mut running.memory, 5).expect("checked step variables");
            let vars = running.memory.step_vars();
            assert_eq!(vars.header().emitted_steps, steps);
            assert_eq!(vars.rows()[1].position, steps);
            assert_eq!(vars.into_emitted()[1], (second - n) as u32);
        }
    }
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
