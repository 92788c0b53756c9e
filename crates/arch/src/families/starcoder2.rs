//! StarCoder 2: LayerNorm, biases everywhere, a plain MLP with GELU.

use super::llama::LLAMA;
use super::names::{gguf, hf};
use crate::descriptor::{Activation, ArchDescriptor, Norm, RopeStyle};

pub const STARCODER2: ArchDescriptor = ArchDescriptor {
    name: "starcoder2",
    hf: &["Starcoder2ForCausalLM"],
    norm: Norm::Layer,
    activation: Activation::GeluTanh,
    gguf_rope: RopeStyle::SplitHalf,
    gguf_names: &[
        gguf::MODEL,
        gguf::PRE_NORMS,
        gguf::NORM_BIASES,
        gguf::ATTENTION,
        gguf::MAYBE_ATTENTION_BIASES,
        gguf::PLAIN_MLP,
        gguf::MAYBE_MLP_BIASES,
    ],
    hf_names: &[hf::MODEL, hf::PRE_NORMS, hf::NORM_BIASES, hf::ATTENTION, hf::MAYBE_ATTENTION_BIASES, hf::PLAIN_MLP],
    ..LLAMA
};
