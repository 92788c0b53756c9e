//! `akunu logits`: the logits of every position, for comparing engines.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use akunu::DType;
use akunu_dtype::Planes;
use akunu_formats::{Container, ModelFile, safetensors};
use anyhow::Result;
use clap::ArgMatches;

use crate::failure::failure;
use crate::flags::values;
use crate::source::Source;
use crate::{input, loading};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let ids = ids(matches)?;
    let file = Source::of(matches)?.open(loading::limits(matches))?;
    let greedy = matches.get_one::<usize>("greedy").copied();

    let mut options = loading::load_options(matches);
    if !matches.contains_id("mel") {
        options.context = options.context.or(Some(ids.len() + greedy.unwrap_or(0)));
    } else if matches.value_source("activations") != Some(clap::parser::ValueSource::CommandLine) {
        // Frames are many rows, which would be rounded for speed.
        options.activations = akunu::Activations::F32;
    }
    options.round_constants = round_constants(matches, &file);
    let mut engine = akunu::Engine::from_file(file, options)?;
    let vocab = engine.vocab();
    let output = matches.get_one::<PathBuf>("output").map_or(Path::new(""), PathBuf::as_path);
    if let Some(mel) = matches.get_one::<PathBuf>("mel") {
        return speech(&mut engine, mel, &ids, output);
    }
    let mut logits: Vec<u8> = Vec::with_capacity(ids.len() * vocab * 4);
    engine.logits(&ids, |_, row| logits.extend(row.iter().flat_map(|v| v.to_le_bytes())))?;
    let continuation = match greedy {
        Some(n) => continue_greedily(&mut engine, &ids, n)?,
        None => Vec::new(),
    };

    let shape = [ids.len(), vocab];
    let mut tensors: Vec<(&str, DType, &[usize], &[u8])> = vec![("logits", DType::F32, &shape, &logits)];
    let bytes: Vec<u8> = continuation.iter().flat_map(|id| id.to_le_bytes()).collect();
    let length = [continuation.len()];
    if greedy.is_some() {
        tensors.push(("greedy", DType::I32, &length, &bytes));
    }
    safetensors::write(output, &tensors)?;
    Ok(ExitCode::SUCCESS)
}

/// `encoder` and `logits` of a model of speech that encodes `mel` and is fed `ids`.
fn speech(engine: &mut akunu::Engine, mel: &Path, ids: &[u32], output: &Path) -> Result<ExitCode> {
    let file = safetensors::File::open(mel)?;
    let (frames, bands) = engine.frames();
    let entry = file.entry("mel").filter(|e| e.shape.len() == 2 && e.shape[0] == bands);
    let Some(entry) = entry.filter(|e| e.shape[1] <= frames) else {
        let sentence = format!("{}: has no `mel`, [{bands}, up to {frames}], that the model encodes", mel.display());
        return Err(failure(sentence, "give log-mel frames, band by band"));
    };
    let count = entry.shape[1];
    let mut values = vec![0.0; count * bands];
    (entry.dtype.format().decode)(Planes { data: file.data(entry), ..Planes::default() }, &mut values);
    let by_frame: Vec<f32> = (0..count * bands).map(|i| values[i % bands * count + i / bands]).collect();
    let mut sequence = engine.sequence();
    engine.encode(&mut sequence, &by_frame)?;
    let bytes = |row: &[f32]| row.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let encoder = bytes(&engine.encoded(&by_frame)?);
    let mut logits = Vec::new();
    engine.logits_in(&mut sequence, ids, |_, row| logits.extend(bytes(row)))?;
    let (encoder_shape, logits_shape) =
        ([engine.encoder_positions(), engine.model().config.dim], [ids.len(), engine.vocab()]);
    let tensors: [(&str, DType, &[usize], &[u8]); 2] =
        [("encoder", DType::F32, &encoder_shape, &encoder), ("logits", DType::F32, &logits_shape, &logits)];
    safetensors::write(output, &tensors)?;
    Ok(ExitCode::SUCCESS)
}

/// `--constants`: safetensors directories are compared with modules that were cast as a whole.
pub fn round_constants(matches: &ArgMatches, file: &ModelFile) -> bool {
    match matches.get_one::<String>("constants").map(String::as_str) {
        Some(how) => how == "checkpoint",
        None => file.container() == Container::Safetensors,
    }
}

/// `--ids`.
pub fn ids(matches: &ArgMatches) -> Result<Vec<u32>> {
    let text = matches.get_one::<String>("ids").map_or("", String::as_str);
    let ids = match text.strip_prefix('@') {
        Some(path) => values::ids(&input::file(Path::new(path), loading::limits(matches))?),
        None => values::ids(text),
    };
    ids.map_err(|what| failure(format!("--ids: {what}"), "give numbers such as 0,12,5, or @FILE with them"))
}

/// The likeliest next token, `n` times.
fn continue_greedily(engine: &mut akunu::Engine, ids: &[u32], n: usize) -> Result<Vec<u32>> {
    let mut sequence = engine.sequence();
    let mut next = akunu::argmax(engine.prefill(&mut sequence, ids)?);
    let mut out = vec![next];
    while out.len() < n {
        let chain = engine.greedy(&mut sequence, next, n - out.len())?;
        next = chain.last().copied().unwrap_or(next);
        out.extend(chain);
    }
    Ok(out)
}
