//! Canonical weights: which tensor of a file, or which rows of one, plays which role.

use crate::{ArchDescriptor, Error, ModelConfig, Pooling};
use akunu_formats::{Container, ModelFile, Name as TensorName, Tensor};
use std::collections::{HashMap, HashSet};

/// The part a tensor plays in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    TokenEmbedding,
    OutputNorm,
    OutputNormBias,
    Output,
    /// Divisors of the rope frequencies, one per pair.
    RopeFactors,
    /// The same for contexts up to the original one, and for longer ones.
    RopeShort,
    RopeLong,
    AttnNorm,
    AttnNormBias,
    Q,
    K,
    V,
    QBias,
    KBias,
    VBias,
    QNorm,
    KNorm,
    AttnOut,
    AttnOutBias,
    AttnPostNorm,
    FfnNorm,
    FfnNormBias,
    Gate,
    Up,
    UpBias,
    Down,
    DownBias,
    FfnPostNorm,
    /// Added to the embedding of the token.
    Positions,
    Segments,
    EmbeddingNorm,
    EmbeddingNormBias,
    /// Norms of the residual stream after a sublayer was added to it.
    AttnSumNorm,
    AttnSumNormBias,
    FfnSumNorm,
    FfnSumNormBias,
    /// The first matrix of a classification head, and what follows it.
    Head,
    HeadBias,
    HeadNorm,
    Classes,
    ClassesBias,
    /// The output's rows of two answers, where a score is how much likelier the first is.
    Yes,
    No,
    /// Dense layers after pooling.
    Dense1,
    Dense2,
    /// Convolutions over an encoder's frames, three taps each; the second takes every other position.
    Conv1,
    Conv1Bias,
    Conv2,
    Conv2Bias,
    /// Attention of a decoder to what its encoder gave.
    CrossNorm,
    CrossNormBias,
    CrossQ,
    CrossQBias,
    CrossK,
    CrossV,
    CrossVBias,
    CrossOut,
    CrossOutBias,
}

/// Which rows of a tensor a role takes: files stack weights that are used together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackedRows {
    Whole,
    Q,
    K,
    V,
    Gate,
    Up,
    First,
    /// Where there is one.
    Second,
}

/// One row of a name map; `{}` in the pattern is the layer.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    pub role: Role,
    pub pattern: &'static str,
    pub rows: StackedRows,
    pub required: bool,
}

/// A tensor the family cannot do without.
pub const fn name(role: Role, pattern: &'static str) -> Name {
    Name { role, pattern, rows: StackedRows::Whole, required: true }
}

/// A tensor some files of the family have.
pub const fn maybe(role: Role, pattern: &'static str) -> Name {
    Name { role, pattern, rows: StackedRows::Whole, required: false }
}

/// Some rows of a stacked tensor.
pub const fn stacked(role: Role, pattern: &'static str, rows: StackedRows) -> Name {
    Name { role, pattern, rows, required: true }
}

/// Rows `row..row + rows` of a tensor; a vector is one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSlice {
    /// Index into `ModelFile::tensors`.
    pub tensor: usize,
    pub row: usize,
    pub rows: usize,
    pub cols: usize,
}

/// One row of a tensor some files of the family have.
pub const fn maybe_row(role: Role, pattern: &'static str, rows: StackedRows) -> Name {
    Name { role, pattern, rows, required: false }
}

/// The weights of a model by role and layer.
pub struct Weights {
    slices: HashMap<(Role, Option<usize>), TensorSlice>,
}

impl Weights {
    /// A weight of the whole model.
    pub fn global(&self, role: Role) -> Option<TensorSlice> {
        self.slices.get(&(role, None)).copied()
    }

    /// A weight of one layer.
    pub fn layer(&self, role: Role, layer: usize) -> Option<TensorSlice> {
        self.slices.get(&(role, Some(layer))).copied()
    }

    /// A weight of the model or of one of its layers.
    pub fn get(&self, role: Role, layer: Option<usize>) -> Option<TensorSlice> {
        self.slices.get(&(role, layer)).copied()
    }

    /// Gives a role to a row of a weight of the whole model; `None` where it has no such row.
    pub(crate) fn name_row(&mut self, role: Role, of: TensorSlice, row: usize) -> Option<()> {
        let slice = TensorSlice { row: of.row + row, rows: 1, ..of };
        (row < of.rows).then(|| self.slices.insert((role, None), slice)).map(|_| ())
    }

    /// Every weight with its role and layer, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Role, Option<usize>, TensorSlice)> {
        self.slices.iter().map(|(&(role, layer), &slice)| (role, layer, slice))
    }
}

/// Tensors that old exporters wrote and nobody needs.
const IGNORED_SUFFIXES: &[&str] =
    &["rotary_emb.inv_freq", "attn_rot_embd", "attn.masked_bias", "embeddings.position_ids"];

/// Heads for the tasks encoders were trained with.
const IGNORED_PREFIXES: &[&str] = &["cls.predictions.", "cls.seq_relationship.", "decoder.bias", "pooler."];

/// Parts of models that do more than read and write text, and what they are for: the text is computed without them.
const TOWERS: &[(&str, &str)] = &[
    ("vision_tower.", "vision"),
    ("multi_modal_projector.", "vision"),
    ("embed_vision.", "vision"),
    ("audio_tower.", "audio"),
    ("embed_audio.", "audio"),
];

/// What HF puts before every name of the model proper, or leaves away, depending on the class that was saved.
const PREFIXES: &[&str] =
    &["language_model.model.", "language_model.", "model.language_model.", "model.", "bert.", "roberta."];

fn bare(name: &str) -> &str {
    PREFIXES.iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name)
}

/// Finds every weight of the family in the file and checks its shape against the configuration.
pub fn resolve(
    descriptor: &'static ArchDescriptor,
    config: &mut ModelConfig,
    file: &ModelFile,
    claimed: &mut HashSet<usize>,
) -> Result<Weights, Error> {
    let names = match file.container() {
        Container::Gguf | Container::Ggml => descriptor.gguf_names,
        Container::Safetensors => descriptor.hf_names,
    };
    let by_name: HashMap<&str, usize> = file.tensors().iter().enumerate().map(|(i, t)| (bare(&t.name), i)).collect();
    let layers = config.layers.len();
    let mut slices = HashMap::new();
    let mut claim = |entry: &Name, layer: Option<usize>| -> Result<(), Error> {
        let name = match layer {
            Some(l) => entry.pattern.replace("{}", &l.to_string()),
            None => entry.pattern.to_string(),
        };
        let Some(&index) = by_name.get(bare(&name)) else {
            return match entry.required {
                true => Err(Error::MissingTensor { path: file.path().into(), name }),
                false => Ok(()),
            };
        };
        claimed.insert(index);
        let tensor = &file.tensors()[index];
        if entry.rows == StackedRows::Second && tensor.rows() < 2 {
            return Ok(());
        }
        slices.insert((entry.role, layer), slice(descriptor, config, entry, index, tensor, file)?);
        Ok(())
    };
    for entry in names.iter().copied().flatten() {
        if entry.pattern.contains("{}") {
            (0..layers).try_for_each(|l| claim(entry, Some(l)))?;
        } else {
            claim(entry, None)?;
        }
    }
    Ok(Weights { slices })
}

/// What the file's towers are for, which are left out.
pub fn left_out(file: &ModelFile) -> Vec<&'static str> {
    let mut kinds: Vec<&str> = file.tensors().iter().filter_map(|t| tower(&t.name)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn tower(name: &str) -> Option<&'static str> {
    TOWERS.iter().find(|(prefix, _)| bare(name).starts_with(prefix)).map(|(_, kind)| *kind)
}

/// Refuses a file with tensors that nobody claims: computing without them would be silently wrong.
pub fn nothing_left(descriptor: &ArchDescriptor, file: &ModelFile, claimed: &HashSet<usize>) -> Result<(), Error> {
    let stray = file.tensors().iter().enumerate().find(|(i, t)| {
        !claimed.contains(i)
            && !IGNORED_SUFFIXES.iter().any(|s| t.name.trim_end_matches(".weight").ends_with(s))
            && !IGNORED_PREFIXES.iter().any(|p| bare(&t.name).starts_with(p))
            && tower(&t.name).is_none()
    });
    if let Some((_, tensor)) = stray {
        return Err(Error::UnexpectedTensor {
            path: file.path().into(),
            name: TensorName::new(&tensor.name),
            architecture: descriptor.name,
        });
    }
    Ok(())
}

/// The shape of a role's weight; head norms as one per head.
pub(crate) fn shape(role: Role, c: &ModelConfig) -> Vec<usize> {
    let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    match role {
        Role::TokenEmbedding | Role::Output => vec![c.vocab, c.dim],
        Role::OutputNorm | Role::OutputNormBias | Role::AttnNorm | Role::AttnNormBias => vec![c.dim],
        Role::AttnPostNorm | Role::FfnNorm | Role::FfnNormBias | Role::FfnPostNorm => vec![c.dim],
        Role::RopeFactors | Role::RopeShort | Role::RopeLong => vec![c.rotated / 2],
        Role::Q => vec![q, c.dim],
        Role::K | Role::V => vec![kv, c.dim],
        Role::QBias => vec![q],
        Role::KBias | Role::VBias => vec![kv],
        Role::QNorm | Role::KNorm => vec![c.head_dim],
        Role::AttnOut => vec![c.dim, q],
        Role::AttnOutBias | Role::DownBias => vec![c.dim],
        Role::Gate | Role::Up => vec![c.ffn, c.dim],
        Role::UpBias => vec![c.ffn],
        Role::Down => vec![c.dim, c.ffn],
        Role::Positions => vec![c.context, c.dim],
        Role::Segments => vec![c.segments, c.dim],
        Role::EmbeddingNorm | Role::EmbeddingNormBias => vec![c.dim],
        Role::AttnSumNorm | Role::AttnSumNormBias | Role::FfnSumNorm | Role::FfnSumNormBias => vec![c.dim],
        Role::Head => vec![c.dim, c.dim],
        Role::HeadBias | Role::HeadNorm => vec![c.dim],
        Role::Classes => vec![c.classes, c.dim],
        Role::ClassesBias => vec![c.classes],
        Role::Yes | Role::No => vec![1, c.dim],
        Role::Dense1 => vec![c.dense[0], c.dim],
        Role::Dense2 => vec![c.dense[1], c.dense[0]],
        Role::Conv1 => vec![c.dim, c.mels, 3],
        Role::Conv2 => vec![c.dim, c.dim, 3],
        Role::Conv1Bias | Role::Conv2Bias | Role::CrossNorm | Role::CrossNormBias | Role::CrossOutBias => vec![c.dim],
        Role::CrossQ => vec![q, c.dim],
        Role::CrossK | Role::CrossV => vec![kv, c.dim],
        Role::CrossQBias => vec![q],
        Role::CrossVBias => vec![kv],
        Role::CrossOut => vec![c.dim, q],
    }
}

/// The rows of `tensor` that play the entry's role, after checking the tensor's shape.
fn slice(
    descriptor: &ArchDescriptor,
    config: &mut ModelConfig,
    entry: &Name,
    index: usize,
    tensor: &Tensor,
    file: &ModelFile,
) -> Result<TensorSlice, Error> {
    let found = &tensor.shape;
    // Facts of these tables, which metadata may leave out.
    let first = match (entry.role, file.container()) {
        (Role::Positions, Container::Safetensors) => descriptor.hf_first_position,
        _ => 0,
    };
    let table = found.first().copied().unwrap_or(0).max(1);
    match entry.role {
        Role::TokenEmbedding => config.vocab = table,
        Role::Segments => config.segments = table,
        Role::Classes => config.classes = table,
        Role::Yes => (config.classes, config.head_pooling) = (1, Pooling::Last),
        Role::Dense1 => config.dense[0] = table,
        Role::Dense2 => config.dense[1] = table,
        // A model has as many positions as its table has rows left.
        Role::Positions => config.context = config.context.min(table.saturating_sub(first)).max(1),
        _ => {}
    }
    let c = &*config;
    let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    let whole = match entry.role {
        // Per head, or over the whole width.
        Role::QNorm if found.as_slice() == [q] => vec![q],
        Role::KNorm if found.as_slice() == [kv] => vec![kv],
        role => shape(role, c),
    };
    let mut expected = whole.clone();
    let row = match entry.rows {
        StackedRows::Whole if entry.role == Role::Positions => {
            expected[0] = table.max(first + c.context);
            first
        }
        StackedRows::Whole => 0,
        StackedRows::Q | StackedRows::K | StackedRows::V => {
            expected[0] = q + 2 * kv;
            [0, q, q + kv][entry.rows as usize - StackedRows::Q as usize]
        }
        StackedRows::First | StackedRows::Second => {
            expected[0] = table.min(2);
            entry.rows as usize - StackedRows::First as usize
        }
        StackedRows::Gate | StackedRows::Up => {
            expected[0] = 2 * c.ffn;
            [0, c.ffn][entry.rows as usize - StackedRows::Gate as usize]
        }
    };
    if *found != expected {
        return Err(Error::Shape {
            path: file.path().into(),
            name: tensor.name.clone(),
            found: found.clone(),
            expected,
        });
    }
    // The taps of a convolution's channel stand together: its weight is a matrix as it lies.
    let (rows, cols) = if whole.len() > 1 { (whole[0], whole[1..].iter().product()) } else { (1, whole[0]) };
    Ok(TensorSlice { tensor: index, row, rows, cols })
}
