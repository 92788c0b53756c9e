//! Rules of transcribed texts.

use super::*;
use akunu_plan::DrawVars;
use akunu_plan::rules::{Chosen, MOST_LISTED, Rules, log_sum};

fn rules(noise: &mut Noise, n: usize, timestamps: bool) -> Rules {
    let first = n * 4 / 5;
    let rules = Rules {
        end: first as u32 - 9,
        first_timestamp: first as u32,
        timestamps: timestamps.into(),
        latest_start: n as u32 / 20,
        never: 0,
        not_first: 0,
        tokens: [0; MOST_LISTED],
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

fn begin(running: &mut Running<'_>, rules: Rules, texts: &[RuleVars]) {
    for mut vars in [running.loaded.steps(), running.reference.steps()] {
        let count = texts.len();
        vars.begin(count, count);
        (0..count).for_each(|o| vars.outputs_mut()[o] = o as u32);
        vars.rows_mut().fill(RowVars::default());
        *vars.rules_mut() = rules;
        vars.texts_mut().copy_from_slice(texts);
        for (o, draw) in vars.draws_mut().iter_mut().enumerate().skip(5) {
            *draw = DrawVars { temperature: 0.8, top_p: 1.0, seed: [o as u32, 1], ..DrawVars::default() };
        }
    }
}

#[test]
fn texts_go_on_by_their_rules_as_in_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(23);
    for (n, timestamps) in [(100usize, true), (257, false), (1000, true), (5003, true)] {
        let outputs = 9;
        let mut rig = Rig::new(outputs, outputs);
        let choice = Choice::new(&mut rig, n, true, true);
        let case = Case::new(rig);
        let mut running = case.start(&chip());
        let rules = rules(&mut noise, n, timestamps);
        let texts: Vec<RuleVars> = (0..outputs).map(|_| text(&mut noise, &rules, n)).collect();
        begin(&mut running, rules, &texts);
        for step in 0..3 {
            let name = format!("rules over {n}, step {step}");
            // Timestamps that are likelier together than any word in some rows, and less likely in others.
            let logits: Vec<f32> = (0..outputs * n)
                .map(|i| {
                    let time = (i % n) as u32 >= rules.first_timestamp;
                    let raised = if time { (i / n + step) as f32 - 7.0 } else { 0.0 };
                    raised + 2.0 * noise.value() + if i % n == rules.end as usize { 3.0 } else { 0.0 }
                })
                .collect();
            choice.give(&mut running, &logits);
            running.run();
            for (what, id) in [("logits", choice.logits), ("maxima", choice.maxima)] {
                let (got, want) = (running.got(id, outputs), running.want(id, outputs));
                failures.check(&name, got == want, &format!("other {what}"));
            }
            compare(&mut failures, &name, &mut running);
        }
    }
    failures.report();
}

/// As the rules themselves say; the reference executor has no sum of them.
#[test]
fn logits_that_are_no_numbers_count_for_nothing() {
    let mut noise = Noise::new(24);
    let n = 700;
    let rules = rules(&mut noise, n, true);
    let mut rig = Rig::new(1, 1);
    let choice = Choice::new(&mut rig, n, true, false);
    let case = Case::new(rig);
    let mut running = case.start(&chip());
    for time in [-9.0, 9.0] {
        let mut logits = noise.values(n);
        logits[rules.first_timestamp as usize..].iter_mut().for_each(|logit| *logit += time);
        logits.iter_mut().step_by(7).for_each(|logit| *logit = f32::NAN);
        let mut text = RuleVars::empty();
        [rules.first_timestamp, 5].iter().for_each(|&token| text.push(&rules, Chosen { token, ..Chosen::default() }));
        begin(&mut running, rules, &[text]);
        choice.give(&mut running, &logits);
        running.run();
        rules.apply(&text, &mut logits);
        let got = running.got(choice.logits, 1);
        assert!(got.iter().zip(&logits).all(|(a, b)| a == b || a.is_nan() && b.is_nan()), "{time}");
        let total = running.loaded.steps().texts()[0].total;
        assert!((total - log_sum(&logits)).abs() < 1e-4, "{time}: {total}");
    }
}

#[test]
fn rules_of_another_vocabulary_do_no_harm() {
    let mut failures = Failures::default();
    let n = 20;
    let own =
        Rules { end: 10, first_timestamp: 12, timestamps: 1, latest_start: 2, ..rules(&mut Noise::new(1), 100, true) };
    let own = own.listing(&[3, 11, 3], &[1, 10]);
    let huge = Rules { end: u32::MAX, first_timestamp: u32::MAX, ..own };
    let listed = Rules { never: u32::MAX, not_first: u32::MAX, latest_start: u32::MAX, ..own };
    let mut texts = vec![RuleVars::empty(); 4];
    for (text, sampled) in texts.iter_mut().zip([&[][..], &[u32::MAX], &[5, u32::MAX], &[u32::MAX, 5]]) {
        sampled.iter().for_each(|&token| text.push(&own, Chosen { token, ..Chosen::default() }));
    }
    for (nth, rules) in [own, huge, listed, Rules { first_timestamp: 0, ..own }].into_iter().enumerate() {
        let mut rig = Rig::new(4, 4);
        let choice = Choice::new(&mut rig, n, true, false);
        let case = Case::new(rig);
        let mut running = case.start(&chip());
        begin(&mut running, rules, &texts);
        choice.give(&mut running, &Noise::new(2).values(4 * n));
        running.run();
        let (got, want) = (running.got(choice.logits, 4), running.want(choice.logits, 4));
        failures.check(&format!("{nth}"), got == want, &format!("{got:?}, want {want:?}"));
        compare(&mut failures, &format!("{nth}"), &mut running);
    }
    failures.report();
}

/// A chain over the same logits, of which every step forbids some: across command buffers, and to where all texts end.
#[test]
fn a_chain_is_its_steps_and_stops_where_all_texts_have_ended() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(3);
    let (n, outputs) = (300, 2);
    let rules = Rules { end: 200, first_timestamp: 240, timestamps: 0, ..rules(&mut noise, n, true) };
    for (ends, steps) in [(false, 18), (true, 5)] {
        let mut rig = Rig::new(outputs, outputs);
        let choice = Choice::new(&mut rig, n, true, true);
        let case = Case::new(rig);
        let mut logits = noise.values(outputs * n);
        if ends {
            logits.iter_mut().skip(200).step_by(n).for_each(|logit| *logit = 9.0);
        }
        let mut ended = Vec::new();
        for chained in [false, true] {
            let mut running = case.start(&chip());
            begin(&mut running, rules.listing(&[], &[]), &vec![RuleVars::empty(); outputs]);
            choice.give(&mut running, &logits);
            match chained {
                true => chain(&mut running, steps),
                false => (0..steps).for_each(|_| running.run()),
            }
            compare(&mut failures, &format!("ends {ends}, chained {chained}"), &mut running);
            let vars = running.loaded.steps();
            let texts = bytemuck::cast_slice::<RuleVars, u32>(vars.texts()).to_vec();
            failures.check("a chain", (vars.header().ended == 1) == ends, "does not end where its texts do");
            ended.push((texts, vars.into_emitted().to_vec()));
        }
        failures.check("a chain", ended[0] == ended[1], "is not its steps, to the bit");
    }
    failures.report();
}
