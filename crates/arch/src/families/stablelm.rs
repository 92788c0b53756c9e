//! StableLM: LayerNorm with biases, a quarter of each head rotates.

use super::llama::LLAMA;
use super::names::{gguf, hf};
use crate::descriptor::{ArchDescriptor, Norm, RopeStyle};

pub const STABLELM: ArchDescriptor = ArchDescriptor {
    name: "stablelm",
    hf: &["StableLmForCausalLM"],
    norm: Norm::Layer,
    gguf_rope: RopeStyle::SplitHalf,
    gguf_names: &[
        gguf::MODEL,
        gguf::PRE_NORMS,
        gguf::NORM_BIASES,
        gguf::ATTENTION,
        gguf::MAYBE_ATTENTION_BIASES,
        gguf::GATED_MLP,
    ],
    hf_names: &[hf::MODEL, hf::PRE_NORMS, hf::NORM_BIASES, hf::ATTENTION, hf::MAYBE_ATTENTION_BIASES, hf::GATED_MLP],
    ..LLAMA
};
