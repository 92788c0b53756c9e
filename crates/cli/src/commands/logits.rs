//! `akunu logits`: the logits of every position, for comparing engines.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use akunu::DType;
use akunu::formats::{Container, ModelFile, safetensors};
use anyhow::Result;
use clap::ArgMatches;

use crate::failure::failure;
use crate::flags::values;
use crate::source::Source;
use crate::{input, loading};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let ids = ids(matches)?;
    let file = Source::of(matches)?.open()?;
    let greedy = matches.get_one::<usize>("greedy").copied();

    let mut options = loading::load_options(matches);
    options.context = options.context.or(Some(ids.len() + greedy.unwrap_or(0)));
    options.round_constants = round_constants(matches, &file);
    let mut engine = akunu::Engine::from_file(file, options)?;
    let vocab = engine.vocab();
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
    let output = matches.get_one::<PathBuf>("output").map_or(Path::new(""), PathBuf::as_path);
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
        Some(path) => values::ids(&input::file(Path::new(path))?),
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
