//! Phi 3 and 4: query, key and value weights stacked in one tensor, gate and up in another.

use super::llama::LLAMA;
use super::names::{gguf, hf};
use crate::descriptor::{ArchDescriptor, RopeStyle};

pub const PHI3: ArchDescriptor = ArchDescriptor {
    name: "phi3",
    hf: &["Phi3ForCausalLM"],
    gguf_rope: RopeStyle::SplitHalf,
    gguf_names: &[gguf::MODEL, gguf::ROPE_LISTS, gguf::PRE_NORMS, gguf::STACKED_ATTENTION, gguf::STACKED_MLP],
    hf_names: &[hf::MODEL, hf::PRE_NORMS, hf::STACKED_ATTENTION, hf::STACKED_MLP],
    ..LLAMA
};
