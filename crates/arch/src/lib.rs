//! Model architectures as rows of data.
//!
//! A family is one [`ArchDescriptor`] row with its tensor names; this crate reads a model file
//! through it into a [`ModelConfig`] and validated [`Weights`]. Whoever comes after sees only
//! those: no other crate mentions an architecture's name.

#![forbid(unsafe_code)]

pub mod config;
pub mod descriptor;
pub mod error;
mod families;
mod keys;
pub mod outline;
mod pooling;
mod rope;
pub mod shapes;
pub mod weights;

pub use config::{Beyond, LayerConfig, ModelConfig, QueryGrowth, Rope};
pub use descriptor::{Activation, ArchDescriptor, Norm, RopeStyle};
pub use error::Error;
pub use families::FAMILIES;
pub use outline::Outline;
pub use pooling::Pooling;
pub use shapes::{SHAPES, Shape};
pub use weights::{Role, TensorSlice, Weights};

use akunu_dtype::{Planes, PlanesMut};
use akunu_formats::{Container, Metadata, ModelFile, Name};
use std::collections::HashSet;

/// A model file, understood: what to compute, and where its weights are.
pub struct Model {
    pub descriptor: &'static ArchDescriptor,
    pub config: ModelConfig,
    pub weights: Weights,
    /// Which values rotate together in this file's query and key weights.
    pub rope_style: RopeStyle,
    /// Added to every norm weight: some files store the distance from 1.
    pub norm_weight_offset: f32,
    /// The stack that cross-attention looks at.
    pub encoder: Option<Box<Model>>,
    /// What the file can do besides and this model does not: `vision`, `audio`.
    pub left_out: Vec<&'static str>,
}

impl Model {
    pub fn read(file: &ModelFile) -> Result<Model, Error> {
        let descriptor = find(file)?;
        let reader = keys::Reader::new(file, descriptor.name);
        let mut config = config::read(descriptor, &reader)?;
        let mut claimed = HashSet::new();
        let weights = weights::resolve(descriptor, &mut config, file, &mut claimed)?;
        config::check_biases(&reader, &weights)?;
        rope::fill(descriptor, &reader, &mut config, file, &weights)?;
        let mut model = Self::of_stack(descriptor, config, weights, file);
        if let Some(descriptor) = descriptor.encoder {
            let mut config = config::read_encoder(descriptor, &reader, &model.config)?;
            let weights = weights::resolve(descriptor, &mut config, file, &mut claimed)?;
            model.encoder = Some(Box::new(Self::of_stack(descriptor, config, weights, file)));
            model.config.timing_heads = config::timing_heads(model.descriptor, &reader, &model.config);
        }
        weights::nothing_left(descriptor, file, &claimed)?;
        if let Some((yes, no)) = model.config.answers
            && model.answer(yes, no).is_none()
        {
            return Err(reader.bad("true_token_id", yes, "it and false_token_id must be in the vocabulary"));
        }
        Ok(model)
    }

    fn of_stack(descriptor: &'static ArchDescriptor, config: ModelConfig, weights: Weights, file: &ModelFile) -> Model {
        let (rope_style, norm_weight_offset) = match file.container() {
            Container::Gguf | Container::Ggml => (descriptor.gguf_rope, 0.0),
            Container::Safetensors => (RopeStyle::SplitHalf, descriptor.hf_norm_weight_offset),
        };
        Model {
            descriptor,
            config,
            weights,
            rope_style,
            norm_weight_offset,
            encoder: None,
            left_out: weights::left_out(file),
        }
    }

    /// Makes a text's score of how much likelier the token `yes` is than `no` to come next; `None` where the vocabulary does not
    /// have them.
    pub fn answer(&mut self, yes: usize, no: Option<usize>) -> Option<()> {
        let weights = &mut self.weights;
        let output = weights.global(Role::Output).or(weights.global(Role::TokenEmbedding))?;
        weights.name_row(Role::Yes, output, yes)?;
        if let Some(no) = no {
            weights.name_row(Role::No, output, no)?;
        }
        (self.config.classes, self.config.head_pooling) = (1, Pooling::Last);
        Some(())
    }

    /// What the model is asked about a pair of texts, with `{query}` and `{document}` where they stand: as the file or else the
    /// family has it. `None` where a score is not an answer.
    pub fn question<'a>(&self, file: &'a ModelFile) -> Option<&'a str> {
        self.weights.global(Role::Yes)?;
        let own = match file.metadata() {
            Metadata::Gguf(metadata) => metadata.str("tokenizer.chat_template.rerank").ok().flatten(),
            Metadata::Json(_) => None,
        };
        let asks = |own: &&str| own.split_once("{document}").is_some_and(|(until, _)| until.contains("{query}"));
        own.filter(asks).or(self.descriptor.question)
    }

    /// Takes the ropes of a context of so many positions, for all of its positions. HF takes those of a text's length so far, and
    /// computes all keys anew where that passes the limit.
    pub fn for_context(&mut self, positions: usize) {
        if let Some(beyond) = self.config.beyond.as_ref().filter(|beyond| positions > beyond.positions) {
            self.config.ropes = beyond.ropes.clone();
        }
    }

    /// Rounds what is derived from the configuration (rope frequencies, embedding scale) to the
    /// checkpoint's float type, as happens to a PyTorch module that is cast as a whole.
    ///
    /// For comparing with such a module only. It costs angles: with bf16, up to a radian at
    /// position 500.
    pub fn round_constants(&mut self, file: &ModelFile) {
        let Some(slice) = self.weights.global(Role::TokenEmbedding) else { return };
        let format = file.tensors()[slice.tensor].dtype.format();
        let (Some(encode), None) = (format.encode, format.unpack) else { return };
        let mut bytes = vec![0; format.bytes];
        let mut round = |value: &mut f32| {
            encode(&[*value], PlanesMut { data: &mut bytes, ..PlanesMut::default() });
            (format.decode)(Planes { data: &bytes, ..Planes::default() }, std::slice::from_mut(value));
        };
        round(&mut self.config.embedding_scale);
        let config = &mut self.config;
        let ropes = config.ropes.iter_mut().chain(config.beyond.iter_mut().flat_map(|b| &mut b.ropes));
        ropes.flat_map(|r| &mut r.frequencies).for_each(round);
    }
}

/// The family a file says it is.
fn find(file: &ModelFile) -> Result<&'static ArchDescriptor, Error> {
    let path = || file.path().to_path_buf();
    let (named, found) = match file.metadata() {
        Metadata::Gguf(m) => {
            let name = m
                .str("general.architecture")?
                .ok_or_else(|| Error::MissingKey { path: path(), key: "general.architecture".into() })?;
            (name, FAMILIES.iter().find(|d| d.gguf_as.is_none() && d.name == name))
        }
        Metadata::Json(config) => {
            let name = config["architectures"][0]
                .as_str()
                .ok_or_else(|| Error::MissingKey { path: path(), key: "architectures".into() })?;
            // One that sees the whole text may have the name of one that does not.
            let causal = keys::text_config(config)["use_bidirectional_attention"].as_bool() != Some(true);
            let named = || FAMILIES.iter().filter(|d| d.hf.contains(&name));
            (name, named().find(|d| d.causal == causal).or(named().next()))
        }
    };
    found.copied().ok_or_else(|| Error::UnknownArchitecture {
        path: path(),
        name: Name::new(named),
        known: FAMILIES.iter().map(|d| d.name).collect::<Vec<_>>().join(", "),
    })
}
