//! From nothing to the first token: whole processes, interleaved, with what they read in the page cache and with the cache emptied.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;

use super::report::{Spread, save};
use super::{Peers, build, machine, models};

/// That of a cache which is emptied before every process.
const EMPTIED: &str = "emptied";

pub fn start(options: &Peers) -> anyhow::Result<bool> {
    let akunu = options.akunu.clone().map_or_else(build, Ok)?;
    let models = models(options)?;
    let mut text = format!(
        "{} on {}, {} threads; milliseconds from the start of a process to its end after one token, as median (lowest–highest) of \
         {} interleaved rounds; the ratio is of each round.\n\n\
         | model | page cache | akunu | llama.cpp | ratio |\n|---|---|---|---|---|\n",
        machine::date(),
        machine::processor(),
        options.threads,
        options.rounds
    );
    let caches: &[&str] = match empty() {
        Ok(()) => &["full", EMPTIED],
        Err(why) => {
            eprintln!("skipped: an empty page cache ({why}), which only root can have");
            &["full"]
        }
    };
    let mut rounds = Vec::new();
    for (name, path) in &models {
        let ours = |cache: &str| seconds(cache, first_token_of_ours(&akunu, path, options));
        // Of several builds the faster counts.
        let theirs = |cache: &str| {
            let mut builds = options.llama_bench.iter();
            builds.try_fold(f64::INFINITY, |least, build| {
                Ok::<_, anyhow::Error>(least.min(seconds(cache, first_token_of_theirs(build, path, options))?))
            })
        };
        for cache in caches {
            // What comes first would else find nothing in the cache.
            ours(cache)?;
            theirs(cache)?;
            let mut times: Vec<(f64, f64)> = Vec::new();
            for round in 0..options.rounds {
                let pair = if round % 2 == 0 {
                    (ours(cache)?, theirs(cache)?)
                } else {
                    let theirs = theirs(cache)?;
                    (ours(cache)?, theirs)
                };
                rounds.push(
                    json!({ "round": round, "model": name, "cache": cache, "akunu": pair.0, "llama_bench": pair.1 }),
                );
                times.push(pair);
            }
            let a = Spread::of(times.iter().map(|(ours, _)| 1e3 * ours));
            let b = Spread::of(times.iter().map(|(_, theirs)| 1e3 * theirs));
            let ratio = Spread::of(times.iter().map(|(ours, theirs)| ours / theirs));
            if let (Some(a), Some(b), Some(ratio)) = (a, b, ratio) {
                text += &format!("| {name} | {cache} | {} | {} | {} |\n", a.rate(), b.rate(), ratio.ratio());
            }
        }
    }
    save(&format!("start-t{}", options.threads), &text, rounds)?;
    Ok(true)
}

fn first_token_of_ours(akunu: &Path, model: &Path, o: &Peers) -> Command {
    let mut command = Command::new(akunu);
    command.arg("run").arg(model).args(["Hello", "--max-tokens", "1", "--threads", &o.threads.to_string()]);
    command
}

fn first_token_of_theirs(build: &Path, model: &Path, o: &Peers) -> Command {
    let mut command = Command::new(build);
    command.arg("-m").arg(model).args(["-p", "0", "-n", "1", "-r", "1", "--no-warmup", "-t", &o.threads.to_string()]);
    command
}

/// How long a command takes, from its start to its end.
fn seconds(cache: &str, mut command: Command) -> anyhow::Result<f64> {
    if cache == EMPTIED {
        empty()?;
    }
    let name = command.get_program().display().to_string();
    let begun = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let taken = begun.elapsed().as_secs_f64();
    match status.with_context(|| format!("cannot start {name}"))? {
        status if status.success() => Ok(taken),
        status => bail!("{name} ended with {status}"),
    }
}

/// Empties the page cache.
fn empty() -> anyhow::Result<()> {
    Command::new("sync").status()?;
    Ok(std::fs::write("/proc/sys/vm/drop_caches", "1")?)
}
