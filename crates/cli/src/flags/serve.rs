//! `akunu serve`.

use std::ffi::OsString;
use std::net::IpAddr;

use clap::{Arg, ArgAction, Command, ValueHint, value_parser};

use super::shared::{flag, load_flags, option, path};
use super::values;
use crate::settings;

/// What the flags of serving stand under.
mod heading {
    pub const MODELS: &str = "Models";
    pub const WORK: &str = "Work";
    pub const ACCESS: &str = "Access";
    pub const LIMITS: &str = "Limits";
}

pub fn serve() -> Command {
    Command::new("serve")
        .about("Serve models over HTTP, and a page to talk to them")
        .long_about(
            "Serve models over HTTP: the APIs of OpenAI, Anthropic and Ollama, and a page to talk to at `/`.\n\n\
             The first model that can do what a request asks for does it where the request names none; where there is \
             only one, it does so whatever name the request gives. Models are loaded when they are first asked for, the \
             first at once. Ctrl-C or SIGTERM lets what runs finish; a second one does not.",
        )
        .arg(
            Arg::new("models")
                .value_name("MODEL")
                .num_args(0..)
                .value_parser(value_parser!(OsString))
                .value_hint(ValueHint::AnyPath)
                .help("Model files, model directories or short names; NAME=MODEL gives it a name of its own"),
        )
        .args(in_group(
            heading::MODELS,
            [
                path("models-dir", "Also serve the models of this folder").value_hint(ValueHint::DirPath).action(ArgAction::Append),
                option("alias", "ALIAS=NAME", "Another name for a model; may be given again").action(ArgAction::Append),
                option("think", "WHEN", "Whether models that can think do, where a request does not say: auto (as their templates have it), on or off")
                    .value_parser(["auto", "on", "off"])
                    .default_value("auto"),
                path("template", "A chat template to use instead of the model's own, where there is one MODEL"),
                option("models-memory", "BYTES", "Memory that all loaded models may have together [default: what is free]")
                    .value_parser(values::bytes),
            ],
        ))
        .args(in_group(
            heading::WORK,
            [
                option("sequences", "N", "Requests that a model computes at once; others wait")
                    .value_parser(values::streams)
                    .default_value("16"),
                option("cache", "N", "Positions of finished texts to remember, so that what goes on from them is not read again")
                    .value_parser(value_parser!(usize))
                    .default_value("16384"),
                flag("drop-hosted-tools", "Leave out tools that somebody else would have to run, such as a web search, instead of refusing the request"),
                option("drop-system-line", "TEXT", "Drop lines of system messages that begin so: those that change with every request make the cache useless; may be given again")
                    .action(ArgAction::Append),
                option("max-gap", "MS", "While prompts are read, let no answer wait longer for its next token, where the machine can")
                    .value_parser(value_parser!(u64))
                    .default_value("200"),
                count("queue", "Requests of a model that may wait and run; others are told to come again", "256"),
            ],
        ))
        .args(in_group(
            heading::ACCESS,
            [
                option("host", "ADDRESS", "The address to listen on").value_parser(value_parser!(IpAddr)).default_value("127.0.0.1"),
                option("port", "N", "The port to listen on; 0 takes one that is free")
                    .value_parser(value_parser!(u16))
                    .default_value("8080"),
                option("api-key", "KEY", "Answer only who sends this key; may be given again")
                    .action(ArgAction::Append),
                path("api-key-file", "A file of keys, one a line"),
                path("tls-cert", "Speak TLS with this certificate (PEM)").requires("tls-key"),
                path("tls-key", "The certificate's key (PEM)").requires("tls-cert"),
                option("allow-origin", "ORIGIN", "Let pages of this origin ask; `*`: all").action(ArgAction::Append),
                option("allow-host", "NAME", "A name that this server is reached by, besides addresses and localhost; `*`: any")
                    .action(ArgAction::Append),
            ],
        ))
        .args(in_group(
            heading::LIMITS,
            [
                option("rate", "N", "Requests a minute of one key or, without keys, one address [default: as many as come]")
                    .value_parser(value_parser!(u32).range(1..)),
                bytes("max-body", "The largest body of a request", "16M"),
                bytes("max-upload", "The largest body with a recording", "256M"),
                bytes("max-bodies", "The bodies of all requests together; others are told to come again", "512M"),
                count("max-messages", "The longest conversation, in messages", "10000"),
                count("max-answer", "The longest answer, in tokens", "32768"),
                count("max-choices", "Answers to one request", "16"),
                count("max-texts", "Texts to embed or rank in one request", "4096"),
                count("max-connections", "Connections at once", "1024"),
                bytes("keep-responses", "Responses that later requests may go on from, of all together", "256M"),
                seconds("keep-time", "How long these are kept", "86400"),
                seconds("head-time", "How long the head of a request may take to arrive", "10"),
                seconds("body-time", "How long a body may take to arrive", "60"),
                seconds("patience", "How long a request waits for its model to have room", "60"),
                seconds("drain", "How long what runs may take when the server is asked to end", "30"),
            ],
        ))
        .arg(path(settings::FILE, "A TOML file of these flags: `port = 8080`, `models = [\"a.gguf\"]`; AKUNU_SERVE_PORT and the like count more"))
        .arg(flag(settings::PRINT, "Print what counts in the end, as such a file, and do nothing else"))
        .arg(
            option("log", "LEVEL", "How much to log to standard error: off, error, warn, info or debug; never a prompt")
                .value_parser(["off", "error", "warn", "info", "debug"])
                .default_value("info"),
        )
        .arg(option("otel-endpoint", "URL", "Send traces to this OpenTelemetry collector, such as http://localhost:4318; needs a build with the feature `otel`"))
        .arg(flag("print-address", "Print only the address on standard output, for scripts"))
        .args(load_flags())
}

fn bytes(name: &'static str, help: &'static str, default: &'static str) -> Arg {
    option(name, "BYTES", help).value_parser(values::bytes).default_value(default)
}

fn count(name: &'static str, help: &'static str, default: &'static str) -> Arg {
    option(name, "N", help).value_parser(values::count).default_value(default)
}

fn seconds(name: &'static str, help: &'static str, default: &'static str) -> Arg {
    option(name, "SECONDS", help).value_parser(value_parser!(u64)).default_value(default)
}

fn in_group<const N: usize>(heading: &'static str, args: [Arg; N]) -> [Arg; N] {
    args.map(|arg| arg.help_heading(heading))
}
