//! `cargo xtask real`: real models against what another engine said of them, as far as two right engines agree.
//!
//! The references are llama.cpp's, with int8 activations, so that its text is one of several right ones. What must
//! agree are the tokens of the prompt, the first step's log-probabilities, and the first token where it is clear. One
//! model has a reference in f32, which must agree token for token.
//!
//! Int8 rounding is loud in small models: two builds of llama.cpp itself are up to 0.29 (SmolLM2) and 0.43 (Gemma 3
//! 270M) apart on single tokens, over the tolerance. So f32 activations are measured too, and a model is told as `in
//! noise` where the reference and our int8 are each within the tolerance of our f32 in the mean (root of squares), and
//! no log-probability of f32 is further from the reference than three times it.

use std::fs;
use std::path::Path;

use akunu::hub::Hub;
use akunu::text::Encode;
use akunu::{Activations, Engine, LoadOptions, argmax};
use anyhow::{Context, ensure};
use serde_json::Value;

/// A model, its reference, and how far log-probabilities may be apart.
struct Row {
    name: &'static str,
    reference: &'static str,
    tolerance: f64,
}

static ROWS: &[Row] = &[
    Row { name: "smollm2-135m", reference: "smollm2-135m-instruct-q4_1.json", tolerance: 0.15 },
    Row { name: "gemma3-270m", reference: "gemma3-270m-q4_k_m.json", tolerance: 0.15 },
    // Two bits a weight: rounding of activations weighs more.
    Row { name: "tinyllama-1.1b", reference: "tinyllama-1.1b-chat-iq2_xxs.json", tolerance: 0.3 },
    Row { name: "qwen2.5-coder-1.5b", reference: "qwen2.5-coder-1.5b-q4_k_m.json", tolerance: 0.15 },
];

/// The model with a reference in f32.
const EXACT: &str = "smollm2-135m";
const EXACT_REFERENCE: &str = "smollm2-f32-and-int8.json";

/// Log-probabilities below this are not compared: their token is one of very many.
const LIKELY: f64 = -6.0;
/// How many tolerances away a single log-probability of f32 may be where the mean is within one.
const NOISE: f64 = 3.0;
/// How much better the best token must be than the second to be the same everywhere.
const CLEAR: f64 = 0.3;

pub fn run(names: &[&str]) -> anyhow::Result<bool> {
    let folder = crate::root().join("../shared/fixtures/real");
    if !folder.exists() {
        println!("skipped: there are no references beside the repository (shared/fixtures/real)");
        return Ok(true);
    }
    let hub = Hub::from_environment()?;
    let mut agree = true;
    println!(
        "{:<20} {:<11} {:>7} {:>9} {:>13} {:>6} {:>11} {:>15}  result",
        "model", "activations", "prompts", "tokenizer", "worst logprob", "noise", "first token", "same greedy ids"
    );
    for row in ROWS.iter().filter(|r| names.is_empty() || names.contains(&r.name)) {
        let Ok(path) = hub.path(row.name) else {
            println!("{:<20} skipped: not fetched (cargo xtask models fetch {})", row.name, row.name);
            continue;
        };
        let reference = read(&folder.join(row.reference))?;
        let in_f32 = compare(row, &path, &reference, Activations::F32, None)?;
        agree &= in_f32.right;
        agree &= compare(row, &path, &reference, Activations::Int8, Some(&in_f32))?.right;
        if row.name == EXACT {
            agree &= exact(&path, &read(&folder.join(EXACT_REFERENCE))?)?;
        }
    }
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

/// Whether a model agrees with its reference, and the log-probabilities that were compared.
struct Compared {
    right: bool,
    logprobs: Vec<f64>,
}

/// `exact` is what f32 activations gave, for others to be measured against.
fn compare(
    row: &Row,
    path: &Path,
    reference: &Value,
    activations: Activations,
    exact: Option<&Compared>,
) -> anyhow::Result<Compared> {
    let mut engine = load(path, activations)?;
    let prompts = reference["prompts"].as_array().context("no prompts in the reference")?;
    let (mut tokenized, mut first_right, mut first_clear) = (0, 0, 0);
    let (mut same, mut of) = (0, 0);
    let (mut logprobs, mut expected_logprobs) = (Vec::new(), Vec::new());
    let mut worst: f64 = 0.0;
    let mut differing = Vec::new();
    for (index, prompt) in prompts.iter().enumerate() {
        let expected = ids(&prompt["prompt_tokens"]);
        let text = prompt["prompt"].as_str().context("a prompt without text")?;
        let found = engine.need_tokenizer()?.encode(text, Encode { add_special: true, parse_special: true });
        tokenized += usize::from(found == expected);

        let wanted = ids(&prompt["tokens"]);
        let (logits, greedy) = generate(&mut engine, &expected, wanted.len())?;
        let normalizer = log_sum_exp(&logits);
        let top: Vec<(usize, f64)> = prompt["first_step"].as_array().into_iter().flatten().filter_map(pair).collect();
        ensure!(top.len() >= 2, "a reference without its first step");
        for &(id, logprob) in top.iter().filter(|(_, logprob)| *logprob > LIKELY) {
            let ours = f64::from(logits.get(id).copied().unwrap_or(f32::NEG_INFINITY)) - normalizer;
            worst = worst.max((ours - logprob).abs());
            logprobs.push(ours);
            expected_logprobs.push(logprob);
            if (ours - logprob).abs() > row.tolerance {
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
    let noise = distance(&logprobs, exact.map_or(&expected_logprobs, |e| &e.logprobs));
    let certain = tokenized == count && first_right == first_clear;
    let in_noise = noise <= row.tolerance && exact.map_or(worst <= NOISE * row.tolerance, |e| e.right);
    let right = certain && (worst <= row.tolerance || in_noise);
    println!(
        "{:<20} {:<11} {count:>7} {:>9} {:>13} {:>6} {:>11} {:>15}  {}",
        row.name,
        format!("{activations:?}").to_lowercase(),
        format!("{tokenized}/{count}"),
        format!("{worst:.3}/{}", row.tolerance),
        format!("{noise:.3}"),
        format!("{first_right}/{first_clear}"),
        format!("{same}/{of}"),
        match right {
            true if worst <= row.tolerance => "agrees",
            true => "in noise",
            false => "DIFFERS",
        }
    );
    differing.truncate(if right { 0 } else { usize::MAX });
    differing.iter().for_each(|line| println!("{line}"));
    Ok(Compared { right, logprobs })
}

/// The root of the mean of squared differences.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let squares: f64 = a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum();
    (squares / a.len().max(1) as f64).sqrt()
}

/// The reference with all weights dequantized: every greedy id must be the same with f32 activations.
fn exact(path: &Path, reference: &Value) -> anyhow::Result<bool> {
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
        "{EXACT:<20} {:<11} {:>7} {:>9} {:>13} {:>6} {:>11} {:>15}  {verdict} (f32 reference, token for token)",
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
