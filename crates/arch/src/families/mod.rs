//! The registry of families: one file and one row each.

mod bert;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma_embedding;
mod granite;
mod granite4;
mod llama;
mod mistral3;
mod modernbert;
mod names;
mod nomic_bert;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod smollm3;
mod stablelm;
mod starcoder2;
mod whisper;
mod xlm_roberta;

pub(crate) use gemma::GEMMA;
pub(crate) use gemma2::GEMMA2;
pub(crate) use gemma3::GEMMA3;
pub(crate) use llama::LLAMA;
pub(crate) use qwen2::QWEN2;
pub(crate) use qwen3::QWEN3;
pub(crate) use smollm3::SMOLLM3;

use crate::ArchDescriptor;

/// Every family, in the order they are listed to people.
pub static FAMILIES: &[&ArchDescriptor] = &[
    &llama::LLAMA,
    &mistral3::MISTRAL3,
    &qwen2::QWEN2,
    &qwen3::QWEN3,
    &gemma::GEMMA,
    &gemma2::GEMMA2,
    &gemma3::GEMMA3,
    &granite::GRANITE,
    &granite4::GRANITE4,
    &smollm3::SMOLLM3,
    &phi3::PHI3,
    &olmo2::OLMO2,
    &stablelm::STABLELM,
    &starcoder2::STARCODER2,
    &bert::BERT,
    &xlm_roberta::XLM_ROBERTA,
    &nomic_bert::NOMIC_BERT,
    &modernbert::MODERNBERT,
    &gemma_embedding::GEMMA_EMBEDDING,
    &whisper::WHISPER,
];
