//! Llama 2 and 3, Mistral, SmolLM2, TinyLlama; the row others derive from.

use super::names::{gguf, hf};
use crate::descriptor::{Activation, ArchDescriptor, Norm, RopeStyle, WindowPattern};
use crate::pooling::Pooling;

pub const LLAMA: ArchDescriptor = ArchDescriptor {
    name: "llama",
    hf: &["LlamaForCausalLM", "MistralForCausalLM"],
    gguf_as: None,
    causal: true,
    encoder: None,
    timing: &[],
    norm: Norm::Rms,
    default_eps: None,
    hf_norm_weight_offset: 0.0,
    activation: Activation::Silu,
    head_activation: Activation::Tanh,
    head_pooling: Pooling::First,
    hf_first_position: 0,
    gguf_rope: RopeStyle::Interleaved,
    scaled_embedding: false,
    multipliers: false,
    window_pattern: WindowPattern::All,
    default_window: None,
    sliding_rope_base: None,
    rope_switch: false,
    question: None,
    no_rope_every: None,
    wide_scale_layers: None,
    gguf_names: &[
        gguf::MODEL,
        gguf::ROPE_FACTORS,
        gguf::PRE_NORMS,
        gguf::ATTENTION,
        gguf::MAYBE_ATTENTION_BIASES,
        gguf::GATED_MLP,
    ],
    hf_names: &[hf::MODEL, hf::PRE_NORMS, hf::ATTENTION, hf::MAYBE_ATTENTION_BIASES, hf::GATED_MLP],
};
