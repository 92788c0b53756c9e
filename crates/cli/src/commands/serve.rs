//! `akunu serve`: models over HTTP.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use akunu::SchedulerOptions;
use akunu_server::{Catalog, Entry, Options, RequestLimits, Server, Source};
use anyhow::Result;
use clap::ArgMatches;

use crate::failure::{NextStep, failure};
use crate::{input, loading, settings, source, terminal};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    if matches.get_flag(settings::PRINT) {
        let tree = crate::flags::tree();
        let command = tree.find_subcommand("serve").map(|serve| settings::print(serve, matches));
        write!(terminal::out(), "{}", command.unwrap_or_default())?;
        return Ok(ExitCode::SUCCESS);
    }
    log(matches.get_one::<String>("log").map_or("info", String::as_str));
    let options = options(matches)?;
    let (host, port) = (options.host, options.port);
    let server = Server::bind(catalog(matches)?, options).map_err(|e| match e.kind() {
        // What was asked for besides a port: TLS, traces.
        ErrorKind::Other => failure(e.to_string(), "see `akunu serve --help`"),
        _ => failure(
            format!("{host}:{port} cannot be served: {e}"),
            "choose another --port or --host, or end who has it",
        ),
    })?;
    server.warm().map_err(|why| failure(why, "see `akunu inspect`"))?;
    let address = server.address()?;
    if matches.get_flag("print-address") {
        let mut out = terminal::out();
        writeln!(out, "http://{address}")?;
        out.flush()?;
    } else {
        writeln!(terminal::err(), "serving on http://{address}")?;
    }
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

/// From here on what goes on is written to standard error.
fn log(level: &str) {
    use tracing_subscriber::filter::LevelFilter;
    let level = level.parse().unwrap_or(LevelFilter::INFO);
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(ansi)
        .with_writer(std::io::stderr)
        .init();
}

fn options(matches: &ArgMatches) -> Result<Options> {
    let count = |name| matches.get_one::<usize>(name).copied().unwrap_or_default();
    let all = |name| matches.get_many::<String>(name).into_iter().flatten().cloned().collect::<Vec<_>>();
    let mut keys = all("api-key");
    if let Some(path) = matches.get_one::<PathBuf>("api-key-file") {
        keys.extend(
            input::file(path, loading::limits(matches))?
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .map(str::to_owned),
        );
    }
    Ok(Options {
        host: matches.get_one::<IpAddr>("host").copied().unwrap_or(IpAddr::from([127, 0, 0, 1])),
        port: matches.get_one("port").copied().unwrap_or_default(),
        load: loading::load_options(matches),
        scheduler: SchedulerOptions {
            sequences: count("sequences"),
            cache: count("cache"),
            max_gap: Duration::from_millis(matches.get_one("max-gap").copied().unwrap_or_default()),
            ..SchedulerOptions::default()
        },
        memory: matches.get_one("models-memory").copied(),
        keys,
        tls: matches.get_one::<PathBuf>("tls-cert").cloned().zip(matches.get_one("tls-key").cloned()),
        think: matches.get_one::<String>("think").filter(|think| *think != "auto").map(|think| think == "on"),
        origins: all("allow-origin"),
        hosts: all("allow-host"),
        drop_hosted_tools: matches.get_flag("drop-hosted-tools"),
        dropped_lines: all("drop-system-line"),
        otel: matches.get_one::<String>("otel-endpoint").cloned(),
        limits: limits(matches),
    })
}

/// Every bound is a flag, whose default is there.
fn limits(matches: &ArgMatches) -> RequestLimits {
    let count = |name| matches.get_one::<usize>(name).copied().unwrap_or_default();
    let number = |name| matches.get_one::<u64>(name).copied().unwrap_or_default();
    let bytes = |name| usize::try_from(number(name)).unwrap_or(usize::MAX);
    let seconds = |name| Duration::from_secs(number(name));
    RequestLimits {
        body: bytes("max-body"),
        upload: bytes("max-upload"),
        bodies: bytes("max-bodies"),
        messages: count("max-messages"),
        tokens: count("max-answer"),
        choices: count("max-choices"),
        texts: count("max-texts"),
        kept: bytes("keep-responses"),
        kept_time: seconds("keep-time"),
        rate: matches.get_one("rate").copied(),
        queue: count("queue"),
        connections: count("max-connections"),
        head: seconds("head-time"),
        body_time: seconds("body-time"),
        patience: seconds("patience"),
        drain: seconds("drain"),
    }
}

fn catalog(matches: &ArgMatches) -> Result<Catalog> {
    let mut entries: Vec<Entry> = Vec::new();
    for given in matches.get_many::<OsString>("models").into_iter().flatten() {
        entries.push(entry(given)?);
    }
    if let Some(path) = matches.get_one::<PathBuf>("template") {
        let [entry] = &mut entries[..] else {
            return Err(failure("--template is for one model", "give that MODEL"));
        };
        entry.template = Some(input::file(path, loading::limits(matches))?);
    }
    let mut catalog = Catalog::new(entries);
    for folder in matches.get_many::<PathBuf>("models-dir").into_iter().flatten() {
        catalog
            .add_folder(folder)
            .or_fail(|e| format!("{}: cannot be read: {e}", folder.display()), "give a folder of models")?;
    }
    if catalog.entries().is_empty() {
        catalog.add(Entry::embedded());
    }
    for alias in matches.get_many::<String>("alias").into_iter().flatten() {
        let added = alias.split_once('=').is_some_and(|(alias, name)| catalog.add_alias(alias, name));
        if !added {
            return Err(failure(format!("--alias {alias}: no model has that name"), "give ALIAS=NAME"));
        }
    }
    Ok(catalog)
}

/// A model as it was given: `NAME=MODEL`, or a model whose file names it.
fn entry(given: &OsString) -> Result<Entry> {
    let named = given.to_str().and_then(|text| text.split_once('='));
    let named = named.filter(|(name, _)| {
        !name.is_empty() && !name.contains('/') && source::Source::find(given).ok().flatten().is_none()
    });
    let (name, model) = match named {
        Some((name, model)) => (Some(name.to_owned()), OsString::from(model)),
        None => (None, given.clone()),
    };
    Ok(match source::Source::named(&model)? {
        source::Source::Embedded => {
            let mut embedded = Entry::embedded();
            embedded.name = name.unwrap_or(embedded.name);
            embedded
        }
        source::Source::Path(path) => {
            let short = std::path::Path::new(&model).file_name().unwrap_or(&model).to_string_lossy();
            let short = short.trim_end_matches(".gguf").trim_end_matches(".bin").to_owned();
            Entry::new(name.unwrap_or(short), Source::Path(path))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(flags: &[&str]) -> RequestLimits {
        let line = ["akunu", "serve"].iter().chain(flags);
        let matches = crate::flags::tree().try_get_matches_from(line).unwrap();
        limits(matches.subcommand_matches("serve").unwrap())
    }

    #[test]
    fn every_bound_has_a_flag_and_one_default() {
        assert_eq!(told(&[]), RequestLimits::default());
        let flags = [
            "max-body",
            "max-upload",
            "max-bodies",
            "max-messages",
            "max-answer",
            "max-choices",
            "max-texts",
            "keep-responses",
            "keep-time",
            "rate",
            "queue",
            "max-connections",
            "head-time",
            "body-time",
            "patience",
            "drain",
        ];
        let flags: Vec<String> = flags.iter().zip(1..).map(|(flag, n)| format!("--{flag}={n}")).collect();
        let seconds = Duration::from_secs;
        let expected = RequestLimits {
            body: 1,
            upload: 2,
            bodies: 3,
            messages: 4,
            tokens: 5,
            choices: 6,
            texts: 7,
            kept: 8,
            kept_time: seconds(9),
            rate: Some(10),
            queue: 11,
            connections: 12,
            head: seconds(13),
            body_time: seconds(14),
            patience: seconds(15),
            drain: seconds(16),
        };
        assert_eq!(told(&flags.iter().map(String::as_str).collect::<Vec<_>>()), expected);
    }
}
