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

pub use config::{LayerConfig, ModelConfig, Rope};
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
        Ok(model)
    }

    fn of_stack(descriptor: &'static ArchDescriptor, config: ModelConfig, weights: Weights, file: &ModelFile) -> Model {
        let (rope_style, norm_weight_offset) = match file.container() {
            Container::Gguf | Container::Ggml => (descriptor.gguf_rope, 0.0),
            Container::Safetensors => (RopeStyle::SplitHalf, descriptor.hf_norm_weight_offset),
        };
        Model { descriptor, config, weights, rope_style, norm_weight_offset, encoder: None }
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
        self.config.ropes.iter_mut().flat_map(|r| &mut r.frequencies).for_each(round);
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
            (name, FAMILIES.iter().find(|d| d.name == name))
        }
        Metadata::Json(config) => {
            let name = config["architectures"][0]
                .as_str()
                .ok_or_else(|| Error::MissingKey { path: path(), key: "architectures".into() })?;
            (name, FAMILIES.iter().find(|d| d.hf.contains(&name)))
        }
    };
    found.copied().ok_or_else(|| Error::UnknownArchitecture {
        path: path(),
        name: Name::new(named),
        known: FAMILIES.iter().map(|d| d.name).collect::<Vec<_>>().join(", "),
    })
}
