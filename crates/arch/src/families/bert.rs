//! BERT: MiniLM, BGE, E5, GTE. Positions from a table, norms after every residual, biases everywhere, a plain MLP.

use super::llama::LLAMA;
use super::names::{gguf, hf};
use crate::descriptor::{Activation, ArchDescriptor, Norm, RopeStyle};

pub const BERT: ArchDescriptor = ArchDescriptor {
    name: "bert",
    hf: &["BertModel", "BertForSequenceClassification"],
    causal: false,
    norm: Norm::Layer,
    activation: Activation::GeluErf,
    gguf_rope: RopeStyle::SplitHalf,
    // None of them rotates.
    no_rope_every: Some(1),
    gguf_names: &[
        gguf::EMBEDDINGS,
        gguf::POSITIONS,
        gguf::EMBEDDING_NORM_BIAS,
        gguf::ATTENTION,
        gguf::SUM_NORMS,
        gguf::PLAIN_MLP,
        gguf::QKV_BIASES,
        gguf::OUT_AND_MLP_BIASES,
        gguf::HEAD,
    ],
    hf_names: &[hf::bert::EMBEDDINGS, hf::bert::LAYERS, hf::bert::HEAD],
    ..LLAMA
};
