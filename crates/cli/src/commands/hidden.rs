//! `akunu hidden`: the hidden states of every position, for comparing engines.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use akunu::{DType, Embedder, Reading, Text};
use akunu_formats::safetensors;
use anyhow::Result;
use clap::ArgMatches;

use super::embed::{self, load_options};
use super::logits;
use crate::loading;
use crate::source::Source;

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let tokens = logits::ids(matches)?;
    let source = Source::of(matches)?;
    let positions = tokens.len();
    let text = [Text { second: positions, tokens }];
    let read = |reading: Reading| -> Result<(usize, Vec<f32>)> {
        let file = source.open(loading::limits(matches))?;
        let mut options = load_options(matches);
        options.round_constants = logits::round_constants(matches, &file);
        let mut embedder = Embedder::from_file(file, options, reading)?;
        let mut values = Vec::new();
        embedder.read(&text, |_, row| values.extend_from_slice(row))?;
        Ok((embedder.width(), values))
    };
    let (dim, hidden) = read(Reading::Hidden)?;
    let (_, mut pooled) = read(Reading::Embedding(embed::pooling(matches)))?;
    akunu::normalize(&mut pooled);

    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (hidden, pooled) = (bytes(&hidden), bytes(&pooled));
    let tensors: [(&str, DType, &[usize], &[u8]); 2] =
        [("hidden", DType::F32, &[positions, dim], &hidden), ("pooled", DType::F32, &[dim], &pooled)];
    let output = matches.get_one::<PathBuf>("output").map_or(Path::new(""), PathBuf::as_path);
    safetensors::write(output, &tensors)?;
    Ok(ExitCode::SUCCESS)
}
