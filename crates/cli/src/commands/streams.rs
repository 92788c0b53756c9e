//! `akunu bench --streams`: many generations at once, and what a long prompt does to them.

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use akunu::{Engine, Event, GenerateOptions, Outputs, Request, RequestId, Scheduler, SchedulerOptions, StepInput};
use anyhow::Result;
use clap::ArgMatches;
use serde_json::json;

use super::op_times::op_times;
use crate::program_table::{self, Entry};
use crate::source::Source;
use crate::{loading, terminal, units};

/// Tokens of a stream's own prompt.
const SHORT: usize = 16;

/// How often one stream is measured for every time that many are.
const ALONE: usize = 8;

/// What some streams at once gave.
#[derive(Default)]
struct Run {
    tokens: usize,
    seconds: f64,
    /// Between tokens of one stream: all, and those while the long prompt was read.
    gaps: Vec<f64>,
    gaps_while_reading: Vec<f64>,
}

impl Run {
    fn rate(&self) -> f64 {
        self.tokens as f64 / self.seconds.max(1e-9)
    }

    fn add(&mut self, other: Run) {
        self.tokens += other.tokens;
        self.seconds += other.seconds;
    }
}

/// One stream, many, and many while a long prompt is read, one after the other.
struct Round {
    alone: Run,
    many: Run,
    disturbed: Run,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.many.rate() / self.alone.rate()
    }

    /// The 99th percentile of the gaps while the prompt is read, by the median gap.
    fn stall(&self) -> f64 {
        quantile(&self.disturbed.gaps_while_reading, 0.99) / quantile(&self.disturbed.gaps, 0.5).max(1e-9)
    }
}

pub fn run(matches: &ArgMatches, streams: usize) -> Result<ExitCode> {
    let number = |name| matches.get_one::<usize>(name).copied().unwrap_or_default();
    let (prompt, tokens) = (number("prompt"), number("gen").max(2));
    let ops = matches.get_one::<String>("ops");
    let source = Source::of(matches)?;
    let mut options = loading::load_options(matches);
    let each = tokens.saturating_add(SHORT);
    let longest = prompt.saturating_add(1).max(each);
    options.context = Some(longest);
    options.sequences = streams.saturating_mul(each).div_ceil(longest) + 2;
    let mut engine = source.load(options)?;
    let vocab = engine.vocab();
    let ops = match ops {
        Some(step) => {
            // As many prompts as one step reads; or all texts, with half of their tokens.
            let (texts, tokens, prompt) = match step.as_str() {
                "prefill" => (streams.min((engine.chunk() / SHORT).max(1)), (0, SHORT), true),
                _ => (streams, (SHORT + tokens / 2, 1), false),
            };
            let ops = step_ops(&mut engine, texts, tokens, prompt, number("repeat"))?;
            Some((ops, engine.read_bandwidth()))
        }
        None => None,
    };
    let mut scheduler =
        Scheduler::new(engine, SchedulerOptions { sequences: streams + 1, cache: 0, ..SchedulerOptions::default() });
    // Pages are touched and kernels warm before anything counts.
    together(&mut scheduler, streams, tokens.min(8), 0, vocab)?;
    let repeat = number("repeat").max(1);
    let mut rounds = Vec::with_capacity(repeat);
    for _ in 0..repeat {
        // One stream is over soon: several times, so that it meets the same machine as many do.
        let mut alone = Run::default();
        for _ in 0..ALONE {
            alone.add(together(&mut scheduler, 1, tokens, 0, vocab)?);
        }
        let many = together(&mut scheduler, streams, tokens, 0, vocab)?;
        let disturbed = together(&mut scheduler, streams, tokens, prompt, vocab)?;
        rounds.push(Round { alone, many, disturbed });
    }
    let median = |of: &dyn Fn(&Round) -> f64| units::median(&rounds.iter().map(of).collect::<Vec<_>>());
    let gap = |of: &dyn Fn(&Round) -> &Vec<f64>, q: f64| median(&|r| quantile(of(r), q));
    let ratio = median(&Round::ratio);
    let stall = median(&Round::stall);
    let mut value = json!({
        "model": source.name(),
        "streams": streams,
        "tokens": tokens,
        "prompt": prompt,
        "repeat": repeat,
        "alone_tokens_per_s": median(&|r| r.alone.rate()),
        "tokens_per_s": median(&|r| r.many.rate()),
        "times_one": ratio,
        "times_one_by_round": rounds.iter().map(Round::ratio).collect::<Vec<_>>(),
        "gap_median_s": gap(&|r| &r.many.gaps, 0.5),
        "gap_p99_s": gap(&|r| &r.many.gaps, 0.99),
        "while_reading": {
            "gap_median_s": gap(&|r| &r.disturbed.gaps, 0.5),
            "gap_p99_s": gap(&|r| &r.disturbed.gaps_while_reading, 0.99),
            "gaps": rounds.iter().map(|r| r.disturbed.gaps_while_reading.len()).sum::<usize>(),
            "p99_by_median": stall,
            "p99_by_median_by_round": rounds.iter().map(Round::stall).collect::<Vec<_>>(),
        },
    });
    let mut out = terminal::out();
    if matches.get_flag("json") {
        if let Some(((entries, times), _)) = &ops {
            value["ops"] = program_table::to_json(entries, Some(times));
        }
        writeln!(out, "{value}")?;
    } else {
        let time = |key: &str| units::time(value[key].as_f64().unwrap_or(0.0));
        let reading = |key: &str| units::time(value["while_reading"][key].as_f64().unwrap_or(0.0));
        let rate = |key: &str| value[key].as_f64().unwrap_or(0.0);
        writeln!(out, "{}: {streams} streams of {tokens} tokens, median of {repeat}", source.name())?;
        writeln!(out, "alone     {:>9.1} tokens/s", rate("alone_tokens_per_s"))?;
        writeln!(out, "together  {:>9.1} tokens/s, {ratio:.2} times one", rate("tokens_per_s"))?;
        writeln!(out, "gaps      median {}, p99 {}", time("gap_median_s"), time("gap_p99_s"))?;
        if prompt > 0 {
            let (p99, median) = (reading("gap_p99_s"), reading("gap_median_s"));
            writeln!(out, "while a prompt of {prompt} is read: p99 {p99}, {stall:.2} times the median {median}")?;
        }
        if let Some(((entries, times), memory)) = &ops {
            writeln!(out)?;
            program_table::print(&mut out, entries, Some((times, *memory)))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The ops of a step that reads `len` tokens of each of some texts behind `depth` others: of prompts, or as if they were generated.
fn step_ops(
    engine: &mut Engine,
    texts: usize,
    (depth, len): (usize, usize),
    prompt: bool,
    repeat: usize,
) -> Result<(Vec<Entry>, Vec<f64>)> {
    let tokens: Vec<_> = (0..texts).map(|seed| prompt_of(seed, depth + len, engine.vocab())).collect();
    let mut texts = Vec::with_capacity(tokens.len());
    for tokens in &tokens {
        let (before, now) = tokens.split_at(depth);
        let mut text = engine.sequence();
        if !before.is_empty() {
            engine.prefill(&mut text, before)?;
        }
        texts.push((text, now));
    }
    op_times(engine, repeat, (texts.len() * len, depth), |engine| {
        let part = |(sequence, tokens)| StepInput { sequence, tokens, outputs: Outputs::Last, prompt };
        let texts_and_tokens = texts.iter_mut().map(|(text, now)| (text, *now));
        let times = engine.time_ops(&mut texts_and_tokens.map(part).collect::<Vec<_>>())?;
        texts.iter_mut().for_each(|(text, _)| text.truncate(depth).unwrap_or_default());
        Ok(times)
    })
}

/// The tokens of a prompt, another for every seed.
fn prompt_of(seed: usize, len: usize, vocab: usize) -> Vec<u32> {
    (0..len).map(|t| ((t * 7919 + seed * 104_729 + 13) % vocab) as u32).collect()
}

/// `streams` generations at once; when each has a quarter of its tokens, one more comes with a long prompt.
fn together(scheduler: &mut Scheduler, streams: usize, tokens: usize, prompt: usize, vocab: usize) -> Result<Run> {
    let request = |seed: usize, len: usize, max_tokens| Request {
        tokens: prompt_of(seed, len, vocab),
        options: GenerateOptions::new().max_tokens(max_tokens).ignore_eos(true),
    };
    let mut last: HashMap<RequestId, Instant> = HashMap::new();
    for i in 0..streams {
        scheduler.submit(request(i, SHORT, tokens))?;
    }
    let mut run = Run::default();
    let mut long: Option<RequestId> = None;
    let (mut reading, mut left) = (false, prompt > 0);
    let begun = Instant::now();
    loop {
        if left && run.tokens >= streams * tokens / 4 {
            long = Some(scheduler.submit(request(streams, prompt, 1))?);
            (reading, left) = (true, false);
        }
        let mut read = false;
        let more = scheduler.step(|id, event| {
            if Some(id) == long {
                read = true;
            } else if let Event::Piece(_) = event {
                let now = Instant::now();
                run.tokens += 1;
                if let Some(before) = last.insert(id, now) {
                    let gap = (now - before).as_secs_f64();
                    run.gaps.push(gap);
                    if reading {
                        run.gaps_while_reading.push(gap);
                    }
                }
            }
        });
        reading &= !read;
        if !more {
            break;
        }
    }
    run.seconds = begun.elapsed().as_secs_f64();
    Ok(run)
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * q) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}
