//! `akunu models`: download models and manage those that are here.

use std::io::Write;
use std::process::ExitCode;

use akunu_hub::{self as hub, Hub, Sources};
use anyhow::Result;
use clap::ArgMatches;
use serde_json::json;

use crate::failure::{NextStep, one_line};
use crate::table::Table;
use crate::{terminal, units};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let hub = Hub::from_environment()?;
    match matches.subcommand() {
        Some(("fetch", matches)) => fetch(&hub, matches),
        Some(("remove", matches)) => remove(&hub, matches),
        Some(("path", matches)) => path(&hub, matches),
        Some((_, matches)) => list(&hub, matches),
        None => list(&hub, matches),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn name(matches: &ArgMatches) -> &str {
    matches.get_one::<String>("name").map_or("", String::as_str)
}

fn list(hub: &Hub, matches: &ArgMatches) -> Result<()> {
    let mut out = terminal::out();
    let listed = hub.list();
    if matches.get_flag("json") {
        let models = listed.iter().map(|m| {
            let path = m.path.as_ref().map(|p| p.display().to_string());
            json!({ "name": m.name, "about": m.about, "bytes": m.bytes, "path": path })
        });
        writeln!(
            out,
            "{}",
            json!({ "folder": hub.models().display().to_string(), "models": models.collect::<Vec<_>>() })
        )?;
        return Ok(out.flush()?);
    }
    let mut table = Table::new(&["name", ">bytes", "here", "about"]);
    for model in &listed {
        let here = if model.path.is_some() { "yes" } else { "" };
        let cells = [terminal::printable(&model.name).into_owned(), units::bytes(model.bytes), here.to_owned()];
        table.row(cells.into_iter().chain([model.about.clone()]));
    }
    table.print(&mut out)?;
    writeln!(out, "\n`akunu models fetch NAME` downloads into {}", hub.models().display())?;
    Ok(out.flush()?)
}

fn fetch(hub: &Hub, matches: &ArgMatches) -> Result<()> {
    let name = name(matches);
    let bar = terminal::byte_progress("downloading");
    let mut progress = |done: u64, total: Option<u64>| {
        bar.set_length(total.unwrap_or(done));
        bar.set_position(done);
    };
    let fetched = match name.starts_with("https://") || name.starts_with("http://") {
        true => hub.fetch_url(name, matches.get_one::<String>("sha256").map(String::as_str), &mut progress),
        false => hub.fetch(name, sources(matches), &mut progress),
    };
    bar.finish_and_clear();
    let fetched = match fetched {
        Err(error @ (hub::Error::Unreachable { .. } | hub::Error::Client { .. } | hub::Error::NoSource { .. })) => {
            Err(error).next_step("check the network; models that are here already work without it")
        }
        Err(error @ hub::Error::UnknownName { .. }) => Err(error).next_step("see `akunu models list`"),
        fetched => Ok(fetched?),
    }?;
    writeln!(terminal::err(), "{name}: {}", one_line(&fetched.origin.to_string()))?;
    let mut out = terminal::out();
    writeln!(out, "{}", fetched.path.display())?;
    Ok(out.flush()?)
}

/// `--from`.
fn sources(matches: &ArgMatches) -> Sources {
    match matches.get_one::<String>("from").map(String::as_str) {
        Some("hub") => Sources::Hub,
        Some("packages") => Sources::Packages,
        _ => Sources::All,
    }
}

fn remove(hub: &Hub, matches: &ArgMatches) -> Result<()> {
    let name = name(matches);
    let bytes = match hub.remove(name) {
        Err(error @ hub::Error::NotFetched { .. }) => {
            Err(error).or_fail(|_| format!("{name} is not here"), "`akunu models list` shows what is")
        }
        removed => Ok(removed?),
    }?;
    writeln!(terminal::err(), "removed {name}, {}", units::bytes(bytes))?;
    Ok(())
}

fn path(hub: &Hub, matches: &ArgMatches) -> Result<()> {
    let path = match matches.get_one::<String>("name") {
        Some(name) => hub.path(name)?,
        None => hub.models(),
    };
    let mut out = terminal::out();
    writeln!(out, "{}", path.display())?;
    Ok(out.flush()?)
}
