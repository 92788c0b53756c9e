//! Bound records: the flat array a backend replays, exactly as it could lie in a GPU's memory.
//!
//! A record names its kernel, its operands as region + offset, its parameters, and the record it
//! must wait for. It holds no pointer, so it serializes as it is.

use crate::op::{MAX_SLOTS, OpKind, Params, Per, Use};
use crate::program::{ActivationLayout, Arg, Op, Program};
use bytemuck::{Pod, Zeroable};

/// A memory region, resolved to a base address by the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region(pub u8);

impl Region {
    pub const NONE: Region = Region(0);
    /// Activations, placed by the memory plan.
    pub const ARENA: Region = Region(1);
    /// Norm weights, biases, rope frequencies: f32.
    pub const CONSTANTS: Region = Region(2);
    pub const STEPS: Region = Region(3);
    const KV: u8 = 8;
    const FILES: u8 = 16;
    /// Regions there can be.
    pub const COUNT: usize = 256;
    pub const MAX_KV_GROUPS: usize = 8;
    pub const MAX_FILES: usize = 240;

    /// The KV blocks of a layer group.
    pub const fn kv(group: u8) -> Region {
        Region(Self::KV + group)
    }

    /// A mapped model file.
    pub const fn file(index: u8) -> Region {
        Region(Self::FILES + index)
    }

    pub const fn file_index(self) -> Option<usize> {
        if self.0 >= Self::FILES { Some((self.0 - Self::FILES) as usize) } else { None }
    }

    pub const fn kv_group(self) -> Option<usize> {
        if self.0 >= Self::KV && self.0 < Self::FILES { Some((self.0 - Self::KV) as usize) } else { None }
    }
}

/// A region in the top byte, a byte offset below; 0 is no operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Addr(pub u64);

impl Addr {
    pub const NONE: Addr = Addr(0);

    pub const fn new(region: Region, offset: usize) -> Addr {
        Addr((region.0 as u64) << 56 | offset as u64)
    }

    pub const fn region(self) -> Region {
        Region((self.0 >> 56) as u8)
    }

    pub const fn offset(self) -> usize {
        (self.0 & ((1 << 56) - 1)) as usize
    }

    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Words of parameters in a record.
pub const PARAM_WORDS: usize = 24;

/// `Record::flags`: an activation operand holds int8 blocks instead of f32.
pub const X_IS_Q8: u32 = 1;
pub const Y_IS_Q8: u32 = 2;
/// `Record::flags`: an activation operand holds bf16 tiles instead of f32.
pub const X_IS_BF16: u32 = 64;
pub const Y_IS_BF16: u32 = 128;
/// `Record::flags`: an activation operand holds something else than f32.
pub const X_LAYOUT: u32 = X_IS_Q8 | X_IS_BF16;
pub const Y_LAYOUT: u32 = Y_IS_Q8 | Y_IS_BF16;
/// `Record::flags`: the row count is the step's outputs, not its rows.
pub const PER_OUTPUT: u32 = 4;
/// `Record::flags`: everything before must be finished before this record starts.
pub const BARRIER: u32 = 8;
/// `Record::flags`: kernels may round what they multiply to bf16.
pub const MAY_ROUND: u32 = 16;
/// `Record::flags`: the row count is the step's input frames.
pub const PER_FRAME: u32 = 32;
/// One dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Record {
    /// Row of the backend's kernel table.
    pub kernel: u32,
    /// [`OpKind`], for tools.
    pub op: u32,
    pub flags: u32,
    /// 1 + index of the last record whose result or buffer this one needs; 0: none.
    pub after: u32,
    /// Launch geometry, the kernel's own: independent units of work per row, and how many of them
    /// must stay together.
    pub units: u32,
    pub grain: u32,
    /// Rows it runs over at most.
    pub rows: u32,
    /// How the op's weights lie in the backend's memory: a number of the backend's own, 0 as in the file.
    pub weight_layout: u32,
    /// Bytes from one row to the next in each activation operand.
    pub strides: [u32; MAX_SLOTS],
    /// Operands, by the slots of the op table.
    pub args: [Addr; MAX_SLOTS],
    /// Scale and bias planes of the first and the second weight operand.
    pub planes: [Addr; 4],
    pub params: [u32; PARAM_WORDS],
}

const _: () = assert!(size_of::<Record>() == 256);

impl Record {
    pub fn kind(&self) -> Option<OpKind> {
        OpKind::from_index(self.op)
    }

    pub fn per(&self) -> Per {
        match self.flags & (PER_OUTPUT | PER_FRAME) {
            0 => Per::Row,
            PER_FRAME => Per::Frame,
            _ => Per::Output,
        }
    }

    /// The parameters as the struct of its op.
    pub fn params<T: Pod>(&self) -> &T {
        bytemuck::from_bytes(&bytemuck::cast_slice(&self.params)[..size_of::<T>()])
    }
}

/// The flag of what an op's rows are.
fn per_flag(per: Per) -> u32 {
    match per {
        Per::Row => 0,
        Per::Output => PER_OUTPUT,
        Per::Frame => PER_FRAME,
    }
}

/// The flags that are known before kernels are chosen: what an op's rows are, and which forms it meets.
pub fn flags(program: &Program, op: &Op) -> u32 {
    let mut flags = per_flag(op.per);
    if program.may_round {
        flags |= MAY_ROUND;
    }
    for (arg, slot) in op.args.iter().zip(op.kind.spec().slots) {
        if let Arg::Buffer(id) = arg {
            flags |= layout_flag(program.buffer(*id).layout, slot.used);
        }
    }
    flags
}

/// The flag of the form an activation operand has.
pub fn layout_flag(layout: ActivationLayout, used: Use) -> u32 {
    match (layout, used) {
        (ActivationLayout::F32, _) => 0,
        (ActivationLayout::Q8, Use::Write) => Y_IS_Q8,
        (ActivationLayout::Q8, _) => X_IS_Q8,
        (ActivationLayout::Bf16, Use::Write) => Y_IS_BF16,
        (ActivationLayout::Bf16, _) => X_IS_BF16,
    }
}

/// The words of an op's parameters, zero-padded.
pub fn encode_params(params: &Params) -> [u32; PARAM_WORDS] {
    fn words<T: Pod>(value: &T) -> [u32; PARAM_WORDS] {
        let mut out = [0; PARAM_WORDS];
        let bytes = bytemuck::bytes_of(value);
        bytemuck::cast_slice_mut(&mut out)[..bytes.len()].copy_from_slice(bytes);
        out
    }
    match params {
        Params::Embed(p) => words(p),
        Params::RopeAngles(p) => words(p),
        Params::Norm(p) => words(p),
        Params::MatMul(p) => words(p),
        Params::MatMulHeads(p) => words(p),
        Params::Element(p) => words(p),
        Params::Heads(p) => words(p),
        Params::Head(p) => words(p),
        Params::Attention(p) => words(p),
        Params::Unfold(p) => words(p),
        Params::AttentionWeights(p) => words(p),
        Params::Token(p) => words(p),
    }
}
