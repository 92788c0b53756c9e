//! OLMo 2: norms after the sublayers only, queries and keys normalized over their whole width.

use super::llama::LLAMA;
use super::names::{gguf, hf};
use crate::descriptor::{ArchDescriptor, RopeStyle};

pub const OLMO2: ArchDescriptor = ArchDescriptor {
    name: "olmo2",
    hf: &["Olmo2ForCausalLM"],
    gguf_rope: RopeStyle::SplitHalf,
    gguf_names: &[gguf::MODEL, gguf::POST_NORMS, gguf::ATTENTION, gguf::QK_NORMS, gguf::GATED_MLP],
    hf_names: &[hf::MODEL, hf::POST_NORMS, hf::ATTENTION, hf::QK_NORMS, hf::GATED_MLP],
    ..LLAMA
};
