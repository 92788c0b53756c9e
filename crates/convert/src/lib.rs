//! Models from one file to another: HF, MLX, GGUF or Whisper's ggml to GGUF, in any mixture of number formats.
//!
//! Tensors are read from the mapping, converted a slice at a time and written as they come: memory stays bounded by the
//! slices, whatever the model's size. The file gets its name when it is whole.

#![forbid(unsafe_code)]

mod error;
pub mod mixture;
mod rows;
pub mod synth;
mod tokenizer;

pub use error::Error;
pub use mixture::{MIXTURES, Mixture};

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::thread;

use akunu_arch::outline::OutTensor;
use akunu_arch::{Model, Outline, Role};
use akunu_dtype::DType;
use akunu_formats::gguf::{self, TensorWriter, Writer};
use akunu_formats::{Container, Metadata, ModelFile, Tensor};
use akunu_limits::Limits;

use mixture::ModelFacts;
use rows::Rows;

/// The layout of quantized blocks that files of today have.
pub(crate) const QUANTIZATION_VERSION: u32 = 2;

/// How to convert.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub overwrite: bool,
    /// `None`: as many as the machine has.
    pub threads: Option<usize>,
    /// What the source may cost.
    pub limits: Limits,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub tensors: usize,
    /// Of the tensors, without the header.
    pub bytes: u64,
    /// Whether the model has a tokenizer.
    pub tokenizer: bool,
}

/// Converts the model at `source` to a GGUF file at `destination` in the mixture called `kind` (`q4_k_m`); `progress`
/// is told the bytes written so far and the bytes there will be.
pub fn convert(
    source: &Path,
    destination: &Path,
    kind: &str,
    options: Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, Error> {
    let mixture = Mixture::find(kind).ok_or_else(|| Error::UnknownType { name: kind.into() })?;
    if let (Ok(from), Ok(to)) = (fs::canonicalize(source), fs::canonicalize(destination))
        && from == to
    {
        return Err(Error::SameFile { path: source.into() });
    }
    let file = ModelFile::open_within(source, options.limits)?;
    let model = Model::read(&file)?;
    let mut writer = Writer::create(destination, options.overwrite)?;
    let mut outline = None;
    let (tensors, tokenizer) = match file.metadata() {
        Metadata::Gguf(metadata) => {
            copy_metadata(metadata, &mut writer)?;
            let tokenizer = match file.container() {
                Container::Ggml => {
                    name_model(&file, &mut writer)?;
                    tokenizer::of_speech(&file, model.config.vocab)?.write(&mut writer)?;
                    true
                }
                _ => metadata.get("tokenizer.ggml.tokens").is_some(),
            };
            (listed(&file, &model), tokenizer)
        }
        Metadata::Json(_) => {
            let outline = outline.insert(Outline::of_model(&file, &model)?);
            let tokenizer = write_metadata(&file, outline, &mut writer)?;
            let (tensors, encoder) = (std::mem::take(&mut outline.tensors), std::mem::take(&mut outline.encoder));
            let mut planned = found(&file, &model, tensors, outline);
            if let Some(model) = &model.encoder {
                planned.extend(found(&file, model, encoder, outline));
            }
            (planned, tokenizer)
        }
    };
    writer.set("general.quantization_version", QUANTIZATION_VERSION)?;
    writer.set("general.file_type", mixture.file_type)?;

    let config = &model.config;
    let facts = ModelFacts {
        layers: config.layers.len(),
        heads: config.heads,
        kv_heads: config.kv_heads,
        tied: model.weights.global(Role::Output).is_none(),
    };
    let formats: Vec<DType> = tensors.iter().map(|t| mixture.format(&t.out, facts)).collect();
    let mut total = 0;
    for (tensor, &format) in tensors.iter().zip(&formats) {
        writer.tensor(&tensor.out.name, format, &tensor.out.shape)?;
        let elements: usize = tensor.out.shape.iter().product();
        total += (elements / format.format().block * format.format().bytes) as u64;
    }
    let threads = options.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let mut out = writer.begin()?;
    let mut done = 0;
    progress(0, total);
    for (tensor, &format) in tensors.iter().zip(&formats) {
        tensor.write(&file, format, threads, &mut out, &mut |bytes| {
            done += bytes;
            progress(done, total);
        })?;
    }
    out.finish()?;
    Ok(Report { tensors: tensors.len(), bytes: total, tokenizer })
}

/// A tensor to write and where its rows come from.
struct Planned<'a> {
    out: OutTensor,
    sources: Vec<Source<'a>>,
    /// Knows the order of the source's rows; `None`: as they are.
    outline: Option<&'a Outline>,
    /// Added to every value.
    offset: f32,
}

/// Rows of one source tensor.
struct Source<'a> {
    role: Role,
    tensor: &'a Tensor,
    start: usize,
    count: usize,
}

impl Planned<'_> {
    fn write(
        &self,
        file: &ModelFile,
        format: DType,
        threads: usize,
        out: &mut TensorWriter,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        if !self.out.is_matrix() {
            let bytes = rows::encode(format, &self.vector(file));
            out.write(&bytes)?;
            progress(bytes.len() as u64);
            return Ok(());
        }
        for source in &self.sources {
            let order = |row: usize| self.outline.map_or(row, |o| o.source_row(source.role, row));
            let Source { tensor, start, count, .. } = *source;
            Rows { file, tensor, start, count, order: &order }.write(format, threads, out, progress)?;
        }
        Ok(())
    }

    /// The values of a vector: given by the configuration, or read, reordered and moved.
    fn vector(&self, file: &ModelFile) -> Vec<f32> {
        let (Some(source), None) = (self.sources.first(), &self.out.values) else {
            return self.out.values.clone().unwrap_or_default();
        };
        let values = rows::values(file, source.tensor);
        let order = |i: usize| self.outline.map_or(i, |o| o.source_row(source.role, i));
        (0..values.len()).map(|i| values[order(i)] + self.offset).collect()
    }
}

/// The tensors of a GGUF file as they are, in file order.
fn listed<'a>(file: &'a ModelFile, model: &Model) -> Vec<Planned<'a>> {
    let mut roles: HashMap<usize, Vec<(Role, Option<usize>, usize)>> = HashMap::new();
    let encoder = model.encoder.iter().flat_map(|e| e.weights.iter());
    for (role, layer, slice) in model.weights.iter().chain(encoder) {
        roles.entry(slice.tensor).or_default().push((role, layer, slice.rows));
    }
    let planned = file.tensors().iter().enumerate().filter_map(|(index, tensor)| {
        // Tensors without a role are those that nobody needs.
        let of = roles.get(&index)?;
        let (role, layer, _) = *of.first()?;
        let parts = of.iter().map(|&(role, _, rows)| (role, rows)).collect();
        let out = OutTensor { name: tensor.name.clone(), layer, parts, shape: tensor.shape.clone(), values: None };
        let sources = vec![Source { role, tensor, start: 0, count: tensor.rows() }];
        Some(Planned { out, sources, outline: None, offset: 0.0 })
    });
    planned.collect()
}

/// The tensors of an outline, found in a safetensors directory.
fn found<'a>(file: &'a ModelFile, model: &Model, tensors: Vec<OutTensor>, outline: &'a Outline) -> Vec<Planned<'a>> {
    let planned = tensors.into_iter().map(|out| {
        let source = |&(role, _): &(Role, usize)| {
            let slice = model.weights.get(role, out.layer)?;
            let tensor = &file.tensors()[slice.tensor];
            // A convolution's channel is a row of the model's and several of the file's.
            let rows = slice.cols / tensor.cols().max(1);
            Some(Source { role, tensor, start: rows * slice.row, count: rows * slice.rows })
        };
        let sources: Vec<Source<'a>> = out.parts.iter().filter_map(source).collect();
        let offset = if sources.first().is_some_and(|s| is_norm(s.role)) { model.norm_weight_offset } else { 0.0 };
        Planned { out, sources, outline: Some(outline), offset }
    });
    planned.collect()
}

/// A norm's weight, which some files store as the distance from 1.
fn is_norm(role: Role) -> bool {
    use Role::*;
    matches!(role, OutputNorm | AttnNorm | FfnNorm | QNorm | KNorm | AttnPostNorm | FfnPostNorm)
}

/// Everything the source says, but for what the conversion changes.
fn copy_metadata(metadata: &gguf::Metadata, writer: &mut Writer) -> Result<(), Error> {
    let changed =
        |key: &str| matches!(key, "general.file_type" | "general.quantization_version") || key.starts_with("split.");
    for (key, field) in metadata.fields().filter(|(key, _)| !changed(key)) {
        writer.set(key, field.clone())?;
    }
    Ok(())
}

/// What GGUF says of a model in a safetensors directory; whether it has a tokenizer.
fn write_metadata(file: &ModelFile, outline: &Outline, writer: &mut Writer) -> Result<bool, Error> {
    for (key, field) in &outline.fields {
        writer.set(key, field.clone())?;
    }
    name_model(file, writer)?;
    // A model of speech is told what to do by tokens of its own.
    match tokenizer::read(file, outline.vocab, outline.encoder.is_empty())? {
        Some(vocabulary) => vocabulary.write(writer).map(|()| true),
        None => {
            writer.set("tokenizer.ggml.model", "none")?;
            Ok(false)
        }
    }
}

fn name_model(file: &ModelFile, writer: &mut Writer) -> Result<(), Error> {
    writer.set("general.type", "model")?;
    let path = fs::canonicalize(file.path()).unwrap_or_else(|_| file.path().to_path_buf());
    if let Some(name) = path.file_name().and_then(|n| n.to_str()) {
        writer.set("general.name", name)?;
    }
    Ok(())
}
