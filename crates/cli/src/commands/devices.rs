//! `akunu devices`: what this machine can run models on, and why not on the rest.

use std::io::Write;
use std::process::ExitCode;

use akunu::{Device, LoadOptions};
use anyhow::Result;
use clap::ArgMatches;
use serde_json::{Value, json};

use crate::table::Table;
use crate::{machine, terminal, units};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let mut out = terminal::out();
    if matches.get_flag("json") {
        let devices: Vec<Value> = Device::ALL.into_iter().map(to_json).collect::<Result<_>>()?;
        writeln!(out, "{}", json!({ "devices": devices }))?;
    } else {
        let mut table = Table::new(&["", ""]);
        for device in Device::ALL {
            describe(device, &mut |name, value| table.row([name.to_owned(), value]))?;
        }
        table.print(&mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn to_json(device: Device) -> Result<Value> {
    if let Some(why) = device.unavailable() {
        return Ok(json!({ "backend": device.to_string(), "unavailable": why }));
    }
    let info = match device.open(&LoadOptions::default()) {
        Ok(backend) => backend.info(),
        Err(error) => return Ok(json!({ "backend": device.to_string(), "unavailable": error.to_string() })),
    };
    let mut value = json!({
        "backend": info.backend,
        "name": info.device,
        "threads": info.threads,
        "level": info.level,
        "highest_level": info.best_level,
        "free_memory": info.free_memory,
    });
    if device == Device::Cpu {
        let cache = |(name, bytes): &(String, u64)| json!({ "name": name, "bytes": bytes });
        value["cores"] = json!(machine::physical_cores());
        value["features"] = json!(machine::features());
        value["caches"] = machine::caches().iter().map(cache).collect();
        value["memory"] = json!(machine::total_memory());
    }
    Ok(value)
}

fn describe(device: Device, line: &mut dyn FnMut(&str, String)) -> Result<()> {
    if let Some(why) = device.unavailable() {
        line(&device.to_string(), format!("not there: {why}"));
        return Ok(());
    }
    let info = match device.open(&LoadOptions::default()) {
        Ok(backend) => backend.info(),
        Err(error) => {
            line(&device.to_string(), format!("not there: {error}"));
            return Ok(());
        }
    };
    let name = if info.device.is_empty() { std::env::consts::ARCH.to_owned() } else { info.device };
    line(info.backend, name);
    if device != Device::Cpu {
        return Ok(());
    }
    let cores = machine::physical_cores().map_or(String::new(), |c| format!("{c} cores, "));
    line("  threads", format!("{cores}{} threads usable", info.threads));
    let forced = if info.level == info.best_level { "" } else { " (forced by AKUNU_CPU)" };
    line("  kernels", format!("{}{forced}", info.level));
    let features = machine::features();
    line("  features", if features.is_empty() { "-".to_owned() } else { features.join(" ") });
    let caches = machine::caches();
    if !caches.is_empty() {
        let caches: Vec<String> =
            caches.iter().map(|(name, bytes)| format!("{name} {}", units::bytes(*bytes))).collect();
        line("  caches", caches.join(", "));
    }
    line("  memory", machine::total_memory().map_or("-".to_owned(), units::bytes));
    Ok(())
}
