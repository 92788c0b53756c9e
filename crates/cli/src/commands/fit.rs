//! `akunu inspect --fit`: what a model needs at which context, and whether this machine has it.

use std::io::Write;

use akunu::{DType, Engine, LoadOptions};
use akunu_formats::ModelFile;
use anyhow::Result;
use clap::ArgMatches;
use serde_json::{Value, json};

use crate::source::Source;
use crate::table::Table;
use crate::{loading, units};

const KV_TYPES: [DType; 2] = [DType::F16, DType::Q8_0];

/// Contexts from 1024 on, each twice the one before, up to the model's own.
fn contexts(model: usize) -> Vec<usize> {
    let mut contexts: Vec<usize> =
        std::iter::successors(Some(1024), |c| Some(c * 2)).take_while(|c| *c < model).collect();
    contexts.push(model);
    contexts
}

pub fn print(out: &mut dyn Write, matches: &ArgMatches, source: &Source, file: &ModelFile) -> Result<()> {
    let model = akunu_arch::Model::read(file).map_err(akunu::Error::from)?;
    let mut available = None;
    let mut rows: Vec<Value> = Vec::new();
    let mut table = Table::new(&[">context", "KV", ">weights", ">KV cache", ">scratch", ">total", "fits"]);
    let mut longest = Vec::new();
    for kv in KV_TYPES {
        let options = LoadOptions { kv, ..loading::load_options(matches) };
        // A head may not be whole blocks of a number format: then that one is left out.
        let Ok((footprint, free)) = Engine::footprint(file, &options) else { continue };
        available = free;
        for context in contexts(model.config.context) {
            let needs = footprint.needs(context);
            let fits = available.map(|free| needs.total() <= free);
            table.row([
                context.to_string(),
                kv.format().name.to_owned(),
                units::bytes(needs.weights),
                units::bytes(needs.kv),
                units::bytes(needs.scratch),
                units::bytes(needs.total()),
                fits.map_or("?", |fits| if fits { "yes" } else { "no" }).to_owned(),
            ]);
            rows.push(json!({
                "context": context,
                "kv": kv.format().name,
                "weights": needs.weights,
                "kv_cache": needs.kv,
                "scratch": needs.scratch,
                "total": needs.total(),
                "fits": fits,
            }));
        }
        if let Some(free) = available {
            longest.push((kv, footprint.longest(free, model.config.context)));
        }
    }
    if matches.get_flag("json") {
        let value = json!({ "model": source.name(), "available": available, "fit": rows });
        return Ok(writeln!(out, "{value}")?);
    }
    table.print(out)?;
    if let Some(free) = available {
        let longest: Vec<String> =
            longest.iter().map(|(kv, context)| format!("{context} positions with {}", kv.format().name)).collect();
        writeln!(out, "{} are free: {}", units::bytes(free), longest.join(", "))?;
    }
    Ok(())
}
