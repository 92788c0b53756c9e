//! Granite: Llama with multipliers on embeddings, residuals, attention and logits.

use super::llama::LLAMA;
use crate::descriptor::ArchDescriptor;

pub const GRANITE: ArchDescriptor =
    ArchDescriptor { name: "granite", hf: &["GraniteForCausalLM"], multipliers: true, rope_switch: true, ..LLAMA };
