//! Qwen 3: normalized query and key heads, no biases.

use super::llama::LLAMA;
use super::names::{gguf, hf};
use crate::descriptor::{ArchDescriptor, RopeStyle};

pub const QWEN3: ArchDescriptor = ArchDescriptor {
    name: "qwen3",
    hf: &["Qwen3ForCausalLM"],
    gguf_rope: RopeStyle::SplitHalf,
    gguf_names: &[gguf::MODEL, gguf::PRE_NORMS, gguf::ATTENTION, gguf::QK_NORMS, gguf::GATED_MLP],
    hf_names: &[hf::MODEL, hf::PRE_NORMS, hf::ATTENTION, hf::QK_NORMS, hf::GATED_MLP],
    ..LLAMA
};
