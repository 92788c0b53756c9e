//! Gemma 1: scaled embeddings, norm weights stored as the distance from 1, GELU.

use super::llama::LLAMA;
use crate::descriptor::{Activation, ArchDescriptor, RopeStyle};

pub const GEMMA: ArchDescriptor = ArchDescriptor {
    name: "gemma",
    hf: &["GemmaForCausalLM"],
    hf_norm_weight_offset: 1.0,
    activation: Activation::GeluTanh,
    gguf_rope: RopeStyle::SplitHalf,
    scaled_embedding: true,
    ..LLAMA
};
