//! What a GGUF file of a model says and which tensors it has: the way out, as `config` and `weights` are the way in.

use crate::config::LayerConfig;
use crate::descriptor::Norm;
use crate::keys::{self, Key, Reader};
use crate::pooling;
use crate::rope::{self, Scaling};
use crate::weights::{self, Name};
use crate::{ArchDescriptor, Error, Model, ModelConfig, Role, RopeStyle, Shape};
use akunu_formats::ModelFile;
use akunu_formats::gguf::{Array, Field};

/// A GGUF file to be, but for its number formats and its tokenizer.
pub struct Outline {
    pub descriptor: &'static ArchDescriptor,
    pub vocab: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    /// The architecture's keys, `general.architecture` among them.
    pub fields: Vec<(String, Field)>,
    /// In the order they are written.
    pub tensors: Vec<OutTensor>,
    /// Those of the encoder that a decoder looks at, after them.
    pub encoder: Vec<OutTensor>,
    head_dim: usize,
    rotated: usize,
}

/// One tensor of the file to be.
pub struct OutTensor {
    pub name: String,
    pub layer: Option<usize>,
    /// The roles it stacks, top to bottom, and the rows of each.
    pub parts: Vec<(Role, usize)>,
    /// `[rows, cols]`, or `[cols]` for a vector.
    pub shape: Vec<usize>,
    /// What is in it, where that follows from the configuration.
    pub values: Option<Vec<f32>>,
}

impl OutTensor {
    /// Whether it may be stored in any number format. Other engines add the few rows of the table of segments as they are.
    pub fn is_matrix(&self) -> bool {
        self.shape.len() > 1 && !self.has(Role::Segments)
    }

    pub fn has(&self, role: Role) -> bool {
        self.parts.iter().any(|(r, _)| *r == role)
    }
}

impl Outline {
    /// Of random weights in a known shape.
    pub fn of_shape(shape: &Shape) -> Self {
        let config = shape.config();
        let mut outline = Self::new(shape.family, &config, shape.ropes());
        outline.tensors = list(shape.family, &config, shape.ropes(), |name, _| {
            (name.required || name.role == Role::Output && !shape.tied).then(|| weights::shape(name.role, &config))
        });
        outline
    }

    /// Of a model in a safetensors directory.
    pub fn of_model(file: &ModelFile, model: &Model) -> Result<Self, Error> {
        let (descriptor, config) = (model.descriptor, &model.config);
        let reader = Reader::new(file, descriptor.name);
        let unsupported =
            |what: &str| Error::NotSupported { path: file.path().into(), what: format!("{what} in a GGUF file") };
        let Some(json) = reader.json() else { return Err(unsupported("the outline of a GGUF file")) };
        let ropes = rope::from_json(descriptor, &reader, config, json)?;
        representable(descriptor, config, &ropes).map_err(unsupported)?;
        let mut outline = Self::new(descriptor, config, ropes);
        if descriptor.multipliers {
            for key in [keys::ATTENTION_SCALE, keys::EMBEDDING_SCALE, keys::RESIDUAL_SCALE, keys::LOGIT_DIVISOR] {
                if let Some(value) = reader.float(key)? {
                    outline.set(key, value);
                }
            }
        }
        outline.tensors = listed(model, ropes);
        if let Some(encoder) = &model.encoder {
            outline.fields.truncate(1);
            outline.set_stacks(config, &encoder.config);
            outline.encoder = listed(encoder, ropes);
        }
        Ok(outline)
    }

    /// What GGUF's specification has for a model of two stacks, and what it leaves out.
    fn set_stacks(&mut self, decoder: &ModelConfig, encoder: &ModelConfig) {
        let name = self.gguf_name();
        for (stack, c) in [("encoder", encoder), ("decoder", decoder)] {
            for (key, value) in [
                (keys::CONTEXT, c.context),
                (keys::DIM, c.dim),
                (keys::HEADS, c.heads),
                (keys::LAYERS, c.layers.len()),
                (keys::FFN, c.ffn),
            ] {
                self.fields.push((format!("{name}.{stack}.{}", key.gguf), (value as u32).into()));
            }
        }
        self.fields.push((format!("{name}.encoder.{}", keys::MELS.gguf), (encoder.mels as u32).into()));
        self.set(keys::VOCAB, decoder.vocab as u32);
        self.set(keys::LAYER_EPS, decoder.eps);
        let heads = decoder.timing_heads.iter().flat_map(|(layer, head)| [*layer as i32, *head as i32]);
        self.set(keys::TIMING_HEADS, Array::from_i32s(heads));
    }

    fn new(descriptor: &'static ArchDescriptor, config: &ModelConfig, ropes: rope::Pair) -> Self {
        let c = config;
        let mut outline = Self {
            descriptor,
            vocab: c.vocab,
            layers: c.layers.len(),
            heads: c.heads,
            kv_heads: c.kv_heads,
            fields: Vec::new(),
            tensors: Vec::new(),
            encoder: Vec::new(),
            head_dim: c.head_dim,
            rotated: c.rotated,
        };
        outline.fields.push(("general.architecture".into(), outline.gguf_name().into()));
        for (key, value) in [
            (keys::LAYERS, c.layers.len()),
            (keys::CONTEXT, c.context),
            (keys::DIM, c.dim),
            (keys::FFN, c.ffn),
            (keys::HEADS, c.heads),
            (keys::KV_HEADS, c.kv_heads),
            (keys::HEAD_DIM, c.head_dim),
            (keys::VALUE_DIM, c.head_dim),
            (keys::VOCAB, c.vocab),
            (keys::ROTATED, c.rotated),
        ] {
            outline.set(key, value as u32);
        }
        let eps = match descriptor.norm {
            Norm::Rms => keys::RMS_EPS,
            Norm::Layer => keys::LAYER_EPS,
        };
        outline.set(eps, c.eps);
        if let Some(window) = c.layers.iter().find_map(|l| l.window) {
            outline.set(keys::WINDOW, window as u32);
        }
        for (key, cap) in [(keys::ATTENTION_CAP, c.attention_cap), (keys::FINAL_CAP, c.final_cap)] {
            if cap != 0.0 {
                outline.set(key, cap);
            }
        }
        if !descriptor.causal {
            outline.set(keys::CAUSAL, false);
        }
        if let Some(pooling) = c.pooling {
            outline.set(keys::POOLING, pooling::gguf_number(pooling));
        }
        if c.segments > 0 {
            outline.fields.push(("tokenizer.ggml.token_type_count".into(), (c.segments as u32).into()));
        }
        outline.set_ropes(ropes);
        if descriptor.rope_switch && !c.layers.is_empty() && c.layers.iter().all(|layer| layer.rope.is_none()) {
            outline.set(keys::ROPE_SWITCH, false);
        }
        if let Some(growth) = c.query_growth {
            outline.set(keys::QUERY_GROWTH, growth.slope);
        }
        outline
    }

    fn set(&mut self, key: Key, value: impl Into<Field>) {
        self.fields.push((format!("{}.{}", self.gguf_name(), key.gguf), value.into()));
    }

    fn gguf_name(&self) -> &'static str {
        self.descriptor.gguf_as.unwrap_or(self.descriptor).name
    }

    fn set_ropes(&mut self, [(base, scaling), (sliding_base, _)]: rope::Pair) {
        self.set(keys::ROPE_BASE, base as f32);
        if self.descriptor.sliding_rope_base.is_some() {
            self.set(keys::ROPE_BASE_SLIDING, sliding_base as f32);
        }
        match scaling {
            // Llama 3's is a tensor of divisors.
            Scaling::None | Scaling::Llama3 { .. } => {}
            Scaling::Linear { factor } => {
                self.set(keys::ROPE_SCALING, "linear");
                self.set(keys::ROPE_FACTOR, factor as f32);
            }
            Scaling::Listed { original, magnitude } => {
                self.set(keys::ROPE_ORIGINAL_CONTEXT, original as u32);
                self.set(keys::ROPE_MAGNITUDE, magnitude as f32);
            }
            Scaling::Yarn { factor, original, fast, slow, magnitude, .. } => {
                self.set(keys::ROPE_SCALING, "yarn");
                self.set(keys::ROPE_FACTOR, factor as f32);
                self.set(keys::ROPE_ORIGINAL_CONTEXT, original as u32);
                self.set(keys::ROPE_BETA_FAST, fast as f32);
                self.set(keys::ROPE_BETA_SLOW, slow as f32);
                if let Some(magnitude) = magnitude {
                    self.set(keys::ROPE_MAGNITUDE, (magnitude / (0.1 * factor.ln() + 1.0)) as f32);
                }
            }
        }
    }

    /// The row (or value of a vector) of the split-half original that becomes row `row` of the GGUF tensor.
    pub fn source_row(&self, role: Role, row: usize) -> usize {
        let rotates = matches!(role, Role::Q | Role::K | Role::QBias | Role::KBias);
        let in_head = row % self.head_dim;
        if !rotates || self.descriptor.gguf_rope != RopeStyle::Interleaved || in_head >= self.rotated {
            return row;
        }
        row - in_head + in_head % 2 * (self.rotated / 2) + in_head / 2
    }
}

/// The tensors a stack of a model has.
fn listed(model: &Model, ropes: rope::Pair) -> Vec<OutTensor> {
    list(model.descriptor, &model.config, ropes, |name, layer| {
        let slice = model.weights.get(name.role, layer)?;
        let shape = weights::shape(name.role, &model.config);
        Some(match shape.len() {
            1 => vec![slice.cols],
            2 => vec![slice.rows, slice.cols],
            _ => shape,
        })
    })
}

/// The tensors that `shape_of` gives a shape: first those of the model, then layer by layer.
fn list(
    descriptor: &ArchDescriptor,
    config: &ModelConfig,
    ropes: rope::Pair,
    shape_of: impl Fn(&Name, Option<usize>) -> Option<Vec<usize>>,
) -> Vec<OutTensor> {
    let mut tensors: Vec<OutTensor> = Vec::new();
    let names: Vec<&Name> = descriptor.gguf_names.iter().copied().flatten().collect();
    let mut add = |name: &Name, layer: Option<usize>| {
        let values = rope::divisors(name.role, config, ropes[0]);
        let shape = match &values {
            Some(values) => Some(vec![values.len()]),
            None => shape_of(name, layer),
        };
        let Some(shape) = shape else { return };
        let rows = if shape.len() > 1 { shape[0] } else { 1 };
        let text = match layer {
            Some(l) => name.pattern.replace("{}", &l.to_string()),
            None => name.pattern.to_string(),
        };
        match tensors.last_mut().filter(|t| t.name == text) {
            // The next part of a stacked tensor.
            Some(stacked) => {
                stacked.parts.push((name.role, rows));
                stacked.shape[0] += rows;
            }
            None => {
                let parts = vec![(name.role, rows)];
                tensors.push(OutTensor { name: text, layer, parts, shape, values });
            }
        }
    };
    let (of_layers, of_model): (Vec<&Name>, Vec<&Name>) = names.iter().partition(|n| n.pattern.contains("{}"));
    of_model.iter().for_each(|name| add(name, None));
    (0..config.layers.len()).for_each(|l| of_layers.iter().for_each(|name| add(name, Some(l))));
    tensors
}

/// Whether reading the GGUF file gives this configuration back; what cannot be said, where not.
fn representable(d: &ArchDescriptor, c: &ModelConfig, ropes: &rope::Pair) -> Result<(), &'static str> {
    let window = c.layers.iter().find_map(|l| l.window);
    let rotates = |l: usize| d.no_rope_every.is_none_or(|n| !(l + 1).is_multiple_of(n));
    let as_pattern = |l: usize, layer: &LayerConfig| layer.window == window.filter(|_| d.window_pattern.slides(l));
    if window.is_none() && d.default_window.is_some() || !c.layers.iter().enumerate().all(|(l, x)| as_pattern(l, x)) {
        return Err("this pattern of sliding layers");
    }
    let never = d.rope_switch && c.layers.iter().all(|layer| layer.rope.is_none());
    if !never && !c.layers.iter().enumerate().all(|(l, layer)| layer.rope.is_some() == rotates(l)) {
        return Err("this pattern of layers without RoPE");
    }
    let [full, sliding] = *ropes;
    let same = match d.sliding_rope_base {
        Some(_) => sliding.1 == Scaling::None,
        None => window.is_none() || sliding == full,
    };
    if !same {
        return Err("RoPE scaling of sliding layers");
    }
    if matches!(full.1, Scaling::Yarn { truncate: false, .. }) {
        return Err("YaRN without truncation");
    }
    let tensor = d.gguf_names.iter().copied().flatten().any(|n| n.role == Role::RopeFactors);
    if matches!(full.1, Scaling::Llama3 { .. }) && !tensor {
        return Err("Llama 3's RoPE scaling of this architecture");
    }
    let width = if d.wide_scale_layers == Some(c.layers.len()) { c.dim / c.heads } else { c.head_dim };
    let scale = (width as f32).sqrt().recip();
    if !d.multipliers && (c.attention_scale - scale).abs() > 1e-6 * scale {
        return Err("an attention scale other than the family's");
    }
    Ok(())
}
