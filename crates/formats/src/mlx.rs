//! Safetensors entries to tensors: MLX's triples of packed words, scales and biases become one tensor each.

use std::collections::HashMap;
use std::path::Path;

use akunu_dtype::DType;
use serde_json::Value;

use crate::error::{Error, Fault, Name};
use crate::model_file::{Span, Tensor};
use crate::safetensors::{Entry, File};

/// How the weights of a module are quantized.
#[derive(Clone, Copy)]
struct Affine {
    bits: u32,
    group: u32,
}

/// `config.json`'s settings for the whole model, and where it has others for a module.
struct Quantization<'a> {
    path: &'a Path,
    settings: &'a Value,
    default: Affine,
}

/// Where an entry is: its file and itself.
type Found<'a> = (usize, &'a Entry);

/// The tensors of all files in order.
pub(crate) fn tensors(config_path: &Path, config: &Value, files: &[File]) -> Result<Vec<Tensor>, Error> {
    let quantization = Quantization::find(config_path, config)?;
    let count = files.iter().map(|f| f.entries().len()).sum();
    let mut by_name: HashMap<&str, Found<'_>> = HashMap::with_capacity(count);
    for (index, file) in files.iter().enumerate() {
        for entry in file.entries() {
            if by_name.insert(&entry.name, (index, entry)).is_some() {
                let fault = Fault::Duplicate { what: "tensor", name: Name::new(&entry.name) };
                return Err(Error::new(file.path(), fault));
            }
        }
    }

    let mut out = Vec::with_capacity(count);
    for (index, file) in files.iter().enumerate() {
        for entry in file.entries() {
            let found = (index, entry);
            let fail = |fault| Error::new(file.path(), fault);
            if let Some(module) = packed_module(entry) {
                let part = |suffix| by_name.get(format!("{module}.{suffix}").as_str()).copied();
                let settings = quantization.as_ref().map(|q| q.of(module)).transpose()?.flatten();
                out.push(packed(found, settings, part("scales"), part("biases")).map_err(fail)?);
            } else if !is_side_plane(&entry.name, &by_name) {
                out.push(plain(found));
            }
        }
    }
    Ok(out)
}

/// The module whose weights these packed words are.
fn packed_module(entry: &Entry) -> Option<&str> {
    entry.name.strip_suffix(".weight").filter(|_| entry.dtype == DType::U32)
}

fn is_side_plane(name: &str, by_name: &HashMap<&str, Found<'_>>) -> bool {
    let module = name.strip_suffix(".scales").or_else(|| name.strip_suffix(".biases"));
    let weight = module.and_then(|m| by_name.get(format!("{m}.weight").as_str()));
    weight.is_some_and(|(_, entry)| packed_module(entry).is_some())
}

fn span((file, entry): Found<'_>) -> Span {
    Span { file, offset: entry.offset, len: entry.len }
}

fn plain(found: Found<'_>) -> Tensor {
    let (_, entry) = found;
    let shape = if entry.shape.is_empty() { vec![1] } else { entry.shape.clone() };
    let (scales, biases) = (Span::default(), Span::default());
    Tensor { name: entry.name.clone(), dtype: entry.dtype, shape, data: span(found), scales, biases }
}

/// Words `[.., rows, cols * bits / 32]` and scales and biases `[.., rows, cols / group]`.
fn packed(
    words: Found<'_>,
    settings: Option<Affine>,
    scales: Option<Found<'_>>,
    biases: Option<Found<'_>>,
) -> Result<Tensor, Fault> {
    let entry = words.1;
    let fault = |problem: String| Fault::Quantized { name: Name::new(&entry.name), problem };
    let Affine { bits, group } = settings
        .ok_or_else(|| fault("has packed words, but config.json does not say how they are quantized".into()))?;
    let scales = scales.ok_or_else(|| fault("has packed words, but no scales".into()))?;
    let biases = biases.ok_or_else(|| fault("has packed words and scales, but no biases".into()))?;
    if scales.1.dtype != biases.1.dtype {
        let (s, b) = (scales.1.dtype, biases.1.dtype);
        return Err(fault(format!("has scales in {s}, but biases in {b}")));
    }
    if scales.1.shape != biases.1.shape {
        let (s, b) = (&scales.1.shape, &biases.1.shape);
        return Err(fault(format!("has scales of shape {s:?}, but biases of shape {b:?}")));
    }
    let format = || format!("{bits} bits in groups of {group} with {} scales", scales.1.dtype);
    let dtype = DType::mlx(bits, group, scales.1.dtype);
    let dtype = dtype.ok_or_else(|| Fault::UnknownFormat { name: Name::new(&entry.name), format: format() })?;

    let disagree = || {
        let (w, s) = (&entry.shape, &scales.1.shape);
        fault(format!("has words of shape {w:?} and scales of shape {s:?}, which do not make {}", format()))
    };
    let (Some((&per_row, outer)), Some((&groups, scale_outer))) =
        (entry.shape.split_last(), scales.1.shape.split_last())
    else {
        return Err(disagree());
    };
    let cols = groups.checked_mul(group as usize).filter(|&cols| {
        // 32 bits in a word; the product fits, as the words themselves do, or they disagree.
        per_row.checked_mul(32) == cols.checked_mul(bits as usize) && outer == scale_outer && !outer.is_empty()
    });
    let cols = cols.ok_or_else(disagree)?;
    // The format has the last word on how many bytes a row takes.
    if dtype.row_bytes(cols) != per_row.checked_mul(4) || dtype.row_side_bytes(cols) != row_bytes(scales.1, groups) {
        return Err(disagree());
    }
    let mut shape = entry.shape.clone();
    shape.pop();
    shape.push(cols);
    if shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).is_none() {
        return Err(Fault::TooLarge { name: Name::new(&entry.name), shape: shape.iter().map(|&d| d as u64).collect() });
    }
    let (data, scales, biases) = (span(words), span(scales), span(biases));
    Ok(Tensor { name: entry.name.clone(), dtype, shape, data, scales, biases })
}

/// Bytes of a row that was checked to fit when its entry was.
fn row_bytes(entry: &Entry, cols: usize) -> usize {
    cols * entry.dtype.format().bytes
}

impl<'a> Quantization<'a> {
    /// MLX's settings, under either of the names it uses; `None` where the model is not quantized.
    fn find(path: &'a Path, config: &'a Value) -> Result<Option<Self>, Error> {
        let unsupported = |what: String| Err(Error::new(path, Fault::NotSupported(what)));
        let settings = match (config.get("quantization"), config.get("quantization_config")) {
            (Some(Value::Null) | None, Some(Value::Null) | None) => return Ok(None),
            (Some(settings), _) if !settings.is_null() => settings,
            (_, Some(settings)) => {
                if let Some(method) = settings.get("quant_method").and_then(Value::as_str) {
                    return unsupported(format!("quantization by {}", Name::new(method)));
                }
                settings
            }
            _ => return Ok(None),
        };
        let default = affine(path, "quantization", settings)?;
        Ok(Some(Self { path, settings, default }))
    }

    /// The settings of one module; `None` where the configuration says that it is not quantized.
    fn of(&self, module: &str) -> Result<Option<Affine>, Error> {
        match self.settings.get(module) {
            None | Some(Value::Bool(true)) => Ok(Some(self.default)),
            Some(Value::Bool(false)) => Ok(None),
            Some(settings) => affine(self.path, module, settings).map(Some),
        }
    }
}

fn affine(path: &Path, what: &str, settings: &Value) -> Result<Affine, Error> {
    match settings.get("mode") {
        None => {}
        Some(Value::String(mode)) if mode == "affine" => {}
        Some(Value::String(mode)) => {
            let fault = Fault::NotSupported(format!("quantization mode {}", Name::new(mode)));
            return Err(Error::new(path, fault));
        }
        Some(other) => return Err(bad(path, what, "mode", "a string", other)),
    }
    let number = |key: &str| {
        let value = settings.get(key).unwrap_or(&Value::Null);
        let number = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
        number.ok_or_else(|| bad(path, what, key, "a positive integer", value))
    };
    Ok(Affine { bits: number("bits")?, group: number("group_size")? })
}

fn bad(path: &Path, what: &str, key: &str, expected: &'static str, found: &Value) -> Error {
    let found = match found {
        Value::Null => "absent".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        scalar => Name::new(&scalar.to_string()).0,
    };
    Error::new(path, Fault::BadValue { what: format!("{key} of {}", Name::new(what)), expected, found })
}
