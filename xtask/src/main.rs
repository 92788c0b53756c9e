//! `cargo xtask`: chores of the project.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use xtask::bench::{EmbedPeers, Peers, SpeechPeers, decoding, embed, peers, speech, start};
use xtask::{models, quality, real, schemas, tidy};

const HELP: &str = "usage: cargo xtask CHORE

  tidy                           check the house invariants (cargo test does too)
  models list                    the real models there are
  models fetch [NAME…]           fetch them, or some of them
  real [NAME…]                   compare fetched models with their references
  schemas --python PATH          judge what is generated under the JSON-Schema-Test-Suite's schemas
  convert-quality DIR [TYPE…]    compare our quantizers with those of the llama.cpp tools in DIR
  bench peers --llama-bench PATH measure against llama.cpp; of several builds the faster counts
      [--llama-bench PATH] [--akunu PATH] [--models A,synth:SHAPE:TYPE,…] [--rounds N] [--prompt N]
      [--gen N] [--depth N] [--threads N] [--level LEVEL] [-- ARGUMENTS OF llama-bench]
  bench start --llama-bench PATH measure the time to the first token, of whole processes
      [--llama-bench PATH] [--akunu PATH] [--models A,…] [--rounds N] [--threads N]
  bench decoding ROUNDS [NAME…]  measure guesses, grammars and draws against plain decoding
  bench embed --python PATH      measure embeddings against llama.cpp and onnxruntime
      [--akunu PATH] [--rounds N] [--threads N]
  bench whisper --whisper-cli PATH measure transcription against whisper.cpp
      [--akunu PATH] [--models A,B] [--rounds N] [--threads N]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => check(),
        ["models", "list"] => models::list(),
        ["models", "fetch", names @ ..] => models::fetch(names),
        ["real", names @ ..] => real::run(names),
        ["schemas", "--python", python] => schemas::run(Path::new(python)),
        ["convert-quality", tools, types @ ..] => quality::run(Path::new(tools), types),
        ["bench", "decoding", rounds, names @ ..] => {
            rounds.parse().context("a number of rounds is needed").and_then(|rounds| decoding(rounds, names))
        }
        ["bench", "embed", flags @ ..] => embed_options(flags).and_then(|o| embed(&o)),
        ["bench", "whisper", flags @ ..] => speech_options(flags).and_then(|o| speech(&o)),
        ["bench", "peers", flags @ ..] => options(flags).and_then(|o| peers(&o)),
        ["bench", "start", flags @ ..] => start_options(flags).and_then(|o| start(&o)),
        _ => {
            eprintln!("{HELP}");
            return ExitCode::FAILURE;
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> anyhow::Result<bool> {
    let findings = tidy::check(&xtask::root())?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        tidy::promises().for_each(|promise| println!("kept: {promise}"));
    }
    Ok(findings.is_empty())
}

fn embed_options(flags: &[&str]) -> anyhow::Result<EmbedPeers> {
    let mut options = EmbedPeers { python: PathBuf::new(), akunu: None, rounds: 5, threads: 2 };
    let (pairs, rest) = flags.as_chunks::<2>();
    for [flag, value] in pairs {
        let number = || value.parse::<usize>().with_context(|| format!("{flag} needs a number, not {value:?}"));
        match *flag {
            "--python" => options.python = value.into(),
            "--akunu" => options.akunu = Some(value.into()),
            "--rounds" => options.rounds = number()?.max(1),
            "--threads" => options.threads = number()?.max(1),
            _ => bail!("{flag} is not known\n{HELP}"),
        }
    }
    if !rest.is_empty() || options.python.as_os_str().is_empty() {
        bail!("--python is needed: a Python with the packages that xtask/peers/embed.py names");
    }
    Ok(options)
}

fn speech_options(flags: &[&str]) -> anyhow::Result<SpeechPeers> {
    let models = ["whisper-tiny", "whisper-base.en"].map(str::to_owned).to_vec();
    let mut options = SpeechPeers { whisper_cli: PathBuf::new(), akunu: None, models, rounds: 5, threads: 2 };
    let (pairs, rest) = flags.as_chunks::<2>();
    for [flag, value] in pairs {
        let number = || value.parse::<usize>().with_context(|| format!("{flag} needs a number, not {value:?}"));
        match *flag {
            "--whisper-cli" => options.whisper_cli = value.into(),
            "--akunu" => options.akunu = Some(value.into()),
            "--models" => options.models = value.split(',').map(str::to_owned).collect(),
            "--rounds" => options.rounds = number()?.max(1),
            "--threads" => options.threads = number()?.max(1),
            _ => bail!("{flag} is not known\n{HELP}"),
        }
    }
    if !rest.is_empty() || options.whisper_cli.as_os_str().is_empty() {
        bail!("--whisper-cli is needed: the path of whisper.cpp's whisper-cli");
    }
    Ok(options)
}

/// Those of `bench peers`, but for what a first token does not depend on.
fn start_options(flags: &[&str]) -> anyhow::Result<Peers> {
    match flags.iter().find(|flag| ["--prompt", "--gen", "--depth", "--level", "--"].contains(flag)) {
        Some(flag) => bail!("{flag} does not go with bench start\n{HELP}"),
        None => options(flags),
    }
}

fn options(flags: &[&str]) -> anyhow::Result<Peers> {
    let (ours, extra) = match flags.iter().position(|f| *f == "--") {
        Some(at) => (&flags[..at], &flags[at + 1..]),
        None => (flags, &[][..]),
    };
    let (pairs, rest) = ours.as_chunks::<2>();
    if let [flag] = rest {
        bail!("{flag} needs a value");
    }
    let mut options = Peers::new(Vec::new());
    options.extra = extra.iter().map(|s| s.to_string()).collect();
    for [flag, value] in pairs {
        let number = || value.parse::<usize>().with_context(|| format!("{flag} needs a number, not {value:?}"));
        match *flag {
            "--llama-bench" => options.llama_bench.push(value.into()),
            "--level" => options.level = Some(value.to_string()),
            "--akunu" => options.akunu = Some(value.into()),
            "--models" => options.models = value.split(',').map(str::to_owned).collect(),
            "--rounds" => options.rounds = number()?,
            "--prompt" => options.prompt = number()?,
            "--gen" => options.tokens = number()?,
            "--depth" => options.depth = number()?,
            "--threads" => options.threads = number()?,
            _ => bail!("{flag} is not known\n{HELP}"),
        }
    }
    if options.llama_bench.is_empty() {
        bail!("--llama-bench is needed: the path of llama.cpp's llama-bench");
    }
    Ok(options)
}
