//! Qwen 3, and its models that embed and that rank: normalized query and key heads, no biases.

use super::llama::LLAMA;
use super::names::{gguf, hf};
use crate::descriptor::{ArchDescriptor, RopeStyle};

pub const QWEN3: ArchDescriptor = ArchDescriptor {
    name: "qwen3",
    hf: &["Qwen3ForCausalLM", "Qwen3Model"],
    question: Some(QUESTION),
    gguf_rope: RopeStyle::SplitHalf,
    gguf_names: &[gguf::MODEL, gguf::PRE_NORMS, gguf::ATTENTION, gguf::QK_NORMS, gguf::GATED_MLP, gguf::ANSWERS],
    hf_names: &[hf::MODEL, hf::PRE_NORMS, hf::ATTENTION, hf::QK_NORMS, hf::GATED_MLP],
    ..LLAMA
};

/// Published with Qwen3-Reranker; the task is the one it names where nobody gives another.
const QUESTION: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct \
provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, \
retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n\
<think>\n\n</think>\n\n";
