//! Draws against their definition.

use super::*;
use akunu_metal_emulator::{Buffer, Geometry, dispatch};
use akunu_plan::DrawVars;
use akunu_plan::steps::{StepLayout, StepVars};

/// Top-k, top-p, min-p.
const CUTS: &[(u32, f32, f32)] = &[
    (0, 1.0, 0.0),
    (0, 1.0, 0.05),
    (1, 1.0, 0.0),
    (40, 0.95, 0.05),
    (256, 0.5, 0.0),
    (7, 1.0, 0.3),
    (200, 0.999, 0.0),
    (5, 0.0, 0.0),
];

/// Chained and one by one, as the reference executor.
#[test]
fn what_is_drawn_is_what_its_definition_draws_and_the_next_draw_is_another() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(21);
    for n in [1usize, 5, 300, 1500] {
        let outputs = CUTS.len() + 1;
        let mut rig = Rig::new(outputs, outputs);
        let choice = Choice::new(&mut rig, n, false, true);
        let case = Case::new(rig);
        // Ties, numbers that are none, and one that leaves no chance to others.
        let mut logit = || match noise.below(400) {
            0 => f32::NAN,
            1 => f32::NEG_INFINITY,
            _ => noise.below(2000) as f32 / 128.0 + 1.0,
        };
        let mut values: Vec<f32> = (0..outputs * n).map(|_| logit()).collect();
        values[n - 1] = f32::INFINITY;
        let mut ends: Vec<Vec<u32>> = Vec::new();
        for chained in [false, true] {
            let mut running = case.start(&chip());
            choice.give(&mut running, &values);
            for mut vars in [running.loaded.steps(), running.reference.steps()] {
                for (o, (&(top_k, top_p, min_p), draw)) in CUTS.iter().zip(vars.draws_mut()).enumerate() {
                    let seed = [o as u32, 77];
                    *draw = DrawVars { temperature: 0.9, top_k, top_p, min_p, seed, index: 5, reserved: 0 };
                }
            }
            match chained {
                true => chain(&mut running, 2),
                false => (0..2).for_each(|_| running.run()),
            }
            compare(&mut failures, &format!("draws from {n}, chained {chained}"), &mut running);
            ends.push(running.loaded.steps().into_emitted().to_vec());
        }
        failures.check(&format!("draws from {n}"), ends[0] == ends[1], "a chain draws others");
    }
    failures.report();
}

/// The largest there are, by as many threads as there can be.
#[test]
fn a_token_of_a_large_vocabulary_is_drawn_and_found() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(9);
    let n = 262_144;
    let mut rig = Rig::new(3, 3);
    let choice = Choice::new(&mut rig, n, false, true);
    let case = Case::new(rig);
    let mut running = case.start(&chip());
    let mut values: Vec<f32> = (0..3 * n).map(|_| 9.0 * noise.value()).collect();
    (values[2 * n + 200_001], values[2 * n + 200_002]) = (9.5, 9.5);
    choice.give(&mut running, &values);
    for mut vars in [running.loaded.steps(), running.reference.steps()] {
        let draw = DrawVars { temperature: 0.8, top_p: 1.0, seed: [5, 6], ..DrawVars::default() };
        vars.draws_mut()[..2].copy_from_slice(&[draw, DrawVars { top_k: 256, ..draw }]);
    }
    running.run();
    compare(&mut failures, "a large vocabulary", &mut running);
    failures.check("a large vocabulary", running.loaded.steps().into_emitted()[2] == 200_001, "another token");
    failures.report();
}

/// Draws from one row with these variables, the index counted up from zero, by so many threads a draw.
fn draw(logits: &[f32], vars: DrawVars, draws: usize, threads: u32) -> Vec<u32> {
    let layout = StepLayout { max_rows: 1, max_outputs: draws, groups: 1, sequences: 1, table_blocks: 1, max_chain: 1 };
    let mut words = vec![0; layout.bytes() / 4];
    let mut steps = StepVars::new(&mut words);
    *steps.header_mut() = layout.header();
    steps.begin(1, draws);
    (0..).zip(steps.draws_mut()).for_each(|(index, draw)| *draw = DrawVars { index, ..vars });
    // All outputs have the same logits, and tokens one after the other.
    let params = [logits.len() as u32, 0, 0, 1, 0, 0, 0, 0];
    let mut tokens = vec![f32::NAN; draws];
    let geometry = Geometry {
        threadgroups: [draws as u32, 1, 1],
        threads: [threads, 1, 1],
        bounds_only: true,
        ..Geometry::default()
    };
    let mut buffers = [
        Buffer::Constant(bytemuck::cast_slice(logits)),
        Buffer::Constant(&[]),
        Buffer::Device(bytemuck::cast_slice_mut(&mut tokens)),
        Buffer::Constant(bytemuck::cast_slice(&params)),
        Buffer::Constant(bytemuck::cast_slice(&words)),
    ];
    dispatch("gumbel_sample", &geometry, &mut buffers).unwrap();
    tokens.into_iter().map(|token| token as u32).collect()
}

/// Where arrivals are nearer to each other than floats tell, another token may win: the kernel's header says how often.
#[test]
fn of_thousands_of_draws_hardly_one_is_not_its_definitions() {
    let mut noise = Noise::new(6);
    let logits: Vec<f32> = (0..150).map(|_| 3.0 * noise.value()).collect();
    for (vars, draws) in [
        (DrawVars { temperature: 0.8, top_p: 1.0, seed: [1, 2], ..DrawVars::default() }, 8000),
        (DrawVars { temperature: 1.3, top_p: 0.9, top_k: 20, seed: [3, 4], ..DrawVars::default() }, 3000),
    ] {
        let got = draw(&logits, vars, draws, 32);
        let want = (0..draws as u32).map(|index| DrawVars { index, ..vars }.draw(&logits).unwrap());
        let others = got.iter().zip(want).filter(|(got, want)| *got != want).count();
        assert!(others * 1000 <= draws, "{others} of {draws}");
    }
}

#[test]
fn tokens_are_drawn_by_probability() {
    let logits = [0.0f32, 1.0, -2.0, 3.0, f32::NAN, 0.5, f32::NEG_INFINITY, 2.0];
    let vars = DrawVars { temperature: 1.5, top_p: 1.0, seed: [9, 1], ..DrawVars::default() };
    let draws = 6000;
    let mut counts = [0f64; 8];
    draw(&logits, vars, draws, 32).into_iter().for_each(|token| counts[token as usize] += 1.0);
    let weight = |l: f32| if l.is_finite() { f64::from(l / 1.5).exp() } else { 0.0 };
    let total: f64 = logits.iter().map(|l| weight(*l)).sum();
    let expected = logits.map(|l| weight(l) / total * draws as f64);
    assert_eq!((counts[4], counts[6]), (0.0, 0.0));
    let chi: f64 = counts.iter().zip(expected).filter(|(_, e)| *e > 0.0).map(|(c, e)| (c - e).powi(2) / e).sum();
    // Five degrees of freedom: one in a hundred thousand is above 30.9.
    assert!(chi < 30.9, "{chi}: {counts:?}, want {expected:?}");
}

/// More values than are held, in every order: what one thread has, what is equal, what rises and falls.
#[test]
fn the_likeliest_are_found_in_any_row_by_any_number_of_threads() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(7);
    let n = 3000;
    let rows: [(&str, Vec<f32>); 5] = [
        ("noise", noise.values(n)),
        ("equal", vec![1.5; n]),
        ("rising", (0..n).map(|i| i as f32).collect()),
        ("of one thread", (0..n).map(|i| if i % 32 == 5 { i as f32 } else { -(i as f32) }).collect()),
        ("few", (0..n).map(|i| if i % 1000 == 7 { 0.5 } else { f32::NEG_INFINITY }).collect()),
    ];
    for (name, row) in &rows {
        for top_k in [1, 40, 256] {
            let vars = DrawVars { temperature: 2.0, top_k, top_p: 0.6, seed: [top_k, 3], ..DrawVars::default() };
            let want: Vec<u32> = (0..3).map(|index| DrawVars { index, ..vars }.draw(row).unwrap()).collect();
            for threads in [32, 96] {
                let got = draw(row, vars, 3, threads);
                failures.check(&format!("{name}, {top_k}, {threads}"), got == want, &format!("{got:?}, want {want:?}"));
            }
        }
    }
    failures.report();
}

/// Whole numbers of equal weight: sums are as large as what is asked for, and not a rounding more or less.
#[test]
fn what_top_p_keeps_is_exact() {
    let row = [2.0f32; 10];
    let mut failures = Failures::default();
    for tenths in 0..=10 {
        let top_p = tenths as f32 / 10.0;
        let vars = DrawVars { temperature: 1.0, top_k: 10, top_p, seed: [8, 0], ..DrawVars::default() };
        let want: Vec<u32> = (0..100).map(|index| DrawVars { index, ..vars }.draw(&row).unwrap()).collect();
        failures.check(&format!("{top_p}"), draw(&row, vars, 100, 32) == want, "others are drawn");
    }
    failures.report();
}
