//! `akunu devices`: what this machine can run models on.

use std::io::Write;
use std::process::ExitCode;

use akunu::cpu::Level;
use anyhow::Result;
use clap::ArgMatches;
use serde_json::json;

use crate::table::Table;
use crate::{machine, terminal, units};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let level = Level::from_environment().map_err(akunu::cpu::Error::from).map_err(akunu::Error::from)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let features = machine::features();
    let caches = machine::caches();
    let cache = |(name, bytes): &(String, u64)| json!({ "name": name, "bytes": bytes });
    let mut out = terminal::out();
    if matches.get_flag("json") {
        let value = json!({
            "devices": [{
                "backend": "cpu",
                "name": machine::cpu_name(),
                "cores": machine::physical_cores(),
                "threads": threads,
                "level": level.name(),
                "highest_level": Level::detect().name(),
                "features": features,
                "caches": caches.iter().map(cache).collect::<Vec<_>>(),
                "memory": machine::total_memory(),
            }],
        });
        writeln!(out, "{value}")?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["", ""]);
    let mut line = |name: &str, value: String| table.row([name.to_owned(), value]);
    line("cpu", machine::cpu_name().unwrap_or_else(|| std::env::consts::ARCH.to_owned()));
    let cores = machine::physical_cores().map_or(String::new(), |c| format!("{c} cores, "));
    line("  threads", format!("{cores}{threads} threads usable"));
    let forced = if level == Level::detect() { "" } else { " (forced by AKUNU_CPU)" };
    line("  kernels", format!("{level}{forced}"));
    line("  features", if features.is_empty() { "-".to_owned() } else { features.join(" ") });
    if !caches.is_empty() {
        let caches: Vec<String> =
            caches.iter().map(|(name, bytes)| format!("{name} {}", units::bytes(*bytes))).collect();
        line("  caches", caches.join(", "));
    }
    line("  memory", machine::total_memory().map_or("-".to_owned(), units::bytes));
    table.print(&mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
