//! Gemma 3 (text): Gemma 2 with normalized heads instead of caps, five sliding layers to a full one, two rope bases.

use super::gemma2::GEMMA2;
use super::names::{gguf, hf};
use crate::descriptor::{ArchDescriptor, WindowPattern};

pub const GEMMA3: ArchDescriptor = ArchDescriptor {
    name: "gemma3",
    hf: &["Gemma3ForCausalLM", "Gemma3TextModel"],
    window_pattern: WindowPattern::ButEvery(6),
    default_window: None,
    sliding_rope_base: Some(10_000.0),
    wide_scale_layers: Some(62),
    gguf_names: &[gguf::MODEL, gguf::PRE_NORMS, gguf::POST_NORMS, gguf::ATTENTION, gguf::QK_NORMS, gguf::GATED_MLP],
    hf_names: &[hf::MODEL, hf::FOUR_NORMS, hf::ATTENTION, hf::QK_NORMS, hf::GATED_MLP],
    ..GEMMA2
};
