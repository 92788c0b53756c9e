//! `cargo xtask real`: real models against what another engine said of them.
//!
//! The first reference is llama.cpp over weights dequantized to F32 (`fixtures/real_f32.json`, made by
//! `fixtures/scripts/real_f32.py`): with f32 activations the log-probabilities of the first step must be its own to
//! two hundredths, and every greedy token the same.
//!
//! Int8 activations are loud in small models: llama.cpp's own int8 paths are up to 0.58 away from its f32 on single
//! log-probabilities (`shared/fixtures/real`). Ours must be within the tolerance of f32, or no further from it than
//! those are.

mod embeddings;
mod speech;

use std::fs;
use std::path::Path;

use akunu::{Activations, Engine, LoadOptions, argmax};
use akunu_hub::Hub;
use akunu_text::Encode;
use anyhow::{Context, ensure};
use serde_json::Value;

/// A model, its reference, and how far log-probabilities of int8 activations may be from f32.
struct Row {
    name: &'static str,
    reference: &'static str,
    tolerance: f64,
}

static ROWS: &[Row] = &[
    Row { name: "smollm2-135m", reference: "smollm2-135m-instruct-q4_1", tolerance: 0.15 },
    Row { name: "gemma3-270m", reference: "gemma3-270m-q4_k_m", tolerance: 0.15 },
    // Two bits a weight: rounding of activations weighs more.
    Row { name: "tinyllama-1.1b", reference: "tinyllama-1.1b-chat-iq2_xxs", tolerance: 0.3 },
    Row { name: "qwen2.5-coder-1.5b", reference: "qwen2.5-coder-1.5b-q4_k_m", tolerance: 0.15 },
];

/// The model with a reference in f32.
const EXACT: &str = "smollm2-135m";
const EXACT_REFERENCE: &str = "smollm2-f32-and-int8.json";

/// Log-probabilities below this are not compared: their token is one of very many.
const LIKELY: f64 = -6.0;
/// How far log-probabilities of f32 activations may be from the reference in f32.
const EXACTNESS: f64 = 0.02;
/// How much better the best token must be than the second to be the same everywhere.
const CLEAR: f64 = 0.3;

pub fn run(names: &[&str]) -> anyhow::Result<bool> {
    let exact = read(&crate::root().join("fixtures/real_f32.json"))?;
    let shared = crate::root().join("../shared/fixtures/real");
    let hub = Hub::from_environment()?;
    let mut agree = true;
    println!(
        "{:<20} {:<11} {:>7} {:>9} {:>13} {:>15} {:>11} {:>15}  result",
        "model",
        "activations",
        "prompts",
        "tokenizer",
        "worst logprob",
        "llama.cpp int8",
        "first token",
        "same greedy ids"
    );
    for row in ROWS.iter().filter(|r| names.is_empty() || names.contains(&r.name)) {
        let Ok(path) = hub.path(row.name) else {
            println!("{:<20} skipped: not fetched (cargo xtask models fetch {})", row.name, row.name);
            continue;
        };
        let exact = &exact[row.reference];
        let theirs = match read(&shared.join(format!("{}.json", row.reference))) {
            Ok(int8) => Some(apart(exact, &int8)),
            Err(_) => None,
        };
        agree &= compare(row, &path, exact, Activations::F32, theirs)?;
        agree &= compare(row, &path, exact, Activations::Int8, theirs)?;
        if row.name == EXACT && shared.exists() {
            agree &= token_for_token(&path, &read(&shared.join(EXACT_REFERENCE))?)?;
        }
    }
    agree &= embeddings::run(&hub, &shared, names)?;
    agree &= speech::run(&hub, names)?;
    Ok(agree)
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

fn load(path: &Path, activations: Activations) -> anyhow::Result<Engine> {
    Ok(Engine::load(path, LoadOptions { activations, context: Some(1024), ..LoadOptions::default() })?)
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().into_iter().flatten().filter_map(|v| v.as_u64()).map(|v| v as u32).collect()
}

/// The largest difference between two references' likely log-probabilities.
fn apart(exact: &Value, other: &Value) -> f64 {
    let prompts = |v: &Value| v["prompts"].as_array().cloned().unwrap_or_default();
    let mut worst: f64 = 0.0;
    for (exact, other) in prompts(exact).iter().zip(&prompts(other)) {
        let exact = first_step(exact);
        for (id, logprob) in first_step(other).into_iter().filter(|(_, logprob)| *logprob > LIKELY) {
            if let Some((_, of)) = exact.iter().find(|(e, _)| *e == id) {
                worst = worst.max((of - logprob).abs());
            }
        }
    }
    worst
}

fn first_step(prompt: &Value) -> Vec<(usize, f64)> {
    prompt["first_step"].as_array().into_iter().flatten().filter_map(pair).collect()
}

/// `theirs`: how far llama.cpp's int8 is from the reference.
fn compare(
    row: &Row,
    path: &Path,
    reference: &Value,
    activations: Activations,
    theirs: Option<f64>,
) -> anyhow::Result<bool> {
    let mut engine = load(path, activations)?;
    let prompts = reference["prompts"].as_array().context("no prompts in the reference")?;
    let limit = match activations {
        Activations::F32 => EXACTNESS,
        Activations::Int8 => row.tolerance.max(theirs.unwrap_or(0.0)),
    };
    let (mut tokenized, mut first_right, mut first_clear) = (0, 0, 0);
    let (mut same, mut of) = (0, 0);
    let mut worst: f64 = 0.0;
    let mut differing = Vec::new();
    for (index, prompt) in prompts.iter().enumerate() {
        let expected = ids(&prompt["prompt_tokens"]);
        let text = prompt["prompt"].as_str().context("a prompt without text")?;
        let found = engine.need_tokenizer()?.encode(text, Encode { add_special: true, parse_special: true })?;
        tokenized += usize::from(found == expected);

        let wanted = ids(&prompt["tokens"]);
        let (logits, greedy) = generate(&mut engine, &expected, wanted.len())?;
        let normalizer = log_sum_exp(&logits);
        let top = first_step(prompt);
        ensure!(top.len() >= 2, "a reference without its first step");
        for &(id, logprob) in top.iter().filter(|(_, logprob)| *logprob > LIKELY) {
            let ours = f64::from(logits.get(id).copied().unwrap_or(f32::NEG_INFINITY)) - normalizer;
            worst = worst.max((ours - logprob).abs());
            if (ours - logprob).abs() > limit {
                differing.push(format!("    prompt {index}: token {id} has {ours:.3}, the reference {logprob:.3}"));
            }
        }
        if top[0].1 - top[1].1 > CLEAR {
            first_clear += 1;
            first_right += usize::from(greedy.first() == Some(&(top[0].0 as u32)));
        }
        same += greedy.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
        of += wanted.len();
    }
    let count = prompts.len();
    let exact = activations == Activations::Int8 || same == of;
    let right = tokenized == count && first_right == first_clear && worst <= limit && exact;
    println!(
        "{:<20} {:<11} {count:>7} {:>9} {:>13} {:>15} {:>11} {:>15}  {}",
        row.name,
        format!("{activations:?}").to_lowercase(),
        format!("{tokenized}/{count}"),
        format!("{worst:.3}/{limit:.2}"),
        theirs.map_or("-".to_owned(), |t| format!("{t:.3}")),
        format!("{first_right}/{first_clear}"),
        format!("{same}/{of}"),
        if right { "agrees" } else { "DIFFERS" }
    );
    differing.iter().for_each(|line| println!("{line}"));
    Ok(right)
}

/// The reference with all weights dequantized: every greedy id must be the same with f32 activations.
fn token_for_token(path: &Path, reference: &Value) -> anyhow::Result<bool> {
    let mut engine = load(path, Activations::F32)?;
    let reference = &reference["f32_dequantized_reference"];
    let runs: Vec<&Value> =
        ["raw", "chat"].iter().flat_map(|k| reference[k].as_array().into_iter().flatten()).collect();
    let (mut same, mut of) = (0, 0);
    let mut differing = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let wanted = ids(&run["tokens"]);
        // A run that ended at its limit was told to go on where the model would have stopped.
        let limited = run["stop_type"] == "limit";
        let prompt = ids(&run["prompt_tokens"]);
        let (equal, by) = follow(&mut engine, &prompt, &wanted, limited)?;
        if let Some(by) = by {
            differing.push(format!("    prompt {index}: token {equal} of {} is another, by {by:.4}", wanted.len()));
        }
        same += equal;
        of += wanted.len();
    }
    let right = same == of;
    let verdict = if right { "agrees" } else { "DIFFERS" };
    println!(
        "{EXACT:<20} {:<11} {:>7} {:>9} {:>13} {:>15} {:>11} {:>15}  {verdict} (shared f32 reference, with chats)",
        "f32",
        runs.len(),
        "-",
        "-",
        "-",
        "-",
        format!("{same}/{of}")
    );
    differing.iter().for_each(|line| println!("{line}"));
    Ok(right)
}

/// How many of the wanted tokens are our greedy choice, each after those before it, and how much better our choice
/// was where it was another. `go_on`: tokens that end an answer are no choice.
fn follow(engine: &mut Engine, prompt: &[u32], wanted: &[u32], go_on: bool) -> anyhow::Result<(usize, Option<f32>)> {
    let ends = if go_on { engine.need_tokenizer()?.end_of_generation().to_vec() } else { Vec::new() };
    let mut sequence = engine.sequence();
    let mut fed = prompt.to_vec();
    for (index, &token) in wanted.iter().enumerate() {
        let mut logits = engine.prefill(&mut sequence, &fed)?.to_vec();
        for &end in &ends {
            logits[end as usize] = f32::NEG_INFINITY;
        }
        let best = argmax(&logits);
        if best != token {
            return Ok((index, Some(logits[best as usize] - logits[token as usize])));
        }
        fed = vec![token];
    }
    Ok((wanted.len(), None))
}

/// The logits after the prompt, and `count` greedy tokens.
fn generate(engine: &mut Engine, prompt: &[u32], count: usize) -> anyhow::Result<(Vec<f32>, Vec<u32>)> {
    let mut sequence = engine.sequence();
    let logits = engine.prefill(&mut sequence, prompt)?.to_vec();
    let mut tokens = vec![argmax(&logits)];
    while tokens.len() < count {
        let last = tokens[tokens.len() - 1];
        let left = count - tokens.len();
        let more = engine.greedy(&mut sequence, last, left)?;
        ensure!(!more.is_empty(), "a greedy step gave nothing");
        tokens.extend_from_slice(more);
    }
    tokens.truncate(count);
    Ok((logits, tokens))
}

fn pair(value: &Value) -> Option<(usize, f64)> {
    Some((value.get(0)?.as_u64()? as usize, value.get(1)?.as_f64()?))
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    f64::from(max) + logits.iter().map(|&l| f64::from(l - max).exp()).sum::<f64>().ln()
}
