//! `cargo xtask bench`: our speed and that of others, in rounds that alternate so that both meet the same machine.

mod decoding;
mod embed;
mod machine;
mod report;
mod revision;
mod speech;
mod start;

pub use decoding::decoding;
pub use embed::{EmbedPeers, embed};
pub use revision::{Revision, revision};
pub use speech::{SpeechPeers, speech, wav};
pub use start::start;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use akunu_convert::synth;
use akunu_hub::{CATALOG, Hub, Task};
use anyhow::{Context, bail};
use serde_json::{Value, json};

/// What to measure and with what.
#[derive(Clone, Debug)]
pub struct Peers {
    /// One build of the peer or several: in every round the faster counts.
    pub llama_bench: Vec<PathBuf>,
    /// Ours; built in release where it is not given.
    pub akunu: Option<PathBuf>,
    /// Paths, names of fetched models, or `synth:SHAPE:TYPE`.
    pub models: Vec<String>,
    pub rounds: usize,
    pub prompt: usize,
    pub tokens: usize,
    pub depth: usize,
    pub threads: usize,
    /// The level our kernels stay at, for a peer that is built so.
    pub level: Option<String>,
    /// Passed to llama-bench as they are.
    pub extra: Vec<String>,
}

impl Peers {
    pub fn new(llama_bench: Vec<PathBuf>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (akunu, models, level, extra) = (None, Vec::new(), None, Vec::new());
        Self { llama_bench, akunu, models, rounds: 5, prompt: 512, tokens: 128, depth: 0, threads, level, extra }
    }
}

/// Tokens a second of both engines, one pair of numbers a round.
#[derive(Default)]
pub(crate) struct Measured {
    pub name: String,
    pub prefill: Vec<(f64, f64)>,
    pub decode: Vec<(f64, f64)>,
    /// What our decoding reads, as a part of the memory bandwidth.
    pub memory: Vec<f64>,
}

pub fn peers(options: &Peers) -> anyhow::Result<bool> {
    let akunu = options.akunu.clone().map_or_else(build, Ok)?;
    let models = models(options)?;
    let mut results: Vec<Measured> =
        models.iter().map(|(name, _)| Measured { name: name.clone(), ..Measured::default() }).collect();
    let mut raw = Vec::new();
    for round in 0..options.rounds {
        for ((name, path), result) in models.iter().zip(&mut results) {
            eprintln!("round {} of {}: {name}", round + 1, options.rounds);
            let ours = ours(&akunu, path, options)?;
            let builds = options.llama_bench.iter();
            let theirs: Vec<Value> = builds.map(|build| theirs(build, path, options)).collect::<Result<_, _>>()?;
            let their_rate = |kind| theirs.iter().filter_map(|build| their_rate(build, kind)).reduce(f64::max);
            let rate = |kind: &str| ours[kind]["tokens_per_s"].as_f64();
            result.prefill.extend(rate("prefill").zip(their_rate("n_prompt")));
            result.decode.extend(rate("decode").zip(their_rate("n_gen")));
            let bytes = rate("decode").zip(ours["bytes_per_token"].as_f64()).map(|(rate, bytes)| rate * bytes);
            result.memory.extend(bytes.zip(ours["read_bandwidth"].as_f64()).map(|(read, memory)| read / memory));
            raw.push(json!({ "round": round, "model": name, "akunu": ours, "llama_bench": theirs }));
        }
    }
    report::write(options, &results, raw)?;
    Ok(true)
}

pub(crate) fn build() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["build", "--release", "--package", "akunu-cli", "--message-format", "json"];
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(crate::root()).stderr(Stdio::inherit());
    let out = command.output().context("cannot start cargo")?;
    let messages = String::from_utf8_lossy(&out.stdout);
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let binary = parsed.filter_map(|m| m["executable"].as_str().map(PathBuf::from)).next_back();
    binary.filter(|_| out.status.success()).context("cargo build failed")
}

/// Names and files; without names, every fetched model.
fn models(options: &Peers) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let hub = Hub::from_environment()?;
    if options.models.is_empty() {
        let generate = CATALOG.iter().filter(|k| k.task == Task::Generate);
        let fetched = generate.filter_map(|k| Some((k.name.to_owned(), hub.path(k.name).ok()?)));
        let fetched: Vec<_> = fetched.collect();
        if fetched.is_empty() {
            bail!("no model to measure: fetch some (cargo xtask models fetch) or name them with --models");
        }
        return Ok(fetched);
    }
    let mut found = Vec::new();
    for name in &options.models {
        let mut parts = name.split(':');
        let path = match (parts.next(), parts.next(), parts.next()) {
            (Some("synth"), Some(shape), Some(kind)) => synthesized(&hub, shape, kind)?,
            _ if Path::new(name).exists() => PathBuf::from(name),
            _ => hub.path(name)?,
        };
        let stem = Path::new(name).file_name().map_or(name.clone(), |n| n.to_string_lossy().into_owned());
        found.push((stem, path));
    }
    Ok(found)
}

fn synthesized(hub: &Hub, shape: &str, kind: &str) -> anyhow::Result<PathBuf> {
    let folder = hub.models().join("synth");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{shape}-{kind}.gguf"));
    if !path.exists() {
        eprintln!("writing {}", path.display());
        synth::write(shape, kind, &path, synth::Options::default(), &mut |_, _| {})?;
    }
    Ok(path)
}

fn ours(akunu: &Path, model: &Path, o: &Peers) -> anyhow::Result<Value> {
    let mut command = Command::new(akunu);
    command.arg("bench").arg(model).args(["--json", "--repeat", "1"]);
    for (flag, value) in [("--prompt", o.prompt), ("--gen", o.tokens), ("--depth", o.depth), ("--threads", o.threads)] {
        command.arg(flag).arg(value.to_string());
    }
    command.envs(o.level.as_ref().map(|level| ("AKUNU_CPU", level)));
    run(&mut command)
}

fn theirs(build: &Path, model: &Path, o: &Peers) -> anyhow::Result<Value> {
    let mut command = Command::new(build);
    command.arg("-m").arg(model).args(["-o", "json", "-r", "1"]);
    for (flag, value) in [("-p", o.prompt), ("-n", o.tokens), ("-d", o.depth), ("-t", o.threads)] {
        command.arg(flag).arg(value.to_string());
    }
    command.args(&o.extra);
    run(&mut command)
}

fn run(command: &mut Command) -> anyhow::Result<Value> {
    let name = command.get_program().display().to_string();
    let out = command.output().with_context(|| format!("cannot start {name}"))?;
    if !out.status.success() {
        bail!("{name} ended with {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    }
    serde_json::from_slice(&out.stdout).with_context(|| format!("what {name} printed is not JSON"))
}

/// The rate of the entry that measured only this kind of tokens.
fn their_rate(entries: &Value, kind: &str) -> Option<f64> {
    let other = if kind == "n_gen" { "n_prompt" } else { "n_gen" };
    let only = |e: &&Value| e[kind].as_u64().unwrap_or(0) > 0 && e[other].as_u64() == Some(0);
    entries.as_array()?.iter().find(only)?["avg_ts"].as_f64()
}
