//! A program: the ops of one step over buffers, weights and constants.

use crate::op::{MAX_SLOTS, OpKind, Params, Per};
use crate::record::Addr;
use akunu_dtype::{DType, q8, tiles};

/// An activation buffer of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A weight matrix of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightId(pub u32);

/// A run of `Program::constants`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    pub offset: u32,
    pub len: u32,
}

/// How an activation buffer stores a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationLayout {
    F32,
    /// Int8 blocks; see [`akunu_dtype::q8`].
    Q8,
    /// bf16 numbers in tiles of 16 rows; see [`akunu_dtype::tiles`].
    Bf16,
}

/// An activation buffer: `[rows or outputs][width]`.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub name: &'static str,
    pub per: Per,
    pub width: usize,
    pub layout: ActivationLayout,
    /// Byte offset in the arena; written by the memory plan.
    pub offset: usize,
}

impl Buffer {
    /// Bytes from one row to the next; whole cache lines, so that rows never share one.
    pub fn stride(&self) -> usize {
        match self.layout {
            ActivationLayout::F32 => (self.width * 4).next_multiple_of(64),
            ActivationLayout::Q8 => q8::row_bytes(self.width).next_multiple_of(64),
            ActivationLayout::Bf16 => tiles::row_bytes(self.width),
        }
    }

    /// Bytes of so many rows.
    pub fn bytes(&self, rows: usize) -> usize {
        let rows = if self.layout == ActivationLayout::Bf16 { rows.next_multiple_of(tiles::PAIR) } else { rows };
        rows * self.stride()
    }
}

/// A weight matrix where it lies: `[rows][cols]` in its file's number format.
#[derive(Clone, Debug)]
pub struct Weight {
    pub name: String,
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    pub data: Addr,
    pub scales: Addr,
    pub biases: Addr,
}

impl Weight {
    pub fn row_bytes(&self) -> usize {
        self.dtype.row_bytes(self.cols).unwrap_or(0)
    }

    pub fn side_bytes(&self) -> usize {
        self.dtype.row_side_bytes(self.cols)
    }

    /// Bytes of the whole matrix, all planes.
    pub fn bytes(&self) -> usize {
        self.rows * (self.row_bytes() + 2 * self.side_bytes())
    }
}

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    None,
    Buffer(BufferId),
    Weight(WeightId),
    Vector(Vector),
    Kv(u8),
}

/// One op with its operands, in the slots of the op table.
#[derive(Clone, Debug)]
pub struct Op {
    pub kind: OpKind,
    pub per: Per,
    pub args: [Arg; MAX_SLOTS],
    pub params: Params,
    /// The model's layer, for people who read the table.
    pub layer: Option<u32>,
}

/// The KV cache of layers that share a block table: those with the same window.
#[derive(Clone, Debug, PartialEq)]
pub struct KvGroup {
    /// Positions a row can see; `None`: all.
    pub window: Option<usize>,
    pub layers: usize,
    /// Bytes of one block: `KV_BLOCK` positions of every layer of the group.
    pub block_bytes: usize,
    /// Positions an encoder writes all at once, for cross-attention; `None`: those of the sequence, as it grows.
    pub encoded: Option<usize>,
}

/// What a step computes, for up to `max_rows` rows and `max_outputs` rows of logits.
#[derive(Clone, Debug)]
pub struct Program {
    pub max_rows: usize,
    pub max_outputs: usize,
    /// The form that products take their activations in, where it suits them (`fuse`).
    pub activations: ActivationLayout,
    /// Whether kernels for many rows may be chosen, which round what they multiply. A program in bf16 does so everywhere where
    /// tiles are faster.
    pub may_round: bool,
    pub buffers: Vec<Buffer>,
    pub weights: Vec<Weight>,
    pub constants: Vec<f32>,
    pub kv_groups: Vec<KvGroup>,
    pub ops: Vec<Op>,
    /// What is filled before the step, `[frames][bands]`, where a model takes frames instead of tokens.
    pub input: Option<BufferId>,
    /// Where the result is: logits `[outputs][vocab]`, or what else the program was built for.
    pub logits: BufferId,
    /// Bytes of the arena; written by the memory plan.
    pub arena_bytes: usize,
}

impl Program {
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.0 as usize]
    }

    pub fn vector(&self, v: Vector) -> &[f32] {
        &self.constants[v.offset as usize..(v.offset + v.len) as usize]
    }

    /// Rows a buffer has room for.
    pub fn capacity(&self, per: Per) -> usize {
        match per {
            Per::Row => self.max_rows,
            Per::Output => self.max_outputs,
            Per::Frame => 2 * self.max_rows,
        }
    }
}
