//! What sets one family apart from another, as plain data.
//!
//! Much that other engines branch on is not here, because the tensor names already say it: a
//! family with an `AttnPostNorm` has post-norms, one with a `QNorm` normalizes its heads (or the
//! whole width: its length says which), one without a `Gate` has a plain MLP, a file without an
//! `Output` is tied. A fact stated twice can disagree with itself.

use crate::pooling::Pooling;
use crate::weights::Name;

/// Element-wise function of the MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Silu,
    GeluTanh,
    GeluErf,
    /// Of classification heads only.
    Tanh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    Rms,
    Layer,
}

/// Which values of a head rotate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Values 2i and 2i+1.
    Interleaved,
    /// Values i and i + half.
    SplitHalf,
}

/// Which layers the configured sliding window applies to, where the file does not list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowPattern {
    All,
    /// All but every n-th layer.
    ButEvery(usize),
    /// All but the first of every n layers.
    ButFirstOf(usize),
}

impl WindowPattern {
    pub fn slides(self, layer: usize) -> bool {
        match self {
            WindowPattern::All => true,
            WindowPattern::ButEvery(n) => !(layer + 1).is_multiple_of(n),
            WindowPattern::ButFirstOf(n) => !layer.is_multiple_of(n),
        }
    }
}

/// Which cross-attention heads of a published model follow the speech: they time its words.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The model, by the decoder's shape.
    pub layers: usize,
    pub dim: usize,
    pub vocab: usize,
    /// Layer and head.
    pub heads: &'static [(usize, usize)],
}

/// One family.
#[derive(Clone, Copy, Debug)]
pub struct ArchDescriptor {
    /// `general.architecture` in GGUF, and the prefix of its keys.
    pub name: &'static str,
    /// `architectures` in config.json.
    pub hf: &'static [&'static str],
    /// The family as which GGUF files of this one pass, where they do not have its name.
    pub gguf_as: Option<&'static ArchDescriptor>,
    /// Rows see what stands before them; else the whole text, and there is nothing to generate.
    pub causal: bool,
    /// The stack whose result this one looks at through cross-attention: it takes frames of sound instead of tokens.
    pub encoder: Option<&'static ArchDescriptor>,
    pub timing: &'static [Timing],
    pub norm: Norm,
    /// Where the file does not name it.
    pub default_eps: Option<f32>,
    /// Added to norm weights of HF and MLX files; GGUF has it added already.
    pub hf_norm_weight_offset: f32,
    pub activation: Activation,
    /// Between the two matrices of a classification head.
    pub head_activation: Activation,
    /// Of its input, where the file does not say.
    pub head_pooling: Pooling,
    /// Rows of an HF table of positions before that of the first position.
    pub hf_first_position: usize,
    /// How GGUF query and key weights are laid out; HF and MLX are always split-half.
    pub gguf_rope: RopeStyle,
    /// Token embeddings are multiplied by √dim.
    pub scaled_embedding: bool,
    /// Reads the embedding, residual, attention and logit multipliers.
    pub multipliers: bool,
    pub window_pattern: WindowPattern,
    /// The window where a GGUF file does not name one.
    pub default_window: Option<usize>,
    /// Rope base of sliding layers where the file does not name one; `None`: the same as the others'.
    pub sliding_rope_base: Option<f32>,
    /// Files may say that no layer rotates.
    pub rope_switch: bool,
    /// What a model that answers yes or no is asked about a pair, with `{query}` and `{document}` where its texts stand.
    pub question: Option<&'static str>,
    /// Every n-th layer does without RoPE.
    pub no_rope_every: Option<usize>,
    /// GGUF does not say the attention scale: with this many layers it is 1/√(dim/heads) instead of 1/√head_dim.
    pub wide_scale_layers: Option<usize>,
    /// Tensor names, as the groups of `families::names` that this family has.
    pub gguf_names: &'static [&'static [Name]],
    pub hf_names: &'static [&'static [Name]],
}
