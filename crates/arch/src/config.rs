//! The numbers of a model, read from GGUF metadata or config.json through its family's row.

use crate::descriptor::{Activation, Norm, WindowPattern};
use crate::keys::{self, Reader};
use crate::pooling::{self, Pooling};
use crate::weights::{Role, Weights};
use crate::{ArchDescriptor, Error};
use akunu_formats::{Name, gguf};
use serde_json::Value as Json;

/// One set of rope frequencies, scaling applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Radians per position, one per rotating pair.
    pub frequencies: Vec<f32>,
    /// Factor on sines and cosines.
    pub magnitude: f32,
}

/// Ropes of contexts that are longer than a number of positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Beyond {
    pub positions: usize,
    pub ropes: Vec<Rope>,
}

/// Queries grow with their position: by a factor of `1 + slope * ln(1 + floor(position / period))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryGrowth {
    pub slope: f32,
    pub period: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerConfig {
    /// Positions a row can see, itself included; half of them to either side where rows see the whole text.
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
    /// Where long contexts have others; see [`crate::Model::for_context`].
    pub beyond: Option<Beyond>,
    pub query_growth: Option<QueryGrowth>,
    pub layers: Vec<LayerConfig>,
    /// What the file says of it.
    pub pooling: Option<Pooling>,
    /// Before the classification head.
    pub head_pooling: Pooling,
    /// Kinds of segments the model tells apart.
    pub segments: usize,
    /// Scores that a classification head gives; 0: there is none.
    pub classes: usize,
    /// The tokens whose logits a file says are a pair's score: that of the first, less that of the second.
    pub answers: Option<(usize, Option<usize>)>,
    /// Widths of the dense layers after pooling, 0 where there is none.
    pub dense: [usize; 2],
    /// Bands of the frames an encoder of sound takes; 0: it takes tokens.
    pub mels: usize,
    /// Cross-attention heads that time words: layer and head.
    pub timing_heads: Vec<(usize, usize)>,
}

impl ModelConfig {
    /// Values of a text's vector.
    pub fn embedding_width(&self) -> usize {
        *self.dense.iter().rev().find(|width| **width > 0).unwrap_or(&self.dim)
    }
}

/// Far above any model there is, and far below what could overflow the arithmetic after it.
const MAX_WIDTH: usize = 1 << 22;
const MAX_LAYERS: usize = 4096;
const MAX_CONTEXT: usize = 1 << 27;
const MAX_MELS: usize = 1024;

pub fn read(descriptor: &ArchDescriptor, reader: &Reader) -> Result<ModelConfig, Error> {
    let within = |key: keys::Key, value: usize, max: usize| match value {
        v if v == 0 || v > max => Err(reader.bad(&reader.name(key), v, &format!("1 to {max} is supported"))),
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
        return Err(reader.bad(&reader.name(keys::KV_HEADS), kv_heads, &format!("it must divide the {heads} heads")));
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
    let eps = reader.float(eps_key)?.or(descriptor.default_eps).ok_or_else(|| reader.missing(eps_key))?;
    if reader.flag(keys::PARALLEL_RESIDUAL)? == Some(true) {
        return Err(not_supported(reader, "parallel residual".into()));
    }
    // Some mixtures have the name of a family without them.
    if let Some(experts @ 1..) = reader.uint(keys::EXPERTS)? {
        return Err(not_supported(reader, format!("a mixture of {experts} experts")));
    }
    check_activation(descriptor, reader)?;
    let sees_all = reader.json().and_then(|json| json.get("use_bidirectional_attention")?.as_bool());
    match descriptor.causal {
        true if sees_all == Some(true) => {
            return Err(not_supported(
                reader,
                format!("attention to both sides in the {} architecture", descriptor.name),
            ));
        }
        true => {}
        false => check_positions(descriptor, reader)?,
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
    let modules = pooling::read(reader)?;
    let config = ModelConfig {
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
        beyond: None,
        query_growth: None,
        layers: layers(descriptor, reader, count)?,
        pooling: modules.pooling,
        head_pooling: pooling::of_head(reader)?.unwrap_or(descriptor.head_pooling),
        segments: 0,
        classes: 0,
        answers: modules.answers,
        dense: [0; 2],
        mels: 0,
        timing_heads: Vec::new(),
    };
    for (key, number) in [
        (eps_key, config.eps),
        (keys::EMBEDDING_SCALE, config.embedding_scale),
        (keys::RESIDUAL_SCALE, config.residual_scale),
        (keys::LOGIT_DIVISOR, config.logit_scale),
        (keys::ATTENTION_SCALE, config.attention_scale),
        (keys::ATTENTION_CAP, config.attention_cap),
        (keys::FINAL_CAP, config.final_cap),
    ] {
        if !number.is_finite() || key.gguf == eps_key.gguf && number < 0.0 {
            return Err(reader.bad(&reader.name(key), number, "a finite number is needed, and of eps 0 or more"));
        }
    }
    Ok(config)
}

/// The numbers of the encoder of sound before a decoder.
pub fn read_encoder(descriptor: &ArchDescriptor, reader: &Reader, decoder: &ModelConfig) -> Result<ModelConfig, Error> {
    let reader = &reader.of_encoder();
    let mut config = read(descriptor, reader)?;
    config.mels = reader.need(keys::MELS)?;
    if !(1..=MAX_MELS).contains(&config.mels) {
        return Err(reader.bad(keys::MELS.gguf, config.mels, &format!("1 to {MAX_MELS} is supported")));
    }
    if config.dim != decoder.dim {
        return Err(reader.bad(keys::DIM.gguf, config.dim, &format!("the decoder's is {}", decoder.dim)));
    }
    Ok(config)
}

/// The heads that time words: as the file lists them, as published for its shape, or all of the upper half.
pub fn timing_heads(descriptor: &ArchDescriptor, reader: &Reader, c: &ModelConfig) -> Vec<(usize, usize)> {
    let side = reader.file.side_file("generation_config.json").and_then(Result::ok);
    let json: Option<serde_json::Value> = side.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let pair = |v: &serde_json::Value| Some((v.get(0)?.as_u64()? as usize, v.get(1)?.as_u64()? as usize));
    let listed = json.as_ref().and_then(|j| j.get("alignment_heads")?.as_array()?.iter().map(pair).collect());
    let flat: Vec<usize> = match reader.gguf().and_then(|m| m.get(&reader.gguf_key(keys::TIMING_HEADS))) {
        Some(gguf::Value::Array(values)) => values.i64s().into_iter().flatten().map(|v| v as usize).collect(),
        _ => Vec::new(),
    };
    let (pairs, _) = flat.as_chunks::<2>();
    let listed = listed.or_else(|| (!pairs.is_empty()).then(|| pairs.iter().map(|[l, h]| (*l, *h)).collect()));
    let alike = |t: &&crate::descriptor::Timing| (t.layers, t.dim, t.vocab) == (c.layers.len(), c.dim, c.vocab);
    let published = || descriptor.timing.iter().find(alike).map(|t| t.heads.to_vec());
    let there = |heads: &Vec<(usize, usize)>| {
        !heads.is_empty() && heads.iter().all(|(layer, head)| *layer < c.layers.len() && *head < c.heads)
    };
    let upper = || (c.layers.len() / 2..c.layers.len()).flat_map(|l| (0..c.heads).map(move |h| (l, h))).collect();
    listed.filter(there).or_else(published).filter(there).unwrap_or_else(upper)
}

/// Whether the configuration asks for the activation of the family's row.
fn check_activation(descriptor: &ArchDescriptor, reader: &Reader) -> Result<(), Error> {
    let activation = match reader.text(keys::HIDDEN_ACTIVATION)? {
        // Gemma's first configurations say it and mean the other.
        Some("gelu") if descriptor.scaled_embedding => Activation::GeluTanh,
        Some("gelu") => Activation::GeluErf,
        Some("silu" | "swish" | "swiglu") => Activation::Silu,
        Some("gelu_new" | "gelu_fast" | "gelu_pytorch_tanh") => Activation::GeluTanh,
        None => descriptor.activation,
        Some(other) => return Err(not_supported(reader, format!("the activation {}", Name::new(other)))),
    };
    if activation != descriptor.activation {
        return Err(not_supported(reader, format!("{activation:?} in the {} architecture", descriptor.name)));
    }
    Ok(())
}

/// Whether there are biases of queries where the configuration promises them.
pub fn check_biases(reader: &Reader, weights: &Weights) -> Result<(), Error> {
    const KEY: &str = "attention_bias";
    let Some(json) = reader.json() else { return Ok(()) };
    match reader.member(json, &[KEY], "true or false is needed", Json::as_bool)? {
        Some(true) if weights.get(Role::QBias, Some(0)).is_none() => {
            Err(reader.bad(KEY, "true", "the file has no biases of queries, keys and values"))
        }
        _ => Ok(()),
    }
}

/// Whether an encoder asks for positions that are not its family's.
fn check_positions(descriptor: &ArchDescriptor, reader: &Reader) -> Result<(), Error> {
    // The table's first rows are those of the tokens up to the padding token, and of no position.
    if let (first @ 1.., Some(pad)) = (descriptor.hf_first_position, reader.uint(keys::PADDING)?)
        && pad + 1 != first
    {
        return Err(reader.bad("pad_token_id", pad, &format!("{} is supported", first - 1)));
    }
    match reader.json().and(reader.text(keys::POSITION_KIND)?) {
        Some(kind) if !["absolute", "rope", "sans_pos"].contains(&kind) => {
            Err(not_supported(reader, format!("{} positions", Name::new(kind))))
        }
        _ => Ok(()),
    }
}

fn not_supported(reader: &Reader, what: String) -> Error {
    Error::NotSupported { path: reader.file.path().into(), what }
}

fn query_scalar(reader: &Reader) -> Result<Option<f32>, Error> {
    let Some(_) = reader.json() else { return Ok(None) };
    match reader.float(keys::QUERY_SCALAR)? {
        Some(scalar) if scalar <= 0.0 => {
            Err(reader.bad(&reader.name(keys::QUERY_SCALAR), scalar, "a number above 0 is needed"))
        }
        scalar => Ok(scalar),
    }
}

/// Values of a head that rotate: a count in GGUF, a fraction in config.json.
fn rotated(reader: &Reader, head_dim: usize) -> Result<usize, Error> {
    let Some(json) = reader.json() else {
        return Ok(reader.uint(keys::ROTATED)?.unwrap_or(head_dim));
    };
    let number = |object, names: &[&str]| reader.member(object, names, "a number is needed", Json::as_f64);
    let new_form = json.get("rope_parameters").map(|r| number(r, &["partial_rotary_factor"])).transpose()?.flatten();
    let old_form = number(json, &["partial_rotary_factor", "rotary_emb_fraction"])?;
    let fraction = new_form.or(old_form).unwrap_or(1.0);
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
    let member = |names: &[&str]| match json {
        Some(json) => reader.member(json, names, "a number above 0 is needed", |v| v.as_u64().filter(|n| *n > 0)),
        None => Ok(None),
    };
    let slides = json.map(|j| reader.member(j, &["use_sliding_window"], "true or false is needed", Json::as_bool));
    if slides.transpose()?.flatten() == Some(false) {
        window = None;
    } else if reader.gguf().is_some() {
        window = window.or(descriptor.default_window);
    }
    let listed = list(reader, "layer_types", count)?;
    let rotating = list(reader, "no_rope_layers", count)?;
    let period = member(&["sliding_window_pattern", "_sliding_window_pattern"])?;
    let pattern = match (period, member(&["global_attn_every_n_layers"])?) {
        (Some(n), _) => WindowPattern::ButEvery(n as usize),
        (None, Some(n)) => WindowPattern::ButFirstOf(n as usize),
        (None, None) => descriptor.window_pattern,
    };
    let switched_off = descriptor.rope_switch
        && match reader.gguf() {
            Some(_) => reader.flag(keys::ROPE_SWITCH)? == Some(false),
            None => reader.text(keys::POSITION_KIND)? == Some("nope"),
        };
    (0..count)
        .map(|l| {
            let slides = match (listed, pattern) {
                (Some(types), _) => match types[l].as_str() {
                    Some("sliding_attention") => true,
                    Some("full_attention" | "attention") => false,
                    Some(other) => return Err(not_supported(reader, format!("layer_types with {}", Name::new(other)))),
                    None => return Err(reader.bad("layer_types", &types[l], "full or sliding attention is needed")),
                },
                (None, pattern) => pattern.slides(l),
            };
            let window = window.filter(|_| slides);
            let rotates = match (rotating, descriptor.no_rope_every) {
                _ if switched_off => false,
                (Some(list), _) => match list[l].as_u64() {
                    Some(rotates) => rotates != 0,
                    None => return Err(reader.bad("no_rope_layers", &list[l], "0 or 1 is needed")),
                },
                (None, Some(n)) => !(l + 1).is_multiple_of(n),
                (None, None) => true,
            };
            Ok(LayerConfig { window, rope: rotates.then_some(usize::from(window.is_some())) })
        })
        .collect()
}

/// A config.json list with one entry per layer.
fn list<'a>(reader: &Reader<'a>, key: &str, count: usize) -> Result<Option<&'a Vec<Json>>, Error> {
    let list = reader.json().map(|j| reader.member(j, &[key], "a list is needed", Json::as_array));
    match list.transpose()?.flatten() {
        Some(list) if list.len() != count => {
            Err(reader.bad(key, format!("a list of {}", list.len()), &format!("the model has {count} layers")))
        }
        list => Ok(list),
    }
}
