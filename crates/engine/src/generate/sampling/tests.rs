//! Every stage against its definition, written plainly in f64 over all tokens; draws against their probabilities.

use super::candidates::Candidates;
use super::*;

/// Logits of a shape that real ones have, and some that they never should.
fn logit_rows() -> Vec<Vec<f32>> {
    let mut rows = Vec::new();
    for (seed, spread) in [(1, 1.0f64), (2, 4.0), (3, 0.01), (4, 12.0)] {
        let row = |i: u32| ((Draws::new(seed, 0).gumbel(i) * spread) as f32 * 64.0).round() / 64.0;
        rows.push((0..300).map(row).collect());
    }
    rows.push(vec![0.0; 20]);
    rows.push(vec![5.0]);
    rows.push((0..50).map(|i| if i % 3 == 0 { f32::NEG_INFINITY } else { i as f32 / 8.0 }).collect());
    rows
}

/// (token, logit) of what is not impossible, likeliest first.
fn sorted(row: &[f32]) -> Vec<(u32, f64)> {
    let mut all: Vec<(u32, f64)> = (0..).zip(row.iter().map(|l| f64::from(*l))).filter(|c| c.1.is_finite()).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all
}

fn softmax(all: &[(u32, f64)]) -> Vec<f64> {
    let peak = all.iter().map(|c| c.1).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = all.iter().map(|c| (c.1 - peak).exp()).sum();
    all.iter().map(|c| (c.1 - peak).exp() / total).collect()
}

/// Tokens in order until their probabilities reach `p`.
fn until(order: &[(u32, f64)], p: f64) -> Vec<u32> {
    let mut sum = 0.0;
    let mut kept = Vec::new();
    for (token, probability) in order {
        kept.push(*token);
        sum += probability;
        if sum >= p {
            break;
        }
    }
    kept
}

fn kept(row: &[f32], stage: impl Fn(&mut Candidates)) -> Vec<u32> {
    let mut candidates = Candidates::default();
    candidates.fill(row, None);
    stage(&mut candidates);
    candidates.tokens()
}

fn ascending(mut tokens: Vec<u32>) -> Vec<u32> {
    tokens.sort_unstable();
    tokens
}

#[test]
fn top_k_keeps_the_likeliest() {
    for row in logit_rows() {
        for k in [1, 2, 7, 40, 299, 1000] {
            let plain = sorted(&row).iter().take(k).map(|c| c.0).collect();
            assert_eq!(kept(&row, |c| c.top_k(k)), ascending(plain), "{k}");
        }
    }
}

#[test]
fn top_p_keeps_the_fewest_that_reach_the_sum() {
    for row in logit_rows() {
        let all = sorted(&row);
        let order: Vec<(u32, f64)> = all.iter().map(|c| c.0).zip(softmax(&all)).collect();
        for p in [0.0, 0.1, 0.5, 0.9, 0.997] {
            // f32 probabilities may put the sum on either side of the bound.
            let (low, high) = (until(&order, p - 1e-5).len(), until(&order, p + 1e-5).len());
            let got = kept(&row, |c| c.top_p(p as f32));
            assert!((low..=high).contains(&got.len()), "{p}: {} not in {low}..={high}", got.len());
            let plain = order[..got.len()].iter().map(|c| c.0).collect();
            assert_eq!(got, ascending(plain));
        }
    }
}

#[test]
fn min_p_keeps_what_is_likely_enough() {
    for row in logit_rows() {
        let all = sorted(&row);
        let likely = softmax(&all);
        for p in [0.001, 0.05, 0.5, 1.0] {
            let plain = |p: f64| all.iter().zip(&likely).filter(|(_, q)| **q >= p * likely[0]).count();
            let got = kept(&row, |c| c.min_p(p as f32));
            assert!((plain(p * 1.00001)..=plain(p * 0.99999)).contains(&got.len()), "{p}");
            assert!(got.contains(&all[0].0));
        }
    }
}

#[test]
fn top_n_sigma_measures_from_the_largest_logit() {
    for row in logit_rows() {
        let all = sorted(&row);
        let n = all.len() as f64;
        let mean = all.iter().map(|c| c.1).sum::<f64>() / n;
        let sigma = (all.iter().map(|c| (c.1 - mean).powi(2)).sum::<f64>() / n).sqrt();
        for wide in [0.5, 1.0, 2.0] {
            let plain = |slack: f64| all.iter().filter(|c| c.1 >= all[0].1 - wide * sigma + slack).count();
            let got = kept(&row, |c| c.top_n_sigma(wide as f32)).len();
            assert!((plain(1e-5)..=plain(-1e-5)).contains(&got), "{wide}");
        }
    }
}

#[test]
fn typical_keeps_what_surprises_as_expected() {
    for row in logit_rows() {
        let all = sorted(&row);
        let likely = softmax(&all);
        let entropy: f64 = likely.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
        let mut order: Vec<(u32, f64)> = all.iter().map(|c| c.0).zip(likely).collect();
        order.sort_by(|a, b| (-a.1.ln() - entropy).abs().total_cmp(&(-b.1.ln() - entropy).abs()));
        for p in [0.2, 0.5, 0.9] {
            let got = kept(&row, |c| c.typical(p as f32));
            let mass: f64 = order.iter().filter(|c| got.contains(&c.0)).map(|c| c.1).sum();
            let distance = |c: &(u32, f64)| (-c.1.ln() - entropy).abs();
            let farthest = order.iter().filter(|c| got.contains(&c.0)).map(distance).fold(0.0, f64::max);
            assert!(mass >= p - 1e-4, "{p}: {mass}");
            // Nothing nearer is left out, and without the farthest the sum is not reached.
            assert!(order.iter().filter(|c| !got.contains(&c.0)).all(|c| distance(c) >= farthest - 1e-4));
            assert!(got.len() == 1 || until(&order, p - 1e-4).len() <= got.len());
            assert!(got.len() <= until(&order, p + 1e-4).len());
        }
    }
}

#[test]
fn xtc_leaves_the_least_likely_of_the_likely() {
    let strikes = (0..).map(|i| Draws::new(9, i)).find(|d| d.uniform(u32::MAX) < 0.5).unwrap();
    for row in logit_rows() {
        let all = sorted(&row);
        for threshold in [0.01, 0.1, 0.3] {
            let above = softmax(&all).iter().filter(|p| **p >= f64::from(threshold)).count();
            let plain = all[above.saturating_sub(1)..].iter().map(|c| c.0).collect();
            assert_eq!(kept(&row, |c| c.xtc(0.5, threshold, strikes)), ascending(plain));
            assert_eq!(kept(&row, |c| c.xtc(0.0, threshold, strikes)).len(), all.len());
            assert_eq!(kept(&row, |c| c.xtc(1.0, 0.6, strikes)).len(), all.len());
        }
    }
    let struck = (0..10_000).filter(|i| Draws::new(5, *i).uniform(u32::MAX) < 0.3).count();
    assert!((2_770..3_230).contains(&struck), "{struck}");
}

#[test]
fn dynamic_temperature_follows_the_entropy() {
    for row in logit_rows() {
        let all = sorted(&row);
        let entropy: f64 = softmax(&all).iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
        let share = if all.len() > 1 { entropy / (all.len() as f64).ln() } else { 0.0 };
        let temperature = 0.5 + 1.0 * share.powf(2.0);
        let mut candidates = Candidates::default();
        candidates.fill(&row, None);
        candidates.dynamic_temperature(0.5, 1.5, 2.0);
        for (got, token) in candidates.logits() {
            let plain = (f64::from(row[*token as usize]) - all[0].1) / temperature;
            assert!((f64::from(*got) - plain).abs() < 1e-3 * plain.abs().max(1.0), "{got} {plain}");
        }
    }
}

fn all() -> SamplingOptions {
    SamplingOptions { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..Default::default() }
}

fn counts(options: SamplingOptions, logits: &[f32], n: usize) -> Vec<usize> {
    let mut sampler = Sampler::new(options);
    let mut counts = vec![0; logits.len()];
    (0..n).for_each(|_| counts[sampler.sample(logits, &[]) as usize] += 1);
    counts
}

/// Chi-square of counts against probabilities stays within five standard deviations of its degrees of freedom.
fn follows(counts: &[usize], probabilities: &[f64]) {
    let n: usize = counts.iter().sum();
    let mut chi = 0.0;
    let mut cells = 0.0;
    for (count, p) in counts.iter().zip(probabilities) {
        if *p == 0.0 {
            assert_eq!(*count, 0);
            continue;
        }
        let expected = p * n as f64;
        chi += (*count as f64 - expected).powi(2) / expected;
        cells += 1.0;
    }
    let freedom: f64 = cells - 1.0;
    assert!(chi < freedom + 5.0 * (2.0 * freedom).sqrt() + 5.0, "{chi} with {freedom}");
}

#[test]
fn draws_follow_the_softmax_at_any_temperature() {
    let logits = [1.0f32, 2.0, 0.0, -1.0, 1.5, 0.25];
    for temperature in [0.3, 1.0, 3.0] {
        let cooled: Vec<(u32, f64)> = (0..).zip(logits.iter().map(|l| f64::from(*l / temperature))).collect();
        follows(&counts(SamplingOptions { temperature, ..all() }, &logits, 40_000), &softmax(&cooled));
    }
}

#[test]
fn draws_after_truncation_follow_what_is_left() {
    let logits = [1.0f32, 2.0, 0.0, -1.0, 1.5, 0.25];
    let left: Vec<(u32, f64)> = [(0, 1.0), (1, 2.0), (4, 1.5)].to_vec();
    let mut expected = vec![0.0; 6];
    left.iter().zip(softmax(&left)).for_each(|(c, p)| expected[c.0 as usize] = p);
    follows(&counts(SamplingOptions { top_k: 3, ..all() }, &logits, 40_000), &expected);
}

#[test]
fn the_order_of_the_chain_counts() {
    // Cooled first, the second token falls below min-p; truncated first, it stays.
    let logits = [2.0f32, 1.0];
    let cool = SamplingOptions { temperature: 0.2, min_p: 0.1, ..all() };
    let first = SamplingOptions { chain: vec![Stage::Temperature, Stage::MinP], ..cool.clone() };
    let last = SamplingOptions { chain: vec![Stage::MinP, Stage::Temperature], ..cool };
    assert_eq!(counts(first, &logits, 2000)[1], 0);
    assert!(counts(last, &logits, 5000)[1] > 0);
    // A stage that is not in the chain does not run.
    let without = SamplingOptions { chain: vec![Stage::Temperature], top_k: 1, ..all() };
    assert!(counts(without, &logits, 1000)[1] > 0);
}

#[test]
fn mirostat_keeps_the_surprise_near_its_target() {
    let logits: Vec<f32> = (0..2000).map(|i| -(i as f32 + 1.0).ln()).collect();
    let likely = softmax(&sorted(&logits));
    for tau in [2.0f32, 4.0, 6.0] {
        let options = SamplingOptions { mirostat: Some(Mirostat { tau, eta: 0.1 }), top_k: 1, ..all() };
        let mut sampler = Sampler::new(options);
        // Each step against the algorithm in f64; a candidate on the bound may fall on either side.
        let (mut sum, n) = (0.0, 4000);
        for _ in 0..n {
            let mu = f64::from(sampler.mu);
            let token = sampler.sample(&logits, &[]) as usize;
            let kept = likely.iter().filter(|p| -p.log2() <= mu).count().max(1);
            let bits = -(likely[token] / likely[..kept].iter().sum::<f64>()).log2();
            assert!(-likely[token].log2() <= mu + 1e-3 || token == 0, "{token} is too surprising for {mu}");
            let corrected = mu - 0.1 * (bits - f64::from(tau));
            assert!((f64::from(sampler.mu) - corrected).abs() < 0.02, "{} {corrected}", sampler.mu);
            sum += bits;
        }
        let mean = sum / f64::from(n);
        assert!((mean - f64::from(tau)).abs() < 0.1, "{tau}: {mean}");
    }
}

#[test]
fn a_draw_depends_on_its_index_alone_not_on_other_draws() {
    let rows: Vec<Vec<f32>> =
        (0..20).map(|i| (0..100).map(|t| ((t * 7 + i * 13) % 31) as f32 / 4.0).collect()).collect();
    let run = |seed| {
        let mut sampler = Sampler::new(SamplingOptions { seed, ..all() });
        rows.iter().map(|row| sampler.sample(row, &[])).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    // Other rows before it change nothing.
    let mut sampler = Sampler::new(SamplingOptions { seed: 1, ..all() });
    let first = sampler.sample(&[0.0; 100], &[]);
    assert!(first < 100);
    assert_eq!(sampler.sample(&rows[1], &[]), run(1)[1]);
}

#[test]
fn bias_and_penalties_move_the_greedy_choice() {
    let greedy = |options: SamplingOptions, history: &[u32]| Sampler::new(options).sample(&[1.0, 1.5, -1.0], history);
    let o = SamplingOptions::default;
    assert_eq!(greedy(o(), &[]), 1);
    assert_eq!(greedy(SamplingOptions { logit_bias: vec![(2, 5.0), (77, 1.0)], ..o() }, &[]), 2);
    assert_eq!(greedy(SamplingOptions { logit_bias: vec![(1, f32::NEG_INFINITY)], ..o() }, &[]), 0);
    assert_eq!(greedy(SamplingOptions { repeat_penalty: 2.0, ..o() }, &[1]), 0);
    assert_eq!(greedy(SamplingOptions { presence_penalty: 0.6, ..o() }, &[1]), 0);
    assert_eq!(greedy(SamplingOptions { frequency_penalty: 0.3, ..o() }, &[1]), 1);
    assert_eq!(greedy(SamplingOptions { frequency_penalty: 0.3, ..o() }, &[1, 1]), 0);
    let dry = Dry { multiplier: 1.0, allowed_length: 1, ..Dry::default() };
    assert_eq!(greedy(SamplingOptions { dry, ..o() }, &[2, 1, 2]), 0);
}

#[test]
fn only_what_is_allowed_is_chosen() {
    let logits: Vec<f32> = (0..70).map(|i| i as f32 / 10.0).collect();
    let allowed = [1 << 3 | 1 << 9, 0, 1 << 1];
    for options in [all(), SamplingOptions::default()] {
        let mut sampler = Sampler::new(options);
        for _ in 0..500 {
            assert!([3, 9, 65].contains(&sampler.sample_allowed(&logits, &[], Some(&allowed))));
        }
    }
    assert_eq!(Sampler::new(all()).sample_allowed(&[f32::NAN; 70], &[], Some(&allowed)), 3);
}

#[test]
fn broken_logits_still_give_a_token() {
    let nan = [f32::NAN; 4];
    assert_eq!(Sampler::new(all()).sample(&nan, &[]), 0);
    assert_eq!(argmax(&[f32::NAN, 1.0, f32::NAN]), 1);
    assert_eq!(Sampler::new(all()).sample(&[f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY], &[]), 1);
    assert_eq!(Sampler::new(all()).sample(&[0.0, f32::INFINITY, 3.0], &[]), 1);
    let every = SamplingOptions {
        typical_p: 0.0,
        top_n_sigma: f32::MIN_POSITIVE,
        xtc_probability: 1.0,
        xtc_threshold: 0.0,
        min_p: 1.0,
        top_p: 0.0,
        dynamic_temperature: 1.0,
        ..SamplingOptions::default()
    };
    for row in logit_rows() {
        assert!((Sampler::new(every.clone()).sample(&row, &[]) as usize) < row.len());
        let mirostat = SamplingOptions { mirostat: Some(Mirostat { tau: -1.0, eta: 1e9 }), ..all() };
        let mut sampler = Sampler::new(mirostat);
        (0..10).for_each(|_| assert!((sampler.sample(&row, &[]) as usize) < row.len()));
    }
}

/// What the backend draws by itself is what the chain would have drawn.
#[test]
fn the_backend_draws_what_the_host_draws() {
    let noise = Draws::new(11, 0);
    let row: Vec<f32> = (0..3000).map(|i| noise.gumbel(i) as f32 * 2.0).collect();
    let plain =
        SamplingOptions { temperature: 0.8, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 1 << 40, ..Default::default() };
    let options = [
        plain.clone(),
        SamplingOptions { temperature: 0.8, seed: 3, ..Default::default() },
        SamplingOptions { top_k: 256, top_p: 0.3, ..plain.clone() },
        SamplingOptions { min_p: 0.1, temperature: 3.0, ..plain.clone() },
        SamplingOptions { chain: vec![Stage::TopK, Stage::MinP], top_k: 9, min_p: 0.2, ..plain.clone() },
    ];
    for options in options {
        let draw = options.on_backend().unwrap();
        for index in 0..300 {
            let host = Sampler::new(options.clone()).starting_at(index).sample(&row, &[]);
            assert_eq!(DrawVars { index: index as u32, ..draw }.draw(&row), Some(host), "{options:?}");
        }
    }
    // What a grammar forbids is as if it were impossible.
    let words: Vec<u32> = (0..94).map(|i| 0x9249_2492u32.rotate_left(i)).collect();
    let masked: Vec<f32> =
        (0..3000).map(|i| if words[i / 32] >> (i % 32) & 1 == 1 { row[i] } else { f32::NEG_INFINITY }).collect();
    for options in [SamplingOptions::default(), SamplingOptions { temperature: 1.2, ..SamplingOptions::default() }] {
        for index in 0..300 {
            let sampler = || Sampler::new(options.clone()).starting_at(index);
            let got = sampler().sample_allowed(&row, &[], Some(&words));
            assert_eq!(got, sampler().sample(&masked, &[]), "{options:?}");
        }
    }
    let greedy = SamplingOptions::default();
    assert_eq!(greedy.on_backend(), Some(DrawVars::default()));
    let on_host = [
        SamplingOptions { top_p: 0.9, ..plain.clone() },
        SamplingOptions { top_k: 257, ..plain.clone() },
        SamplingOptions { repeat_penalty: 1.1, ..plain.clone() },
        SamplingOptions { top_n_sigma: 1.0, ..plain.clone() },
        SamplingOptions { logit_bias: vec![(1, 1.0)], ..greedy },
        SamplingOptions { chain: vec![Stage::Temperature, Stage::MinP], ..plain },
    ];
    on_host.iter().for_each(|o| assert_eq!(o.on_backend(), None, "{o:?}"));
}

#[test]
fn what_a_token_was_drawn_by_is_what_the_chain_left() {
    for row in logit_rows() {
        let all: Vec<(u32, f64)> = sorted(&row).into_iter().map(|(token, l)| (token, l / 0.5)).take(3).collect();
        let known: Vec<(u32, f64)> = all.iter().map(|c| c.0).zip(softmax(&all)).collect();
        let options = SamplingOptions { temperature: 0.5, top_k: 3, top_p: 1.0, min_p: 0.0, ..Default::default() };
        let mut sampler = Sampler::new(options.clone()).keeping();
        let token = sampler.sample(&row, &[]);
        assert_eq!(token, Sampler::new(options).sample(&row, &[]), "asking changes the draw");
        let got = sampler.sampled(token, 2);
        let top: Vec<u32> = got.top.iter().map(|t| t.0).collect();
        let likely: Vec<u32> = known.iter().take(2).filter(|k| k.1 as f32 > 0.0).map(|k| k.0).collect();
        assert_eq!(top, likely, "{row:?}");
        for (token, log) in got.top.into_iter().chain([(token, got.chosen)]) {
            let p = known.iter().find(|k| k.0 == token).unwrap().1;
            assert!((f64::from(log).exp() - p).abs() < 1e-5, "{token}: {log} of {p}");
        }
    }
    let mut greedy = Sampler::new(SamplingOptions::default()).keeping();
    let token = greedy.sample(&[0.5, 2.0, 1.0], &[]);
    assert_eq!((token, greedy.sampled(token, 5)), (1, LogProbs { chosen: 0.0, top: vec![(1, 0.0)] }));
}
