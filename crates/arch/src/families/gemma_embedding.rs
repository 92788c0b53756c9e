//! EmbeddingGemma: Gemma 3 that sees the whole text, and two dense layers after the mean.

use super::gemma3::GEMMA3;
use super::names::{gguf, hf};
use crate::descriptor::ArchDescriptor;

pub const GEMMA_EMBEDDING: ArchDescriptor = ArchDescriptor {
    name: "gemma-embedding",
    hf: &["Gemma3TextModel"],
    causal: false,
    wide_scale_layers: None,
    gguf_names: &[
        gguf::MODEL,
        gguf::PRE_NORMS,
        gguf::POST_NORMS,
        gguf::ATTENTION,
        gguf::QK_NORMS,
        gguf::GATED_MLP,
        gguf::DENSE,
    ],
    hf_names: &[hf::MODEL, hf::FOUR_NORMS, hf::ATTENTION, hf::QK_NORMS, hf::GATED_MLP, hf::DENSE],
    ..GEMMA3
};
