//! SmolLM 3: Llama with every fourth layer free of RoPE.

use super::llama::LLAMA;
use crate::descriptor::ArchDescriptor;

pub const SMOLLM3: ArchDescriptor =
    ArchDescriptor { name: "smollm3", hf: &["SmolLM3ForCausalLM"], no_rope_every: Some(4), ..LLAMA };
