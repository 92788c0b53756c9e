//! Arguments that several commands share, so that they mean and say the same everywhere.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ValueHint, value_parser};

use super::values;

/// What arguments of several commands stand under: in `--help`, and once for all commands in the manual.
pub mod heading {
    pub const SAMPLING: &str = "Sampling";
    pub const STOPPING: &str = "Stopping";
    pub const STRUCTURE: &str = "Structured output";
    pub const CONTEXT: &str = "Long conversations";
    pub const SPECULATION: &str = "Speculative decoding";
    pub const LOADING: &str = "Loading";
    pub const LIMITS: &str = "Limits";
}

/// What few people change: `-h` leaves it out, `--help` and the manual do not.
pub fn rare(arg: Arg) -> Arg {
    arg.hide_short_help(true)
}

/// A switch.
pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// An option with a value.
pub fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// An option whose value is a file.
pub fn path(name: &'static str, help: &'static str) -> Arg {
    option(name, "FILE", help).value_parser(value_parser!(PathBuf)).value_hint(ValueHint::FilePath)
}

pub fn model() -> Arg {
    Arg::new("model")
        .value_name("MODEL")
        .value_parser(value_parser!(OsString))
        .value_hint(ValueHint::AnyPath)
        .help("A model file, a model directory, a short name, or `embedded`")
}

/// What a model runs on, and with how many threads.
pub fn device_flags() -> [Arg; 2] {
    [device(), threads()]
}

pub fn device() -> Arg {
    option("device", "DEVICE", "Where to run: auto, cpu, cuda, cuda:N, metal, or reference, which is slow and plain")
        .value_parser(|name: &str| name.parse::<akunu::Device>())
        .default_value("auto")
        .help_heading(heading::LOADING)
}

pub fn threads() -> Arg {
    option("threads", "N", "Threads to compute with [default: one per core]")
        .short('t')
        .value_parser(values::threads)
        .help_heading(heading::LOADING)
}

pub fn kv() -> Arg {
    option("kv", "TYPE", "Number format of the KV cache")
        .value_parser(PossibleValuesParser::new(["f32", "f16", "q8_0"]))
        .default_value("f16")
        .help_heading(heading::LOADING)
}

pub fn activations() -> Arg {
    option("activations", "TYPE", "Number format that quantized weights are multiplied with")
        .value_parser(PossibleValuesParser::new(["int8", "f32"]))
        .default_value("int8")
        .help_heading(heading::LOADING)
}

pub fn chunk() -> Arg {
    option("chunk", "N", "Tokens of a prompt to compute at once [default: as many as the device is fastest with]")
        .value_parser(values::chunk)
        .help_heading(heading::LOADING)
}

fn context() -> Arg {
    let most = akunu::DEFAULT_CONTEXT;
    option("context", "N", "")
        .help(format!("Positions the KV cache has room for [default: what the model was made for, up to {most}]"))
        .short('c')
        .value_parser(values::count)
        .help_heading(heading::LOADING)
}

fn memory() -> Arg {
    option("memory", "BYTES", "Refuse a model that needs more than this; 2G and 500M work too [default: what is free]")
        .value_parser(values::bytes)
        .help_heading(heading::LOADING)
}

pub fn mmap() -> Arg {
    flag("mmap", "Leave the weights in the file's mapping: starts sooner, shares memory, generates slower")
        .help_heading(heading::LOADING)
}

/// What untrusted input may cost; every command has it that reads some.
pub fn limit() -> Arg {
    let help = "Accept more or less of what files and texts may cost; NAME is a limit of `akunu --help`, and it may be repeated";
    rare(option("limit", "NAME=N", help).value_parser(values::limit).action(ArgAction::Append))
        .help_heading(heading::LIMITS)
}

/// The limits as a part of the help.
pub fn limits_help() -> String {
    let limits = akunu::Limits::default().list();
    let width = limits.iter().map(|limit| limit.name.len()).max().unwrap_or(0);
    limits.iter().map(|l| format!("  {:width$}  {} [default: {}]\n", l.name, l.help, l.value)).collect()
}

/// How a model is loaded.
pub fn load_flags() -> [Arg; 8] {
    [device(), threads(), context(), kv(), rare(activations()), rare(chunk()), rare(memory()), rare(mmap())]
}
