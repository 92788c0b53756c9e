//! Qwen 2 and 2.5: biases on queries, keys and values.

use super::llama::LLAMA;
use super::names::{gguf, hf};
use crate::descriptor::{ArchDescriptor, RopeStyle};

pub const QWEN2: ArchDescriptor = ArchDescriptor {
    name: "qwen2",
    hf: &["Qwen2ForCausalLM"],
    gguf_rope: RopeStyle::SplitHalf,
    gguf_names: &[gguf::MODEL, gguf::PRE_NORMS, gguf::ATTENTION, gguf::QKV_BIASES, gguf::GATED_MLP],
    hf_names: &[hf::MODEL, hf::PRE_NORMS, hf::ATTENTION, hf::QKV_BIASES, hf::GATED_MLP],
    ..LLAMA
};
