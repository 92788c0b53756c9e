//! Gemma 2: norms before and after each sublayer, soft caps, every other layer slides.

use super::gemma::GEMMA;
use super::names::{gguf, hf};
use crate::descriptor::{ArchDescriptor, WindowPattern};

pub const GEMMA2: ArchDescriptor = ArchDescriptor {
    name: "gemma2",
    hf: &["Gemma2ForCausalLM"],
    window_pattern: WindowPattern::ButEvery(2),
    default_window: Some(4096),
    wide_scale_layers: Some(46),
    gguf_names: &[gguf::MODEL, gguf::PRE_NORMS, gguf::POST_NORMS, gguf::ATTENTION, gguf::GATED_MLP],
    hf_names: &[hf::MODEL, hf::FOUR_NORMS, hf::ATTENTION, hf::GATED_MLP],
    ..GEMMA
};
