//! Whole models against the oracles' logits: every family, format, level, thread count and chunking.

mod support;

use akunu::{Activations, DType, Engine, LoadOptions, Outputs, StepInput};
use akunu_testkit::{Golden, cosine, fixtures, golden, relative_error};
use std::path::Path;
use support::*;

/// Collects failures of a table, so that one run shows them all.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn check(&mut self, ok: bool, what: impl FnOnce() -> String) {
        if !ok {
            self.0.push(what());
        }
    }

    fn load(&mut self, path: &Path, options: LoadOptions) -> Option<Engine> {
        Engine::load(path, options).map_err(|e| self.0.push(format!("{}: {e}", name(path)))).ok()
    }
}

impl Drop for Failures {
    fn drop(&mut self) {
        assert!(self.0.is_empty() || std::thread::panicking(), "{} failures:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// The lowest cosine over positions; -1 where there is none.
fn worst_cosine(ours: &[f32], theirs: &[f32], vocab: usize) -> f64 {
    assert!(ours.len() == theirs.len() && !ours.is_empty(), "{} logits, the oracle has {}", ours.len(), theirs.len());
    let cosines = ours.chunks(vocab).zip(theirs.chunks(vocab)).map(|(a, b)| cosine(a, b));
    // `min` alone would take the other where one is NaN.
    cosines.map(|c| if c.is_nan() { -1.0 } else { c }).fold(1.0, f64::min)
}

/// The likeliest tokens, one step at a time, leaving out token 0: these models' end token, which
/// the oracle was told not to choose before it had 24.
fn greedy_without_end(engine: &mut Engine, prompt: &[u32], n: usize) -> Vec<u32> {
    let mut sequence = engine.sequence();
    let mut tokens = Vec::new();
    let mut next = prompt.to_vec();
    for _ in 0..n {
        let logits = engine.prefill(&mut sequence, &next).unwrap();
        next = vec![1 + akunu::argmax(&logits[1..])];
        tokens.extend(&next);
    }
    tokens
}

/// Tolerances: 1e-4 with an f32 KV cache, 2e-3 with f16, whose rounding is 5e-4 per value.
/// Where the oracle's module was cast as a whole, its constants are rounded; so are ours here.
#[test]
fn hf_models_give_the_oracles_logits_and_greedy_tokens() {
    let mut failures = Failures::default();
    for dir in fixtures::models("hf") {
        let golden = golden::load(&dir.join("golden.safetensors"));
        // Encoders and speech models have other goldens.
        if !golden.has("greedy.0") {
            continue;
        }
        agree(&mut failures, &dir, &golden, fixtures::was_cast(&dir));
    }
}

/// Logits at every level, thread count and chunking, with an exact cache also what follows.
fn agree(failures: &mut Failures, path: &Path, golden: &Golden, round_constants: bool) {
    for (context, cases) in contexts(path, golden) {
        for way in ways() {
            for (kv, tolerance) in [(DType::F32, 1e-4), (DType::F16, 2e-3)] {
                let options = LoadOptions { kv, context, round_constants, ..options(way, Activations::F32) };
                let Some(mut engine) = failures.load(path, options) else { continue };
                for &case in &cases {
                    let ours = logits(&mut engine, golden, case);
                    let error = relative_error(&ours, &golden.f32(&format!("logits.{case}")));
                    failures.check(error <= tolerance, || {
                        format!("{} case {case}, KV {kv}, {way:?}: relative error {error:.1e}", name(path))
                    });
                    if kv != DType::F32 {
                        continue;
                    }
                    let ours = greedy_without_end(&mut engine, &ids(golden, case), 24);
                    let theirs: Vec<u32> = golden.i32(&format!("greedy.{case}")).iter().map(|t| *t as u32).collect();
                    failures.check(ours == theirs, || {
                        format!("{} case {case}, {way:?}: greedy {ours:?}, not {theirs:?}", name(path))
                    });
                }
            }
        }
    }
}

/// Weights that no rounding separates from the oracle's: the file's numbers are held to what the directory's are.
#[test]
fn gguf_models_in_bf16_give_the_oracles_logits_and_greedy_tokens() {
    let mut failures = Failures::default();
    for path in fixtures::models("gguf") {
        let golden = golden::load(&path.with_extension("golden.safetensors"));
        if golden.has("greedy.0") && name(&path).ends_with("-BF16.gguf") {
            agree(&mut failures, &path, &golden, false);
        }
    }
}

/// Sequences of all lengths in one step, and in steps of one token each afterwards: the bits that each gets alone.
#[test]
fn a_batch_of_mixed_lengths_gives_each_what_it_gets_alone() {
    let mut failures = Failures::default();
    for dir in fixtures::models("hf") {
        let golden = golden::load(&dir.join("golden.safetensors"));
        if !golden.has("greedy.0") || fixtures::was_cast(&dir) {
            continue;
        }
        let options = LoadOptions { threads: Some(2), chunk: Some(512), sequences: 8, ..LoadOptions::default() };
        let Some(mut engine) = failures.load(&dir, options) else { continue };
        let prompts: Vec<Vec<u32>> = cases(&golden).into_iter().map(|case| ids(&golden, case)).collect();
        let follow = |case: usize| golden.i32(&format!("greedy.{case}")).iter().map(|t| *t as u32).collect::<Vec<_>>();
        // All of them, or one: the prompt, then three tokens.
        let mut run = |which: &[usize]| -> Vec<Vec<u32>> {
            let mut sequences: Vec<_> = which.iter().map(|_| engine.sequence()).collect();
            let mut bits = vec![Vec::new(); which.len()];
            for step in 0..4 {
                let next: Vec<Vec<u32>> = which
                    .iter()
                    .map(|&c| if step == 0 { prompts[c].clone() } else { vec![follow(c)[step - 1]] })
                    .collect();
                let mut parts: Vec<StepInput<'_>> = (sequences.iter_mut().zip(&next))
                    .map(|(sequence, tokens)| StepInput { sequence, tokens, outputs: Outputs::Last, prompt: step == 0 })
                    .collect();
                engine.step(&mut parts).unwrap();
                drop(parts);
                for (i, bits) in bits.iter_mut().enumerate() {
                    bits.extend(engine.logits_of(i).iter().map(|v| v.to_bits()));
                }
            }
            bits
        };
        let all: Vec<usize> = (0..prompts.len()).collect();
        let together = run(&all);
        for case in all {
            let alone = run(&[case]).swap_remove(0);
            failures.check(alone == together[case], || format!("{} case {case}: other bits in a batch", name(&dir)));
        }
    }
}

/// The oracle is HF in f32 over the dequantized weights. Int8 activations cost more on random
/// weights, which amplify rounding, than on trained ones.
#[test]
fn gguf_models_point_where_the_oracle_points() {
    let mut failures = Failures::default();
    for path in fixtures::models("gguf") {
        let golden = golden::load(&path.with_extension("golden.safetensors"));
        // Encoders have other goldens.
        if !golden.has("logits.0") {
            continue;
        }
        let trained = name(&path).starts_with("stories");
        for (context, cases) in contexts(&path, &golden) {
            for way in ways() {
                let int8_limit = if trained { 0.999 } else { 0.99 };
                for (activations, limit) in [(Activations::F32, 0.99999), (Activations::Int8, int8_limit)] {
                    let options = LoadOptions { context, ..options(way, activations) };
                    let Some(mut engine) = failures.load(&path, options) else { continue };
                    for &case in &cases {
                        let ours = logits(&mut engine, &golden, case);
                        let worst = worst_cosine(&ours, &golden.f32(&format!("logits.{case}")), engine.vocab());
                        failures.check(worst >= limit, || {
                            format!("{} case {case}, {activations:?}, {way:?}: cosine {worst:.6}", name(&path))
                        });
                    }
                }
            }
        }
    }
}

/// The oracle computes in f16.
#[test]
fn mlx_models_point_where_the_oracle_points() {
    let mut failures = Failures::default();
    for dir in fixtures::models("mlx") {
        let golden = golden::load(&dir.join("golden.safetensors"));
        for way in ways() {
            let Some(mut engine) = failures.load(&dir, options(way, Activations::F32)) else { continue };
            for case in cases(&golden) {
                let ours = logits(&mut engine, &golden, case);
                let worst = worst_cosine(&ours, &golden.f32(&format!("logits.{case}")), engine.vocab());
                failures.check(worst >= 0.9995, || format!("{} case {case}, {way:?}: cosine {worst:.6}", name(&dir)));
            }
        }
    }
}
