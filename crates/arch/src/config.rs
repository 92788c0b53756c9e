//! The numbers of a model, read from GGUF metadata or config.json through its family's row.

use crate::descriptor::{Norm, WindowPattern};
use crate::keys::{self, Reader};
use crate::{ArchDescriptor, Error};

/// One set of rope frequencies, scaling applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Radians per position, one per rotating pair.
    pub frequencies: Vec<f32>,
    /// Factor on sines and cosines.
    pub magnitude: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerConfig {
    /// Positions a row can see, itself included.
    pub window: Option<usize>,
    /// Index into `ModelConfig::ropes`.
    pub rope: Option<usize>,
}

/// The numbers of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    pub vocab: usize,
    pub dim: usize,
    pub ffn: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Values of a head that rotate.
    pub rotated: usize,
    /// Positions the model was made for.
    pub context: usize,
    pub eps: f32,
    pub embedding_scale: f32,
    pub residual_scale: f32,
    pub logit_scale: f32,
    pub attention_scale: f32,
    /// 0: none.
    pub attention_cap: f32,
    /// 0: none.
    pub final_cap: f32,
    /// The first is that of full layers, a second that of sliding ones where they differ.
    pub ropes: Vec<Rope>,
    pub layers: Vec<LayerConfig>,
}

/// Far above any model there is, and far below what could overflow the arithmetic after it.
const MAX_WIDTH: usize = 1 << 22;
const MAX_LAYERS: usize = 4096;
const MAX_CONTEXT: usize = 1 << 27;

pub fn read(descriptor: &ArchDescriptor, reader: &Reader) -> Result<ModelConfig, Error> {
    let within = |key: keys::Key, value: usize, max: usize| match value {
        v if v == 0 || v > max => {
            let name = if reader.gguf().is_some() { key.gguf } else { key.hf.first().unwrap_or(&key.gguf) };
            Err(reader.bad(name, v, &format!("1 to {max} is supported")))
        }
        v => Ok(v),
    };
    let dim = within(keys::DIM, reader.need(keys::DIM)?, MAX_WIDTH)?;
    let ffn = within(keys::FFN, reader.need(keys::FFN)?, MAX_WIDTH)?;
    let count = within(keys::LAYERS, reader.need(keys::LAYERS)?, MAX_LAYERS)?;
    let heads = within(keys::HEADS, reader.need(keys::HEADS)?, dim)?;
    let kv_heads = within(keys::KV_HEADS, reader.uint(keys::KV_HEADS)?.unwrap_or(heads), heads)?;
    let head_dim = within(keys::HEAD_DIM, reader.uint(keys::HEAD_DIM)?.unwrap_or(dim / heads), MAX_WIDTH)?;
    let context = within(keys::CONTEXT, reader.need(keys::CONTEXT)?, MAX_CONTEXT)?;
    if !heads.is_multiple_of(kv_heads) {
        return Err(reader.bad(keys::KV_HEADS.gguf, kv_heads, &format!("it must divide the {heads} heads")));
    }
    if reader.uint(keys::VALUE_DIM)?.is_some_and(|v| v != head_dim) {
        return Err(reader.bad(keys::VALUE_DIM.gguf, "different from the key length", "they must agree"));
    }
    let rotated = rotated(reader, head_dim)?;
    if rotated > head_dim || !rotated.is_multiple_of(2) {
        return Err(reader.bad(keys::ROTATED.gguf, rotated, &format!("an even number up to {head_dim} is needed")));
    }
    let eps_key = match descriptor.norm {
        Norm::Rms => keys::RMS_EPS,
        Norm::Layer => keys::LAYER_EPS,
    };
    let eps = reader.float(eps_key)?.ok_or_else(|| reader.missing(eps_key))?;
    if reader.flag(keys::PARALLEL_RESIDUAL)? == Some(true) {
        return Err(Error::NotSupported { path: reader.file.path().into(), what: "parallel residual".into() });
    }
    let multiplier =
        |key| -> Result<Option<f32>, Error> { if descriptor.multipliers { reader.float(key) } else { Ok(None) } };
    let attention_scale = match (multiplier(keys::ATTENTION_SCALE)?, query_scalar(reader)?) {
        (Some(scale), _) if scale != 0.0 => scale,
        (_, Some(scalar)) => scalar.sqrt().recip(),
        _ if reader.gguf().is_some() && descriptor.wide_scale_layers == Some(count) => {
            ((dim / heads) as f32).sqrt().recip()
        }
        _ => (head_dim as f32).sqrt().recip(),
    };
    Ok(ModelConfig {
        vocab: reader.uint(keys::VOCAB)?.unwrap_or(0),
        dim,
        ffn,
        heads,
        kv_heads,
        head_dim,
        rotated,
        context,
        eps,
        embedding_scale: match descriptor.scaled_embedding {
            true => (dim as f32).sqrt(),
            false => multiplier(keys::EMBEDDING_SCALE)?.unwrap_or(1.0),
        },
        residual_scale: multiplier(keys::RESIDUAL_SCALE)?.unwrap_or(1.0),
        logit_scale: multiplier(keys::LOGIT_DIVISOR)?.map_or(1.0, f32::recip),
        attention_scale,
        attention_cap: reader.float(keys::ATTENTION_CAP)?.unwrap_or(0.0),
        final_cap: reader.float(keys::FINAL_CAP)?.unwrap_or(0.0),
        ropes: Vec::new(),
        layers: layers(descriptor, reader, count)?,
    })
}

fn query_scalar(reader: &Reader) -> Result<Option<f32>, Error> {
    if reader.json().is_some() { reader.float(keys::QUERY_SCALAR) } else { Ok(None) }
}

/// Values of a head that rotate: a count in GGUF, a fraction in config.json.
fn rotated(reader: &Reader, head_dim: usize) -> Result<usize, Error> {
    let Some(json) = reader.json() else {
        return Ok(reader.uint(keys::ROTATED)?.unwrap_or(head_dim));
    };
    let new_form = json.get("rope_parameters").and_then(|r| r.get("partial_rotary_factor"));
    let fraction = new_form.or_else(|| json.get("partial_rotary_factor")).and_then(|v| v.as_f64()).unwrap_or(1.0);
    if !(0.0..=1.0).contains(&fraction) {
        return Err(reader.bad("partial_rotary_factor", fraction, "0 to 1 is needed"));
    }
    Ok((head_dim as f64 * fraction) as usize)
}

/// Which layers slide and which rotate. Ropes are numbered 0 for full layers and 1 for sliding
/// ones; `rope::fill` merges them where they are the same.
fn layers(descriptor: &ArchDescriptor, reader: &Reader, count: usize) -> Result<Vec<LayerConfig>, Error> {
    let json = reader.json();
    let mut window = reader.uint(keys::WINDOW)?.filter(|w| *w > 0);
    if json.is_some_and(|j| j.get("use_sliding_window").and_then(|v| v.as_bool()) == Some(false)) {
        window = None;
    } else if reader.gguf().is_some() {
        window = window.or(descriptor.default_window);
    }
    let listed = list(reader, "layer_types", count)?;
    let rotating = list(reader, "no_rope_layers", count)?;
    let period = json.and_then(|j| j.get("sliding_window_pattern").or_else(|| j.get("_sliding_window_pattern")));
    let pattern = match period.and_then(|v| v.as_u64()) {
        Some(n) if n > 0 => WindowPattern::ButEvery(n as usize),
        _ => descriptor.window_pattern,
    };
    (0..count)
        .map(|l| {
            let slides = match (listed, pattern) {
                (Some(types), _) => match types[l].as_str() {
                    Some("sliding_attention") => true,
                    Some("full_attention") => false,
                    _ => return Err(reader.bad("layer_types", &types[l], "full or sliding attention is needed")),
                },
                (None, WindowPattern::All) => true,
                (None, WindowPattern::ButEvery(n)) => !(l + 1).is_multiple_of(n),
            };
            let window = window.filter(|_| slides);
            let rotates = match (rotating, descriptor.no_rope_every) {
                (Some(list), _) => list[l].as_u64() != Some(0),
                (None, Some(n)) => !(l + 1).is_multiple_of(n),
                (None, None) => true,
            };
            Ok(LayerConfig { window, rope: rotates.then_some(usize::from(window.is_some())) })
        })
        .collect()
}

/// A config.json list with one entry per layer.
fn list<'a>(reader: &Reader<'a>, key: &str, count: usize) -> Result<Option<&'a Vec<serde_json::Value>>, Error> {
    match reader.json().and_then(|j| j.get(key)).and_then(|v| v.as_array()) {
        Some(list) if list.len() != count => {
            Err(reader.bad(key, format!("a list of {}", list.len()), &format!("the model has {count} layers")))
        }
        list => Ok(list),
    }
}
