//! Configuration values by meaning: one key for GGUF, one or more for config.json.

use crate::Error;
use akunu_formats::{Metadata, ModelFile, gguf};
use serde_json::Value as Json;

/// The names of one configuration value.
#[derive(Clone, Copy)]
pub struct Key {
    /// After the architecture's prefix.
    pub gguf: &'static str,
    pub hf: &'static [&'static str],
}

macro_rules! keys {
    ($($name:ident = $gguf:literal, [$($hf:literal),*];)*) => {
        $(pub const $name: Key = Key { gguf: $gguf, hf: &[$($hf),*] };)*
    };
}

keys! {
    DIM = "embedding_length", ["hidden_size", "n_embd", "d_model"];
    LAYERS = "block_count", ["decoder_layers", "num_hidden_layers", "n_layer"];
    FFN = "feed_forward_length", ["decoder_ffn_dim", "shared_intermediate_size", "intermediate_size", "n_inner"];
    HEADS = "attention.head_count", ["decoder_attention_heads", "num_attention_heads", "n_head"];
    KV_HEADS = "attention.head_count_kv", ["num_key_value_heads"];
    HEAD_DIM = "attention.key_length", ["head_dim"];
    VALUE_DIM = "attention.value_length", [];
    ROTATED = "rope.dimension_count", [];
    CONTEXT = "context_length", ["max_target_positions", "max_position_embeddings", "n_positions"];
    MELS = "mels_count", ["num_mel_bins"];
    TIMING_HEADS = "alignment_heads", [];
    VOCAB = "vocab_size", ["vocab_size"];
    RMS_EPS = "attention.layer_norm_rms_epsilon", ["rms_norm_eps"];
    LAYER_EPS = "attention.layer_norm_epsilon", ["layer_norm_eps", "norm_epsilon", "norm_eps", "layer_norm_epsilon"];
    WINDOW = "attention.sliding_window", ["sliding_window", "local_attention"];
    ATTENTION_SCALE = "attention.scale", ["attention_multiplier"];
    EMBEDDING_SCALE = "embedding_scale", ["embedding_multiplier"];
    RESIDUAL_SCALE = "residual_scale", ["residual_multiplier"];
    LOGIT_DIVISOR = "logit_scale", ["logits_scaling"];
    ATTENTION_CAP = "attn_logit_softcapping", ["attn_logit_softcapping"];
    FINAL_CAP = "final_logit_softcapping", ["final_logit_softcapping"];
    EXPERTS = "expert_count", ["num_local_experts", "num_experts", "n_routed_experts"];
    PARALLEL_RESIDUAL = "use_parallel_residual", ["use_parallel_residual"];
    CAUSAL = "attention.causal", [];
    POOLING = "pooling_type", [];
    HIDDEN_ACTIVATION = "hidden_activation", ["hidden_act", "hidden_activation", "activation_function"];
    HEAD_POOLING = "", ["classifier_pooling"];
    PADDING = "", ["pad_token_id"];
    POSITION_KIND = "", ["position_embedding_type"];
    QUERY_SCALAR = "", ["query_pre_attn_scalar"];
    ROPE_BASE = "rope.freq_base", [];
    ROPE_BASE_SLIDING = "rope.freq_base_swa", [];
    ROPE_SCALING = "rope.scaling.type", [];
    ROPE_FACTOR = "rope.scaling.factor", [];
    ROPE_FACTOR_OLD = "rope.scale_linear", [];
    ROPE_ORIGINAL_CONTEXT = "rope.scaling.original_context_length", [];
    ROPE_LOG_MULTIPLIER = "rope.scaling.yarn_log_multiplier", [];
    ROPE_SWITCH = "rope.scaling.finetuned", [];
    QUERY_GROWTH = "attention.temperature_scale", [];
    ROPE_MAGNITUDE = "rope.scaling.attn_factor", [];
    ROPE_BETA_FAST = "rope.scaling.yarn_beta_fast", [];
    ROPE_BETA_SLOW = "rope.scaling.yarn_beta_slow", [];
}

/// The part of a configuration that is about text: all of it, unless the model is also one of images or sound.
pub fn text_config(json: &Json) -> &Json {
    json.get("text_config").filter(|text| text.is_object()).unwrap_or(json)
}

/// The beginning of a value, for a sentence.
fn excerpt(text: String) -> String {
    if text.chars().count() <= 60 { text } else { text.chars().take(60).chain(['…']).collect() }
}

/// Reads configuration values of one file.
pub struct Reader<'a> {
    pub file: &'a ModelFile,
    prefix: &'static str,
    /// Reads the encoder's numbers of a model that has a decoder too.
    encoder: bool,
}

impl<'a> Reader<'a> {
    pub fn new(file: &'a ModelFile, prefix: &'static str) -> Self {
        Self { file, prefix, encoder: false }
    }

    /// The same file's numbers of the encoder before the decoder.
    pub fn of_encoder(&self) -> Self {
        Self { encoder: true, ..*self }
    }

    pub fn gguf(&self) -> Option<&'a gguf::Metadata> {
        match self.file.metadata() {
            Metadata::Gguf(m) => Some(m),
            Metadata::Json(_) => None,
        }
    }

    pub fn json(&self) -> Option<&'a Json> {
        match self.file.metadata() {
            Metadata::Gguf(_) => None,
            Metadata::Json(j) => Some(text_config(j)),
        }
    }

    pub fn gguf_key(&self, key: Key) -> String {
        // A model of two stacks says which it means.
        let own = format!("{}.{}.{}", self.prefix, if self.encoder { "encoder" } else { "decoder" }, key.gguf);
        match self.gguf() {
            Some(m) if m.get(&own).is_some() => own,
            _ => format!("{}.{}", self.prefix, key.gguf),
        }
    }

    /// A config.json value that is there and not null.
    fn json_value(&self, key: Key) -> Option<(&'static str, &'a Json)> {
        let json = self.json()?;
        key.hf.iter().find_map(|k| {
            let value = match self.encoder {
                true => json.get(k.replace("decoder_", "encoder_").replace("max_target_", "max_source_")),
                false => json.get(*k),
            };
            value.filter(|v| !v.is_null()).map(|v| (*k, v))
        })
    }

    pub fn uint(&self, key: Key) -> Result<Option<usize>, Error> {
        if let Some(m) = self.gguf() {
            // Some exporters write one value per layer; they agree in every family we know.
            let name = self.gguf_key(key);
            if let Some(gguf::Value::Array(values)) = m.get(&name) {
                let layers = m.u64(&self.gguf_key(LAYERS))?.unwrap_or(0);
                return self.uniform(&name, values, layers);
            }
            return Ok(m.u64(&name)?.map(|v| v as usize));
        }
        self.json_value(key)
            .map(|(k, v)| self.typed(v, k, "a whole number is needed", |v| v.as_u64().map(|v| v as usize)))
            .transpose()
    }

    fn uniform(&self, name: &str, values: &gguf::Array, layers: u64) -> Result<Option<usize>, Error> {
        if values.len() as u64 != layers {
            let expected = format!("one for each of the {layers} layers is needed");
            return Err(self.bad(name, format!("a list of {} values", values.len()), &expected));
        }
        let all: Vec<i64> = values.i64s().map(|v| v.collect()).unwrap_or_default();
        match all.first() {
            Some(&first) if first >= 0 && all.iter().all(|v| *v == first) => Ok(Some(first as usize)),
            _ => Err(Error::NotSupported {
                path: self.file.path().into(),
                what: format!("{name:?} with values that differ between layers"),
            }),
        }
    }

    pub fn float(&self, key: Key) -> Result<Option<f32>, Error> {
        if let Some(m) = self.gguf() {
            return Ok(m.f32(&self.gguf_key(key))?);
        }
        self.json_value(key)
            .map(|(k, v)| self.typed(v, k, "a number is needed", |v| v.as_f64().map(|v| v as f32)))
            .transpose()
    }

    pub fn flag(&self, key: Key) -> Result<Option<bool>, Error> {
        if let Some(m) = self.gguf() {
            return Ok(m.bool(&self.gguf_key(key))?);
        }
        self.json_value(key).map(|(k, v)| self.typed(v, k, "true or false is needed", Json::as_bool)).transpose()
    }

    pub fn text(&self, key: Key) -> Result<Option<&'a str>, Error> {
        match (self.gguf(), self.json_value(key)) {
            (Some(m), _) => Ok(m.str(&self.gguf_key(key))?),
            (None, Some((name, value))) => self.typed(value, name, "a text is needed", Json::as_str).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// A value of `object` under the first of these names that is there and not null.
    pub fn member<T>(
        &self,
        object: &'a Json,
        names: &[&str],
        expected: &str,
        take: impl Fn(&'a Json) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let found = names.iter().find_map(|name| Some((*name, object.get(name).filter(|v| !v.is_null())?)));
        found.map(|(name, value)| self.typed(value, name, expected, take)).transpose()
    }

    fn typed<T>(
        &self,
        value: &'a Json,
        name: &str,
        expected: &str,
        take: impl Fn(&'a Json) -> Option<T>,
    ) -> Result<T, Error> {
        take(value).ok_or_else(|| self.bad(name, value, expected))
    }

    pub fn need(&self, key: Key) -> Result<usize, Error> {
        self.uint(key)?.ok_or_else(|| self.missing(key))
    }

    /// What the file calls a value, or all that it may be called where it is not there.
    pub fn name(&self, key: Key) -> String {
        match (self.gguf(), self.json_value(key)) {
            (Some(_), _) => self.gguf_key(key),
            (None, Some((name, _))) => name.into(),
            (None, None) => key.hf.join(" or "),
        }
    }

    pub fn missing(&self, key: Key) -> Error {
        Error::MissingKey { path: self.file.path().into(), key: self.name(key) }
    }

    pub fn bad(&self, key: &str, value: impl ToString, expected: &str) -> Error {
        Error::BadValue {
            path: self.file.path().into(),
            key: key.into(),
            value: excerpt(value.to_string()),
            expected: expected.into(),
        }
    }
}
