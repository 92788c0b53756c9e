//! Granite 4, the dense models: Granite with gate and up in one tensor; in GGUF files it is Granite.

use super::granite::GRANITE;
use super::names::hf;
use crate::descriptor::ArchDescriptor;

pub const GRANITE4: ArchDescriptor = ArchDescriptor {
    name: "granite4",
    hf: &["GraniteMoeHybridForCausalLM"],
    gguf_as: Some(&GRANITE),
    hf_names: &[hf::MODEL, hf::PRE_NORMS, hf::ATTENTION, hf::SHARED_MLP],
    ..GRANITE
};
