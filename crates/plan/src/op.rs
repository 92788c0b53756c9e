//! The op table: what every op means, its operands, its parameters.
//!
//! Ops carry meaning, not kernels. Parameters are plain `repr(C)` structs of 4-byte fields,
//! because they are copied into the bound records as they are.

/// What an op computes. `n` rows below are the step's rows, or its output rows (see [`Per`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum OpKind {
    /// `y[r] = scale * table[index(r)]`; see [`Index`]
    Embed,
    /// `y[r] = (cos, sin)(position(r) * frequency[i]) * magnitude(position(r))`, as `[pairs][2]`
    RopeAngles,
    /// `y = residual + scale * (normalize(x) * weight + bias)`
    Norm,
    /// `y = x` in the form that products take it in; see [`crate::program::ActivationLayout`]
    Convert,
    /// `y = residual + cap(scale * activation(x · Wᵀ + bias))`; `maxima[c]` is the largest of the `c`-th
    /// [`MAXIMA_SLICE`] values of `y`, NaN aside
    MatMul,
    /// `y = activation(x · Wᵀ) * (x · Uᵀ)`
    MatMulGated,
    /// `rope(norm(x · Wᵀ + bias))` per head: queries, to `y`, or keys or values, into the KV cache; see [`Makes`]
    MatMulHeads,
    /// `y = activation(x) * u`
    GatedActivation,
    /// `y = a + scale * b`
    Add,
    /// `q, k = rope(norm(q), norm(k))` per head; `k, v` go into the KV cache, `q` stays in place where there is one
    HeadNormRopeKvWrite,
    /// `x = rope(norm(x))` per head, in place
    HeadNormRope,
    /// `y = softmax(cap(scale * q · Kᵀ) + mask) · V` per head, over the row's sequence: keys and values are in the KV
    /// cache, or are the step's own rows
    Attention,
    /// `y[o] = x[output_row(o)]`
    GatherRows,
    /// `y[o] =` mean of `x` over the rows of the sequence that `output_row(o)` belongs to
    MeanRows,
    /// `y[r][c * taps + t] = x[r * stride + t - taps / 2][c]`, zero outside: the frames that a convolution's weight, as a
    /// matrix, multiplies for one of its results
    Unfold,
    /// `y[r][at..at + positions] = softmax(scale * q · Kᵀ)` of one head, over the positions of the KV cache the row sees
    AttentionWeights,
    /// Where the output's text has rules ([`crate::rules`]) and has not ended: makes of `x[o]` what may not come next minus
    /// infinity, and `maxima[o]` those of what is left; `total[o] = ln Σ e^x`. Elsewhere `total[o] = 0` and nothing changes
    Suppress,
    /// `y[o]` is the token that [`crate::draw::DrawVars`] of the output draw from `x[o]`, or [`NONE_DRAWN`]
    Sample,
    /// Takes for every output row what was drawn, or else the first of its largest logits, as that row's next token and
    /// moves it one position on; where its text has rules, the text too
    Advance,
}

/// Which count of the step an op's rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Per {
    /// The step's rows (tokens going in).
    Row,
    /// The step's output rows (logits coming out).
    Output,
    /// The step's input frames: two for every row.
    Frame,
}

/// How an operand is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
    ReadWrite,
}

/// What may stand in an operand slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// An f32 activation buffer.
    F32,
    /// An activation buffer, f32 or int8 blocks.
    Activation,
    /// A weight matrix in any number format.
    Weight,
    /// A constant f32 vector.
    Vector,
    /// The KV cache of the layer's group.
    Kv,
}

/// One operand slot of an op.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub name: &'static str,
    pub holds: Holds,
    pub used: Use,
    pub required: bool,
}

/// The most operands any op has.
pub const MAX_SLOTS: usize = 8;

/// One row of the op table.
pub struct OpSpec {
    pub kind: OpKind,
    pub name: &'static str,
    pub slots: &'static [Slot],
}

const fn slot(name: &'static str, holds: Holds, used: Use) -> Slot {
    Slot { name, holds, used, required: true }
}

const fn optional(name: &'static str, holds: Holds, used: Use) -> Slot {
    Slot { name, holds, used, required: false }
}

mod params;
pub mod slots;

pub use params::*;

use Holds::*;
use Use::*;

/// The op table. The verifier checks every program against it.
pub static OPS: &[OpSpec] = &[
    OpSpec { kind: OpKind::Embed, name: "embed", slots: &[slot("table", Weight, Read), slot("y", F32, Write)] },
    OpSpec {
        kind: OpKind::RopeAngles,
        name: "rope_angles",
        slots: &[slot("frequencies", Vector, Read), slot("y", F32, Write)],
    },
    OpSpec {
        kind: OpKind::Norm,
        name: "norm",
        slots: &[
            slot("x", F32, Read),
            slot("y", Activation, Write),
            slot("weight", Vector, Read),
            optional("bias", Vector, Read),
            optional("residual", F32, Read),
        ],
    },
    OpSpec { kind: OpKind::Convert, name: "convert", slots: &[slot("x", F32, Read), slot("y", Activation, Write)] },
    OpSpec {
        kind: OpKind::MatMul,
        name: "matmul",
        slots: &[
            slot("x", Activation, Read),
            slot("y", Activation, Write),
            slot("w", Weight, Read),
            optional("bias", Vector, Read),
            optional("residual", F32, Read),
            optional("maxima", F32, Write),
        ],
    },
    OpSpec {
        kind: OpKind::MatMulGated,
        name: "matmul_gated",
        slots: &[
            slot("x", Activation, Read),
            slot("y", Activation, Write),
            slot("w", Weight, Read),
            slot("u", Weight, Read),
        ],
    },
    OpSpec {
        kind: OpKind::MatMulHeads,
        name: "matmul_heads",
        slots: &[
            slot("x", Activation, Read),
            optional("y", F32, Write),
            slot("w", Weight, Read),
            optional("bias", Vector, Read),
            optional("angles", F32, Read),
            optional("norm", Vector, Read),
            optional("kv", Kv, Write),
        ],
    },
    OpSpec {
        kind: OpKind::GatedActivation,
        name: "gated_activation",
        slots: &[slot("x", F32, Read), slot("y", Activation, Write), slot("u", F32, Read)],
    },
    OpSpec {
        kind: OpKind::Add,
        name: "add",
        slots: &[slot("a", F32, Read), slot("y", F32, Write), slot("b", F32, Read)],
    },
    OpSpec {
        kind: OpKind::HeadNormRopeKvWrite,
        name: "head_norm_rope_kv_write",
        slots: &[
            optional("q", F32, ReadWrite),
            slot("k", F32, Read),
            slot("v", F32, Read),
            optional("angles", F32, Read),
            optional("q_norm", Vector, Read),
            optional("k_norm", Vector, Read),
            slot("kv", Kv, Write),
        ],
    },
    OpSpec {
        kind: OpKind::HeadNormRope,
        name: "head_norm_rope",
        slots: &[slot("x", F32, ReadWrite), optional("angles", F32, Read), optional("norm", Vector, Read)],
    },
    OpSpec {
        kind: OpKind::Attention,
        name: "attention",
        slots: &[
            slot("q", F32, Read),
            slot("y", Activation, Write),
            optional("kv", Kv, Read),
            optional("k", F32, Read),
            optional("v", F32, Read),
        ],
    },
    OpSpec { kind: OpKind::GatherRows, name: "gather_rows", slots: &[slot("x", F32, Read), slot("y", F32, Write)] },
    OpSpec { kind: OpKind::MeanRows, name: "mean_rows", slots: &[slot("x", F32, Read), slot("y", F32, Write)] },
    OpSpec { kind: OpKind::Unfold, name: "unfold", slots: &[slot("x", F32, Read), slot("y", Activation, Write)] },
    OpSpec {
        kind: OpKind::AttentionWeights,
        name: "attention_weights",
        slots: &[slot("q", F32, Read), slot("y", F32, Write), slot("kv", Kv, Read)],
    },
    OpSpec {
        kind: OpKind::Suppress,
        name: "suppress",
        slots: &[slot("x", F32, ReadWrite), slot("maxima", F32, ReadWrite), slot("total", F32, Write)],
    },
    OpSpec { kind: OpKind::Sample, name: "sample", slots: &[slot("x", F32, Read), slot("y", F32, Write)] },
    OpSpec {
        kind: OpKind::Advance,
        name: "advance",
        slots: &[
            slot("x", F32, Read),
            slot("maxima", F32, Read),
            optional("drawn", F32, Read),
            optional("total", F32, Read),
        ],
    },
];

impl OpKind {
    pub fn spec(self) -> &'static OpSpec {
        &OPS[self as usize]
    }

    pub fn from_index(index: u32) -> Option<Self> {
        OPS.get(index as usize).map(|s| s.kind)
    }
}

/// Element-wise functions an op may apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Activation {
    None,
    Silu,
    /// The tanh approximation.
    GeluTanh,
    /// The exact form with erf.
    GeluErf,
}

/// `EmbedParams::index`: which step variable of a row picks its row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Index {
    Token,
    Position,
    Segment,
}

/// `AttentionParams::sees`: the positions of its sequence that a row sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Sees {
    /// Up to and including its own.
    Past,
    /// All, `RowVars::length` of them.
    All,
}

/// `MatMulHeadsParams::makes`: what its heads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Makes {
    Queries,
    Keys,
    Values,
}

/// `NormParams::kind`.
pub const NORM_RMS: u32 = 0;
pub const NORM_LAYER: u32 = 1;

/// `HeadsParams::style`: which values rotate together.
pub const ROPE_NONE: u32 = 0;
/// Values 2i and 2i+1.
pub const ROPE_INTERLEAVED: u32 = 1;
/// Values i and i + pairs.
pub const ROPE_SPLIT_HALF: u32 = 2;

/// Logits that `MatMul` keeps one maximum of, so that `Advance` needs no pass over all of them.
pub const MAXIMA_SLICE: usize = 256;

/// What `Sample` writes where no token is drawn.
pub const NONE_DRAWN: f32 = -1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_op_table_is_in_kind_order() {
        for (i, spec) in OPS.iter().enumerate() {
            assert_eq!(spec.kind as usize, i, "{}", spec.name);
            assert!(spec.slots.len() <= MAX_SLOTS);
        }
    }
}
