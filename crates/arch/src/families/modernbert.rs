//! ModernBERT: norms before the sublayers, RoPE with one base for local and one for global layers, GeGLU.

use super::bert::BERT;
use super::names::{gguf, hf};
use crate::descriptor::{Activation, ArchDescriptor, WindowPattern};
use crate::pooling::Pooling;

pub const MODERNBERT: ArchDescriptor = ArchDescriptor {
    name: "modern-bert",
    hf: &["ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification"],
    head_activation: Activation::GeluErf,
    head_pooling: Pooling::Mean,
    no_rope_every: None,
    window_pattern: WindowPattern::ButFirstOf(3),
    sliding_rope_base: Some(10_000.0),
    gguf_names: &[
        gguf::EMBEDDINGS,
        gguf::OUTPUT_NORM,
        gguf::MAYBE_ATTENTION_NORM,
        gguf::STACKED_ATTENTION,
        gguf::STACKED_MLP,
        gguf::HEAD,
    ],
    hf_names: &[hf::modern::EMBEDDINGS, hf::modern::LAYERS, hf::modern::HEAD],
    ..BERT
};
