//! What is done to logits, by itself.

use super::*;
use akunu_metal_emulator::{Buffer, Geometry, dispatch};
use akunu_plan::DrawVars;
use akunu_plan::NO_TOKEN;
use akunu_plan::draw::{Candidate, order};

/// Runs a kernel over an input, an output, parameters and what else it writes.
fn run(
    kernel: &str,
    (threadgroups, threads): ([u32; 2], u32),
    input: &[u8],
    output: &mut [u8],
    params: &[u32],
    more: &mut [u8],
) {
    let [x, y] = threadgroups;
    let geometry = Geometry { threadgroups: [x, y, 1], threads: [threads, 1, 1], ..Geometry::default() };
    let params = Buffer::Constant(bytemuck::cast_slice(params));
    let mut buffers =
        [Buffer::Constant(input), Buffer::Constant(&[]), Buffer::Device(output), params, Buffer::Device(more)];
    dispatch(kernel, &geometry, &mut buffers).unwrap();
}

/// Usable values by likelihood.
fn sorted(row: &[f32]) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = row.iter().copied().zip(0..).filter(|c| c.0 > f32::NEG_INFINITY).collect();
    all.sort_unstable_by(order);
    all
}

fn logit(noise: &mut Noise) -> f32 {
    match noise.below(30) {
        0 => f32::NAN,
        1 => f32::NEG_INFINITY,
        _ => noise.below(700) as f32 / 64.0 - 5.0,
    }
}

#[test]
fn the_largest_of_a_row_is_found_by_any_number_of_threads() {
    let mut noise = Noise::new(30);
    for (n, threads) in [(1, 32), (77, 1024), (1000, 64), (5000, 1024)] {
        let rows = 2;
        let x: Vec<f32> = (0..rows * n).map(|_| logit(&mut noise)).collect();
        let mut got = vec![77u32; rows];
        let params = [n as u32, n as u32, 0, 0, 0, 0, 0, 0];
        run(
            "argmax",
            ([2, 1], threads),
            bytemuck::cast_slice(&x),
            bytemuck::cast_slice_mut(&mut got),
            &params,
            &mut [],
        );
        let first = |row: &[f32]| {
            let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter().position(|v| *v == most).unwrap_or(0) as u32
        };
        assert_eq!(got, x.chunks(n).map(first).collect::<Vec<_>>(), "{n}");
    }
}

#[test]
fn the_k_largest_come_in_order() {
    let mut noise = Noise::new(31);
    for (n, k, threads) in [(3, 5, 32), (500, 1, 64), (2000, 40, 256), (4001, 256, 1024)] {
        let x: Vec<f32> = (0..2 * n).map(|_| logit(&mut noise)).collect();
        let (mut tokens, mut values) = (vec![7u32; 2 * k], vec![f32::NAN; 2 * k]);
        let params = [n as u32, k as u32, n as u32, 0];
        let (out, more) = (bytemuck::cast_slice_mut(&mut tokens), bytemuck::cast_slice_mut(&mut values));
        run("topk", ([2, 1], threads), bytemuck::cast_slice(&x), out, &params, more);
        for (r, row) in x.chunks(n).enumerate() {
            let mut want = sorted(row);
            want.resize(k, (f32::NEG_INFINITY, NO_TOKEN));
            let got: Vec<Candidate> = (r * k..(r + 1) * k).map(|i| (values[i], tokens[i])).collect();
            assert_eq!(got, want, "{k} of {n}");
        }
    }
}

/// The first is the token that a draw from all takes; none comes twice.
#[test]
fn the_first_of_a_race_are_drawn_without_replacement() {
    let mut noise = Noise::new(32);
    let (n, k) = (600, 9);
    let x: Vec<f32> = (0..n).map(|_| logit(&mut noise)).collect();
    let peak = sorted(&x)[0].0;
    for index in 0..10 {
        let vars = DrawVars { temperature: 1.7, top_p: 1.0, seed: [4, 5], index, ..DrawVars::default() };
        let mut tokens = vec![7u32; k];
        let params = [n as u32, k as u32, n as u32, vars.temperature.to_bits(), 4, 5, index, 0];
        let out = bytemuck::cast_slice_mut(&mut tokens);
        run("gumbel_topk", ([1, 1], 256), bytemuck::cast_slice(&x), out, &params, &mut []);
        let arrival = |c: &Candidate| f64::from((c.0 - peak) / vars.temperature) + vars.draws().gumbel(c.1);
        let mut want = sorted(&x);
        want.sort_by(|a, b| arrival(b).total_cmp(&arrival(a)));
        assert_eq!(tokens, want[..k].iter().map(|c| c.1).collect::<Vec<_>>());
        assert_eq!(Some(tokens[0]), vars.draw(&x));
    }
}

#[test]
fn temperatures_penalties_and_grammars_change_logits() {
    let mut noise = Noise::new(33);
    let (n, rows) = (300, 2);
    let x = noise.values(rows * n);
    let grid = [(n as u32).div_ceil(256), rows as u32];

    let mut y = vec![f32::NAN; rows * n];
    let params = [n as u32, n as u32, 0.7f32.to_bits(), 0];
    let out = bytemuck::cast_slice_mut(&mut y);
    run("temperature", (grid, 256), bytemuck::cast_slice(&x), out, &params, &mut []);
    assert_eq!(y, x.iter().map(|v| v / 0.7).collect::<Vec<_>>());

    // Some twice, one of another vocabulary.
    let mut tokens: Vec<u32> = (0..300).map(|_| noise.below(200) as u32).collect();
    tokens[7] = 9999;
    let (mut y, mut want) = (x[..n].to_vec(), x[..n].to_vec());
    let params = [n as u32, tokens.len() as u32, 1.3f32.to_bits(), 0];
    let out = bytemuck::cast_slice_mut(&mut y);
    run("repetition_penalty", ([2, 1], 256), bytemuck::cast_slice(&tokens), out, &params, &mut []);
    for (token, logit) in (0..).zip(&mut want) {
        if tokens.contains(&token) {
            *logit = if *logit > 0.0 { *logit / 1.3 } else { *logit * 1.3 };
        }
    }
    assert_eq!(y, want);

    let words = n.div_ceil(32);
    let mask: Vec<u32> = (0..rows * words).map(|_| noise.bits() as u32).collect();
    let mut y = x.clone();
    let params = [n as u32, n as u32, words as u32, 0];
    let out = bytemuck::cast_slice_mut(&mut y);
    run("grammar_bitmask", (grid, 256), bytemuck::cast_slice(&mask), out, &params, &mut []);
    for (i, (got, x)) in y.iter().zip(&x).enumerate() {
        let allowed = mask[i / n * words + i % n / 32] >> (i % n % 32) & 1 == 1;
        assert_eq!(*got, if allowed { *x } else { f32::NEG_INFINITY }, "{i}");
    }
}
