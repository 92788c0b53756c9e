//! `cargo xtask`: chores of the project.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use xtask::bench::{EmbedPeers, Peers, Revision, SpeechPeers, decoding, embed, peers, revision, speech, start};
use xtask::{c_header, c_library, calibrate_metal, check_metal, clients, models, python, quality, real, schemas, tidy};

/// Every chore, with its flags.
fn tree() -> Command {
    let command = |name: &'static str, about: &'static str| Command::new(name).about(about);
    let names = |value: &'static str, help: &'static str| Arg::new("names").value_name(value).num_args(0..).help(help);
    Command::new("xtask")
        .bin_name("cargo xtask")
        .about("Chores of the project")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommands([
            command("tidy", "Check the house invariants (cargo test does too)"),
            command("models", "The real models there are").subcommand_required(true).subcommands([
                command("list", "List them"),
                command("fetch", "Fetch them, or some of them").arg(names("NAME", "Which [default: all]")),
            ]),
            command("real", "Compare fetched models with their references").arg(names("NAME", "Which [default: all]")),
            command("schemas", "Judge what is generated under the JSON-Schema-Test-Suite's schemas")
                .arg(path("python", "A Python with the package jsonschema").required(true)),
            command("clients", "Run the packages that people use, and llama.cpp's tests, against the server")
                .arg(path("akunu", "Our binary [default: build it]"))
                .arg(path("dir", "Where packages and reports go [default: the cache folder]"))
                .arg(path("llama-cpp", "A checkout of llama.cpp, for the tests of its server"))
                .arg(option("only", "A,B", "Suites whose names begin so; docs/clients.md stays").value_delimiter(',')),
            command("header", "Write the C headers with cbindgen"),
            command("check-metal", "Type-check what is for Apple's systems only, on any system"),
            command("calibrate-metal", "Run kernels of MLX on the Metal emulator")
                .arg(path("mlx", "The unpacked wheel mlx-metal [default: fetch it]"))
                .arg(path("python", "The interpreter that fetches it [default: python3]")),
            command("c-library", "Build the C library and install it")
                .arg(path("prefix", "Under which folder").required(true))
                .arg(option("profile", "NAME", "How it is built").default_value("release")),
            command("python", "Build the Python package's wheel, install it into a fresh environment and test it")
                .arg(path("python", "The interpreter [default: python3]"))
                .arg(path("dir", "Where packages and wheels go [default: target/python]"))
                .arg(Arg::new("release").long("release").help("Build as a release").action(ArgAction::SetTrue))
                .arg(Arg::new("tests").value_name("ARGUMENTS OF pytest").num_args(0..).last(true)),
            command("convert-quality", "Compare our quantizers with those of the llama.cpp tools in a folder")
                .arg(Arg::new("tools").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)))
                .arg(names("TYPE", "Which number formats [default: all]")),
            command("bench", "Measure against others").subcommand_required(true).subcommands([
                command("peers", "Measure against llama.cpp; of several builds the faster counts")
                    .args(peer_flags())
                    .arg(number("prompt", "512", "Tokens of the prompt"))
                    .arg(number("gen", "128", "Tokens to decode"))
                    .arg(number("depth", "0", "Tokens in the KV cache before"))
                    .arg(option("level", "LEVEL", "The level that our kernels stay at"))
                    .arg(Arg::new("extra").value_name("ARGUMENTS OF llama-bench").num_args(0..).last(true)),
                command("revision", "Measure against an earlier build of ours")
                    .arg(path("before", "The earlier binary").required(true))
                    .args(ours())
                    .arg(number("threads", "2", "Threads of both"))
                    .arg(
                        option("models", "A,synth:SHAPE:TYPE", "Which models [default: those that are fetched]")
                            .value_delimiter(','),
                    )
                    .arg(option("levels", "A,B", "Kernel levels [default: the machine's best]").value_delimiter(','))
                    .arg(number("prompt", "512", "Tokens of the prompt"))
                    .arg(number("gen", "128", "Tokens to decode")),
                command("start", "Measure the time to the first token, of whole processes").args(peer_flags()),
                command("decoding", "Measure speculative decoding, grammars and draws against plain decoding")
                    .arg(Arg::new("rounds").value_name("ROUNDS").required(true).value_parser(value_parser!(usize)))
                    .arg(names("NAME", "Which models [default: all]")),
                command("embed", "Measure embeddings against llama.cpp and onnxruntime")
                    .arg(path("python", "A Python with the packages that xtask/peers/embed.py names").required(true))
                    .args(ours())
                    .arg(number("threads", "2", "Threads of both")),
                command("whisper", "Measure transcription against whisper.cpp")
                    .arg(path("whisper-cli", "whisper.cpp's whisper-cli").required(true))
                    .arg(
                        option("models", "A,B", "Which models")
                            .value_delimiter(',')
                            .default_value("whisper-tiny,whisper-base.en"),
                    )
                    .args(ours())
                    .arg(number("threads", "2", "Threads of both")),
            ]),
        ])
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn path(name: &'static str, help: &'static str) -> Arg {
    option(name, "PATH", help).value_parser(value_parser!(PathBuf))
}

fn number(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    option(name, "N", help).value_parser(value_parser!(usize)).default_value(default)
}

/// Our side of every comparison.
fn ours() -> [Arg; 2] {
    [path("akunu", "Our binary [default: build it]"), number("rounds", "5", "Rounds, which alternate")]
}

fn peer_flags() -> Vec<Arg> {
    let mut flags = ours().to_vec();
    flags.push(option("threads", "N", "Threads of both [default: all]").value_parser(value_parser!(usize)));
    flags.push(path("llama-bench", "llama.cpp's llama-bench").required(true).action(ArgAction::Append));
    flags.push(
        option("models", "A,synth:SHAPE:TYPE", "Which models [default: those that are fetched]").value_delimiter(','),
    );
    flags
}

fn main() -> ExitCode {
    match run(&tree().get_matches()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(matches: &ArgMatches) -> anyhow::Result<bool> {
    let Some((chore, matches)) = matches.subcommand() else { return Ok(false) };
    let names: Vec<&str> = texts(matches, "names");
    match chore {
        "tidy" => check(),
        "models" => match matches.subcommand() {
            Some(("fetch", matches)) => models::fetch(&texts(matches, "names")),
            _ => models::list(),
        },
        "real" => real::run(&names),
        "schemas" => schemas::run(&file(matches, "python").unwrap_or_default()),
        "clients" => clients::run(&clients::Options {
            akunu: file(matches, "akunu"),
            dir: file(matches, "dir"),
            only: owned(matches, "only"),
            llama_cpp: file(matches, "llama-cpp"),
        }),
        "check-metal" => check_metal::run(&xtask::root()),
        "calibrate-metal" => calibrate_metal::run(
            &xtask::root(),
            &calibrate_metal::Options { mlx: file(matches, "mlx"), python: file(matches, "python") },
        ),
        "header" => c_header::write(&xtask::root()),
        "c-library" => {
            install_c_library(&texts(matches, "profile").concat(), &file(matches, "prefix").unwrap_or_default())
        }
        "python" => python::run(&python::Options {
            python: file(matches, "python"),
            dir: file(matches, "dir"),
            release: matches.get_flag("release"),
            tests: owned(matches, "tests"),
        }),
        "convert-quality" => quality::run(&file(matches, "tools").unwrap_or_default(), &names),
        _ => bench(matches),
    }
}

fn install_c_library(profile: &str, prefix: &Path) -> anyhow::Result<bool> {
    let root = xtask::root();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let build = ["build", "--package", "akunu-capi", "--profile", profile];
    let built = process::Command::new("cargo").args(build).current_dir(&root).status()?;
    anyhow::ensure!(built.success(), "the library could not be built");
    c_library::install(&root, &target.join(if profile == "dev" { "debug" } else { profile }), prefix)?;
    println!("{}", prefix.display());
    Ok(true)
}

fn bench(matches: &ArgMatches) -> anyhow::Result<bool> {
    let Some((what, matches)) = matches.subcommand() else { return Ok(false) };
    let at_least_one = |name| count(matches, name, 1).max(1);
    let (akunu, rounds, threads) = (file(matches, "akunu"), at_least_one("rounds"), at_least_one("threads"));
    match what {
        "decoding" => decoding(rounds, &texts(matches, "names")),
        "embed" => embed(&EmbedPeers { python: file(matches, "python").unwrap_or_default(), akunu, rounds, threads }),
        "whisper" => {
            let whisper_cli = file(matches, "whisper-cli").unwrap_or_default();
            speech(&SpeechPeers { whisper_cli, akunu, models: owned(matches, "models"), rounds, threads })
        }
        "revision" => revision(&Revision {
            before: file(matches, "before").unwrap_or_default(),
            levels: owned(matches, "levels"),
            ours: peers_of(matches),
        }),
        "start" => start(&peers_of(matches)),
        _ => peers(&peers_of(matches)),
    }
}

/// The flags of `bench peers`; `bench start` has those that a first token depends on.
fn peers_of(matches: &ArgMatches) -> Peers {
    let llama_bench =
        matches.try_get_many::<PathBuf>("llama-bench").ok().flatten().into_iter().flatten().cloned().collect();
    let defaults = Peers::new(llama_bench);
    Peers {
        akunu: file(matches, "akunu"),
        models: owned(matches, "models"),
        rounds: count(matches, "rounds", defaults.rounds),
        prompt: count(matches, "prompt", defaults.prompt),
        tokens: count(matches, "gen", defaults.tokens),
        depth: count(matches, "depth", defaults.depth),
        threads: count(matches, "threads", defaults.threads),
        level: matches.try_get_one::<String>("level").ok().flatten().cloned(),
        extra: owned(matches, "extra"),
        ..defaults
    }
}

/// A number, where the command has the flag and it was given or has a default.
fn count(matches: &ArgMatches, name: &str, default: usize) -> usize {
    matches.try_get_one::<usize>(name).ok().flatten().copied().unwrap_or(default)
}

fn file(matches: &ArgMatches, name: &str) -> Option<PathBuf> {
    matches.try_get_one::<PathBuf>(name).ok().flatten().cloned()
}

fn texts<'a>(matches: &'a ArgMatches, name: &str) -> Vec<&'a str> {
    matches.try_get_many::<String>(name).ok().flatten().into_iter().flatten().map(String::as_str).collect()
}

fn owned(matches: &ArgMatches, name: &str) -> Vec<String> {
    texts(matches, name).into_iter().map(str::to_owned).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<ArgMatches, clap::Error> {
        tree().try_get_matches_from(line.split(' '))
    }

    #[test]
    fn the_flag_table_is_sound() {
        tree().debug_assert();
    }

    #[test]
    fn peers_have_several_builds_models_and_arguments_of_their_own() {
        let line = "xtask bench peers --llama-bench a --llama-bench b --models x,synth:s:q4_0 --gen 7 -- -fa 1";
        let matches = parsed(line).unwrap();
        let matches = matches.subcommand().unwrap().1.subcommand().unwrap().1;
        let peers = peers_of(matches);
        assert_eq!(peers.llama_bench, ["a", "b"].map(PathBuf::from));
        assert_eq!(peers.models, ["x", "synth:s:q4_0"]);
        assert_eq!(peers.extra, ["-fa", "1"]);
        assert_eq!((peers.rounds, peers.prompt, peers.tokens, peers.depth), (5, 512, 7, 0));
    }

    #[test]
    fn what_a_chore_needs_is_asked_for_and_what_it_does_not_know_is_refused() {
        for line in ["xtask bench peers", "xtask bench embed", "xtask schemas", "xtask bench decoding x"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(parsed("xtask bench start --llama-bench a --prompt 1").is_err());
        assert!(parsed("xtask bench peers --llama-bench a --rounds many").is_err());
    }
}
