//! `akunu inspect`: what a model file holds. Nothing is loaded: only headers and norm vectors are read.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use akunu::{DType, Estimate, LoadOptions};
use akunu_arch::{Model, ModelConfig};
use akunu_formats::gguf::Value as GgufValue;
use akunu_formats::{Container, Metadata, ModelFile};
use akunu_plan::{Info, KV_BLOCK, Output, Program, build};
use akunu_text::{ChatTemplate, Tokenizer};
use anyhow::Result;
use clap::ArgMatches;
use serde_json::{Map, Value, json};

use super::fit;
use crate::source::Source;
use crate::table::Table;
use crate::{loading, program_table, terminal, units};

/// Longer values are cut; vocabularies and templates would drown the rest.
const SHOWN: usize = 80;

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let source = Source::of(matches)?;
    let file = source.open(loading::limits(matches))?;
    let model = Model::read(&file);
    let mut out = terminal::out();

    if matches.get_flag("fit") {
        fit::print(&mut out, matches, &source, &file)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    if matches.get_flag("program") {
        let model = model.map_err(akunu::Error::from)?;
        print_program(&mut out, matches, &file, &model)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    if matches.get_flag("json") {
        writeln!(out, "{}", to_json(matches, &source, &file, &model))?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    print_summary(&mut out, matches, &source, &file, &model)?;
    if matches.get_flag("metadata") {
        writeln!(out)?;
        print_metadata(&mut out, &file)?;
    }
    if matches.get_flag("tensors") {
        writeln!(out)?;
        print_tensors(&mut out, &file)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Tensors of one number format.
#[derive(Default)]
struct Tally {
    tensors: usize,
    values: u64,
    bytes: u64,
}

/// All tensors, by number format.
fn tallies(file: &ModelFile) -> BTreeMap<DType, Tally> {
    let mut tallies: BTreeMap<DType, Tally> = BTreeMap::new();
    for tensor in file.tensors() {
        let tally = tallies.entry(tensor.dtype).or_default();
        tally.tensors += 1;
        tally.values += tensor.elements() as u64;
        tally.bytes += (tensor.data.len + tensor.scales.len + tensor.biases.len) as u64;
    }
    tallies
}

fn parameters(file: &ModelFile) -> u64 {
    file.tensors().iter().map(|t| t.elements() as u64).sum()
}

fn file_bytes(file: &ModelFile) -> u64 {
    (0..file.files()).map(|i| file.bytes(i).len() as u64).sum()
}

fn container(file: &ModelFile) -> &'static str {
    match file.container() {
        Container::Gguf => "GGUF",
        Container::Ggml => "ggml",
        Container::Safetensors => "safetensors",
    }
}

/// A short fact of GGUF metadata, such as the model's name.
fn gguf_text<'a>(file: &'a ModelFile, key: &str) -> Option<&'a str> {
    match file.metadata() {
        Metadata::Gguf(m) => m.str(key).ok().flatten(),
        Metadata::Json(_) => None,
    }
}

/// KV cache bytes of one position, all layers at full length.
fn kv_bytes(config: &ModelConfig, kv: DType) -> Option<u64> {
    let head = kv.row_bytes(config.head_dim)? as u64;
    Some(2 * head * config.kv_heads as u64 * config.layers.len() as u64)
}

fn print_summary(
    out: &mut dyn Write,
    matches: &ArgMatches,
    source: &Source,
    file: &ModelFile,
    model: &Result<Model, akunu_arch::Error>,
) -> Result<()> {
    let mut facts = Table::new(&["", ""]);
    let mut fact = |name: &str, value: String| facts.row([name.to_owned(), value]);
    fact("model", source.name());
    let parts = if file.files() == 1 { String::new() } else { format!(" in {} files", file.files()) };
    fact("file", format!("{}, {}{parts}", container(file), units::bytes(file_bytes(file))));
    if let Some(name) = gguf_text(file, "general.name") {
        fact("name", shown(name));
    }
    fact("parameters", units::count(parameters(file)));
    match model {
        Ok(model) => {
            let c = &model.config;
            fact("architecture", model.descriptor.name.to_owned());
            fact("layers", c.layers.len().to_string());
            fact("width", format!("{}, feed-forward {}", c.dim, c.ffn));
            fact("heads", format!("{} of {} values, {} of keys and values", c.heads, c.head_dim, c.kv_heads));
            fact("vocabulary", c.vocab.to_string());
            fact("context", format!("{} positions", c.context));
            if !model.left_out.is_empty() {
                fact("not used", format!("{}: it runs as a model of text", model.left_out.join(", ")));
            }
            let windows: Vec<usize> = c.layers.iter().filter_map(|l| l.window).collect();
            if let Some(window) = windows.first() {
                fact("sliding window", format!("{window} positions in {} of {} layers", windows.len(), c.layers.len()));
            }
            let kv = loading::kv(matches);
            if let Some(bytes) = kv_bytes(c, kv) {
                let full = units::bytes(bytes * c.context as u64);
                fact("KV cache", format!("{} a position in {kv}, {full} for the whole context", units::bytes(bytes)));
            }
        }
        Err(error) => fact("cannot be run", crate::failure::one_line(&error.to_string())),
    }
    match Tokenizer::from_model_file(file) {
        Ok(tokenizer) => fact("tokenizer", format!("{} tokens", tokenizer.vocab_size())),
        Err(error) => fact("tokenizer", format!("none: {}", crate::failure::one_line(&error.to_string()))),
    }
    match ChatTemplate::from_model_file(file) {
        Ok(template) => fact("chat template", format!("{} characters", template.source().chars().count())),
        Err(akunu_text::Error::NoChatTemplate) => fact("chat template", "none".to_owned()),
        Err(error) => fact("chat template", crate::failure::one_line(&error.to_string())),
    }
    facts.print(out)?;
    let mut table = Table::new(&["format", ">tensors", ">values", ">bytes", ">bits a value"]);
    for (dtype, t) in tallies(file) {
        let bits = t.bytes as f64 * 8.0 / t.values.max(1) as f64;
        let cells = [dtype.to_string(), t.tensors.to_string(), units::count(t.values), units::bytes(t.bytes)];
        table.row(cells.into_iter().chain([format!("{bits:.2}")]));
    }
    if !table.is_empty() {
        writeln!(out)?;
        table.print(out)?;
    }
    Ok(())
}

fn print_metadata(out: &mut dyn Write, file: &ModelFile) -> Result<()> {
    let mut table = Table::new(&["key", "value"]);
    match file.metadata() {
        Metadata::Gguf(m) => {
            for (key, field) in m.fields() {
                let value = match field.value() {
                    GgufValue::String(text) => format!("{:?}", shown(text)),
                    GgufValue::Array(array) => format!("{} × {}", array.len(), array.kind().name()),
                    GgufValue::U64(v) => v.to_string(),
                    GgufValue::I64(v) => v.to_string(),
                    GgufValue::F64(v) => v.to_string(),
                    GgufValue::Bool(v) => v.to_string(),
                };
                table.row([shown(key), value]);
            }
        }
        Metadata::Json(Value::Object(map)) => {
            map.iter().for_each(|(key, value)| table.row([shown(key), shown(&value.to_string())]));
        }
        Metadata::Json(_) => {}
    }
    Ok(table.print(out)?)
}

fn print_tensors(out: &mut dyn Write, file: &ModelFile) -> Result<()> {
    let mut table = Table::new(&["tensor", "format", "shape", ">bytes"]);
    for t in file.tensors() {
        let bytes = (t.data.len + t.scales.len + t.biases.len) as u64;
        table.row([shown(&t.name), t.dtype.to_string(), format!("{:?}", t.shape), units::bytes(bytes)]);
    }
    Ok(table.print(out)?)
}

/// A text out of a file: printable, and cut where it is long.
fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(SHOWN).flat_map(printable).collect();
    if chars.next().is_some() { head + "…" } else { head }
}

fn printable(c: char) -> impl Iterator<Item = char> {
    let escaped = c.is_control().then(|| c.escape_default());
    let plain = (!c.is_control()).then_some(c);
    escaped.into_iter().flatten().chain(plain)
}

fn to_json(matches: &ArgMatches, source: &Source, file: &ModelFile, model: &Result<Model, akunu_arch::Error>) -> Value {
    let formats: Map<String, Value> = tallies(file)
        .into_iter()
        .map(|(d, t)| (d.to_string(), json!({ "tensors": t.tensors, "values": t.values, "bytes": t.bytes })))
        .collect();
    let mut value = json!({
        "model": source.name(),
        "container": container(file),
        "files": file.files(),
        "bytes": file_bytes(file),
        "parameters": parameters(file),
        "formats": formats,
    });
    match model {
        Ok(model) => {
            let c = &model.config;
            value["architecture"] = json!(model.descriptor.name);
            value["not_used"] = json!(model.left_out);
            value["config"] = json!({
                "layers": c.layers.len(),
                "dim": c.dim,
                "ffn": c.ffn,
                "heads": c.heads,
                "kv_heads": c.kv_heads,
                "head_dim": c.head_dim,
                "vocab": c.vocab,
                "context": c.context,
                "windows": c.layers.iter().map(|l| l.window).collect::<Vec<_>>(),
                "kv_bytes_per_position": kv_bytes(c, loading::kv(matches)),
            });
        }
        Err(error) => value["cannot_be_run"] = json!(error.to_string()),
    }
    if matches.get_flag("tensors") {
        let tensors = file.tensors().iter().map(|t| {
            let bytes = t.data.len + t.scales.len + t.biases.len;
            json!({ "name": t.name, "dtype": t.dtype.to_string(), "shape": t.shape, "bytes": bytes })
        });
        value["tensors"] = tensors.collect();
    }
    value
}

/// The dispatch table of a decode step, with this machine's kernels.
fn print_program(out: &mut dyn Write, matches: &ArgMatches, file: &ModelFile, model: &Model) -> Result<()> {
    let number = |name| matches.get_one::<usize>(name).copied();
    let (rows, depth) = (number("rows").unwrap_or(1), number("depth").unwrap_or(0));
    let output = if model.descriptor.causal { Output::Logits } else { Output::Mean };
    // More rows than decode at once are a prompt's.
    let prompts = rows > akunu::MAX_SEQUENCES;
    let options = LoadOptions { threads: Some(1), ..loading::load_options(matches) };
    let device = options.device;
    let chip = matches.get_one::<String>("chip").map(String::as_str);
    let backend = device.open_to_bind(chip, &options)?;
    let options = options.program(&backend.preferences(), output, (rows, 1), prompts);
    let program = build(model, file, options).map_err(akunu::Error::from)?;
    let bound = backend.bind(&program).map_err(akunu::Error::from)?;
    let entries = program_table::entries(&*backend, &program, &bound, rows, depth);
    let bytes = entries.iter().map(|e| e.cost.bytes).sum();
    // Steps of more rows are not bound by memory alone.
    let estimates = if rows == 1 { device.estimates(&program, bytes) } else { Vec::new() };
    if matches.get_flag("json") {
        let value = json!({
            "model": file.path().display().to_string(),
            "backend": backend.info().to_string(),
            "device": backend.info().device,
            "rows": rows,
            "depth": depth,
            "arena_bytes": program.arena_bytes,
            "program": program_table::to_json(&entries, None),
            "estimates": estimates.iter().map(estimate_to_json).collect::<Vec<_>>(),
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    program_table::print(out, &entries, None)?;
    writeln!(out, "{}", memory_line(&program, &backend.info(), rows))?;
    print_estimates(out, &estimates, bytes)
}

/// What chips would do: nobody has measured it.
fn print_estimates(out: &mut dyn Write, estimates: &[Estimate], bytes: u64) -> Result<()> {
    if estimates.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nEstimates, not measurements, of {} a token: {}", units::bytes(bytes), Estimate::MODEL)?;
    let mut table = Table::new(&["chip", ">bandwidth", ">dispatches", ">waits", ">a token", ">tokens/s"]);
    for e in estimates {
        let counts = [e.dispatches.to_string(), e.waits.to_string()];
        let speeds = [units::time(e.seconds), format!("{:.0}", 1.0 / e.seconds)];
        table.row([e.chip.clone(), units::rate(e.bandwidth)].into_iter().chain(counts).chain(speeds));
    }
    Ok(table.print(out)?)
}

fn estimate_to_json(e: &Estimate) -> Value {
    json!({
        "chip": e.chip,
        "bandwidth": e.bandwidth,
        "dispatches": e.dispatches,
        "waits": e.waits,
        "seconds": e.seconds,
    })
}

/// What a step needs beside the weights.
fn memory_line(program: &Program, backend: &Info, rows: usize) -> String {
    let kv: usize = program.kv_groups.iter().map(|g| g.block_bytes / KV_BLOCK).sum();
    format!(
        "{} of activations for {rows} rows, {} of KV cache a position; kernels: {backend}",
        units::bytes(program.arena_bytes as u64),
        units::bytes(kv as u64),
    )
}
