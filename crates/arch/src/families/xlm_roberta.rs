//! XLM-RoBERTa: bge-m3, bge-reranker, multilingual-e5. BERT whose positions begin after the padding token's; in GGUF files it is
//! BERT.

use super::bert::BERT;
use super::names::hf;
use crate::descriptor::ArchDescriptor;

pub const XLM_ROBERTA: ArchDescriptor = ArchDescriptor {
    name: "xlm-roberta",
    hf: &["XLMRobertaModel", "XLMRobertaForSequenceClassification"],
    gguf_as: Some(&BERT),
    hf_first_position: 2,
    hf_names: &[hf::bert::EMBEDDINGS, hf::bert::LAYERS, hf::bert::ROBERTA_HEAD],
    ..BERT
};
