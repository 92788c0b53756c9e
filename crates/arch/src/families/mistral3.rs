//! Mistral 3 and Ministral 3 (text): Llama whose queries grow with their position.

use super::llama::LLAMA;
use crate::descriptor::ArchDescriptor;

pub const MISTRAL3: ArchDescriptor =
    ArchDescriptor { name: "mistral3", hf: &["Ministral3ForCausalLM", "Mistral3ForConditionalGeneration"], ..LLAMA };
