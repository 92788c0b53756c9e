//! `akunu bench`: prefill and decode speed, the median of several repetitions.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use akunu::{Engine, Error, Outputs, Sequence, StepInput};
use anyhow::Result;
use clap::ArgMatches;
use serde_json::{Value, json};

use super::op_times::op_times;
use super::streams;
use crate::program_table::{self, Entry};
use crate::source::Source;
use crate::{loading, machine, terminal, units};

/// What to measure.
struct Plan {
    prompt: usize,
    gen_: usize,
    depth: usize,
    repeat: usize,
}

/// One kind of work: its rate in every repetition.
struct Measured {
    tokens: usize,
    rates: Vec<f64>,
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let number = |name| matches.get_one::<usize>(name).copied().unwrap_or_default();
    if let Some(&streams) = matches.get_one::<usize>("streams") {
        return streams::run(matches, streams);
    }
    let plan = Plan { prompt: number("prompt"), gen_: number("gen"), depth: number("depth"), repeat: number("repeat") };
    let source = Source::of(matches)?;
    let mut options = loading::load_options(matches);
    options.context = Some(plan.depth.saturating_add(plan.prompt.max(plan.gen_)).max(1));
    // The tokens at --depth are computed once; every repetition forks them.
    options.sequences = 2;
    let mut engine = source.load(options)?;

    let base = depth(&mut engine, &plan)?;
    let prefill = measure(&plan, plan.prompt, || prefill(&mut engine, &base, plan.prompt))?;
    let decode = measure(&plan, plan.gen_, || decode(&mut engine, &base, plan.gen_))?;
    let prompt = plan.prompt.clamp(1, engine.chunk());
    let mut ops_of = |rows: usize, prompt: bool| {
        let tokens = ids(rows, engine.vocab());
        op_times(&mut engine, plan.repeat, (rows, plan.depth), |engine| {
            engine.time_ops(&mut [StepInput {
                sequence: &mut base.fork(),
                tokens: &tokens,
                outputs: Outputs::Last,
                prompt,
            }])
        })
    };
    let ops = match matches.get_one::<String>("ops").map(String::as_str) {
        Some("prefill") => Some(ops_of(prompt, true)?),
        Some(_) => Some(ops_of(1, false)?),
        None => None,
    };

    let memory = engine.read_bandwidth();

    let mut out = terminal::out();
    if matches.get_flag("json") {
        let mut value = to_json(matches, &source, &engine, &plan, &prefill, &decode, ops.as_ref());
        value["read_bandwidth"] = json!(memory);
        writeln!(out, "{value}")?;
    } else {
        print(&mut out, &source, &engine, &plan, &prefill, &decode, memory)?;
        if let Some((entries, times)) = &ops {
            writeln!(out)?;
            program_table::print(&mut out, entries, Some((times, memory)))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Pseudo-random ids of the vocabulary, the same in every run: a linear congruential generator.
fn ids(n: usize, vocab: usize) -> Vec<u32> {
    let mut state = 0x2545_f491_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % vocab.max(1) as u64) as u32
    };
    (0..n).map(|_| next()).collect()
}

/// A sequence with `plan.depth` tokens in it.
fn depth(engine: &mut Engine, plan: &Plan) -> Result<Sequence, Error> {
    let mut sequence = engine.sequence();
    if plan.depth > 0 {
        let ids = ids(plan.depth, engine.vocab());
        engine.prefill(&mut sequence, &ids)?;
    }
    Ok(sequence)
}

/// Repeats `once`, which gives seconds, after one time that does not count.
fn measure(plan: &Plan, tokens: usize, mut once: impl FnMut() -> Result<f64, Error>) -> Result<Measured> {
    let mut rates = Vec::with_capacity(plan.repeat);
    if tokens > 0 {
        once()?;
        for _ in 0..plan.repeat {
            rates.push(tokens as f64 / once()?.max(1e-9));
        }
    }
    Ok(Measured { tokens, rates })
}

fn prefill(engine: &mut Engine, base: &Sequence, tokens: usize) -> Result<f64, Error> {
    let ids = ids(tokens, engine.vocab());
    let mut sequence = base.fork();
    let start = Instant::now();
    engine.prefill(&mut sequence, &ids)?;
    Ok(start.elapsed().as_secs_f64())
}

fn decode(engine: &mut Engine, base: &Sequence, tokens: usize) -> Result<f64, Error> {
    let mut sequence = base.fork();
    let mut token = ids(1, engine.vocab())[0];
    let mut left = tokens;
    let start = Instant::now();
    while left > 0 {
        let chain = engine.greedy(&mut sequence, token, left)?;
        left = left.saturating_sub(chain.len().max(1));
        token = chain.last().copied().unwrap_or(token);
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Bytes of weights and KV cache that one decoded token reads, in the middle of the measurement.
fn bytes_per_token(engine: &Engine, plan: &Plan) -> u64 {
    let program = engine.decode_program();
    program.ops.iter().map(|op| program.cost(op, 1, plan.depth + plan.gen_ / 2).bytes).sum()
}

fn print(
    out: &mut dyn Write,
    source: &Source,
    engine: &Engine,
    plan: &Plan,
    prefill: &Measured,
    decode: &Measured,
    memory: f64,
) -> Result<()> {
    let info = engine.backend().info();
    writeln!(out, "{}: {info}, {} threads, depth {}", source.name(), info.threads, plan.depth)?;
    for (name, measured) in [("prefill", prefill), ("decode", decode)] {
        if measured.rates.is_empty() {
            continue;
        }
        let median = units::median(&measured.rates);
        let low = measured.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let high = measured.rates.iter().copied().fold(0.0, f64::max);
        write!(out, "{name:<8} {:>6} tokens  {median:>9.1} tokens/s  ({low:.1} to {high:.1})", measured.tokens)?;
        if name == "decode" {
            let rate = median * bytes_per_token(engine, plan) as f64;
            write!(out, "  {}, {:.0} % of the memory bandwidth", units::rate(rate), 100.0 * rate / memory.max(1.0))?;
        }
        writeln!(out)?;
    }
    if let Some(peak) = machine::peak_memory() {
        writeln!(out, "peak memory {}", units::bytes(peak))?;
    }
    Ok(())
}

fn to_json(
    matches: &ArgMatches,
    source: &Source,
    engine: &Engine,
    plan: &Plan,
    prefill: &Measured,
    decode: &Measured,
    ops: Option<&(Vec<Entry>, Vec<f64>)>,
) -> Value {
    let measured = |m: &Measured| match m.rates.is_empty() {
        true => Value::Null,
        false => json!({ "tokens": m.tokens, "tokens_per_s": units::median(&m.rates), "repetitions": m.rates }),
    };
    let text = |name| matches.get_one::<String>(name);
    let info = engine.backend().info();
    let mut value = json!({
        "model": source.name(),
        "architecture": engine.model().descriptor.name,
        "backend": info.to_string(),
        "threads": info.threads,
        "kv": text("kv"),
        "activations": text("activations"),
        "depth": plan.depth,
        "repeat": plan.repeat,
        "prefill": measured(prefill),
        "decode": measured(decode),
        "bytes_per_token": bytes_per_token(engine, plan),
        "peak_memory": machine::peak_memory(),
    });
    if let Some((entries, times)) = ops {
        value["ops"] = program_table::to_json(entries, Some(times));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::ids;

    #[test]
    fn ids_are_in_the_vocabulary_and_always_the_same() {
        assert!(ids(1000, 37).iter().all(|&id| id < 37));
        assert_eq!(ids(64, 32000), ids(64, 32000));
        assert!(ids(1000, 37).iter().collect::<std::collections::HashSet<_>>().len() == 37);
    }
}
