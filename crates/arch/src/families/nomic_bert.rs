//! nomic-bert: BERT with RoPE instead of a table, SwiGLU, and no biases but those of the norms.

use super::bert::BERT;
use super::names::{gguf, hf};
use crate::descriptor::{Activation, ArchDescriptor};

pub const NOMIC_BERT: ArchDescriptor = ArchDescriptor {
    name: "nomic-bert",
    hf: &["NomicBertModel"],
    activation: Activation::Silu,
    no_rope_every: None,
    gguf_names: &[
        gguf::EMBEDDINGS,
        gguf::EMBEDDING_NORM_BIAS,
        gguf::STACKED_ATTENTION,
        gguf::SUM_NORMS,
        gguf::GATED_MLP,
    ],
    hf_names: &[hf::nomic::EMBEDDINGS, hf::nomic::LAYERS],
    ..BERT
};
