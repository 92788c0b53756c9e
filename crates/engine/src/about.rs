//! What a model file is for, without loading it.

use crate::Error;
use akunu_arch::Model;
use akunu_dtype::DType;
use akunu_formats::ModelFile;
use std::collections::HashMap;

/// What a model does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Writes text.
    Generate,
    /// Reads text: vectors.
    Embed,
    /// Reads pairs of texts: scores.
    Rank,
    /// Writes down speech.
    Transcribe,
}

impl Purpose {
    /// Its name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Generate => "generate",
            Purpose::Embed => "embed",
            Purpose::Rank => "rank",
            Purpose::Transcribe => "transcribe",
        }
    }
}

/// What a file says of its model.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// What it does.
    pub purpose: Purpose,
    /// The architecture's name.
    pub architecture: &'static str,
    /// Numbers in all of its tensors.
    pub parameters: u64,
    /// Bytes of its tensors.
    pub bytes: u64,
    /// The number format that most of its bytes have.
    pub format: DType,
    /// The longest context that it was made for.
    pub context: usize,
    /// Values of an embedding.
    pub width: usize,
    /// Tokens in its vocabulary.
    pub vocab: usize,
    /// Layers.
    pub layers: usize,
}

impl About {
    /// Reads a file's header.
    pub fn read(file: &ModelFile) -> Result<About, Error> {
        let model = Model::read(file)?;
        let config = &model.config;
        let purpose = match () {
            () if model.encoder.is_some() => Purpose::Transcribe,
            () if config.classes > 0 => Purpose::Rank,
            () if model.descriptor.causal && config.pooling.is_none() => Purpose::Generate,
            () => Purpose::Embed,
        };
        let mut by_format: HashMap<DType, u64> = HashMap::new();
        let (mut parameters, mut bytes) = (0, 0);
        for tensor in file.tensors() {
            let size = (tensor.data.len + tensor.scales.len + tensor.biases.len) as u64;
            parameters += tensor.elements() as u64;
            bytes += size;
            *by_format.entry(tensor.dtype).or_default() += size;
        }
        let format = by_format.into_iter().max_by_key(|(format, bytes)| (*bytes, *format));
        Ok(About {
            purpose,
            architecture: model.descriptor.name,
            parameters,
            bytes,
            format: format.map_or(DType::F32, |(format, _)| format),
            context: config.context,
            width: config.embedding_width(),
            vocab: config.vocab,
            layers: config.layers.len(),
        })
    }
}
