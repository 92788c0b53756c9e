//! The proof that a bound program is sound: every operand of every record lies inside its region for as many rows as the
//! program can have, and records that touch the same bytes have a barrier between them. Done once per bound program, never
//! per submission. Every backend relies on it; what only one backend knows of its records, it adds as `serves`.

use crate::backend::KvPool;
use crate::bind::Bound;
use crate::op::{slots as at, *};
use crate::program::ActivationLayout;
use crate::record::{self, Addr, BARRIER, MAY_ROUND, Record, Region, X_IS_BF16, X_LAYOUT, Y_LAYOUT};
use crate::steps::KV_BLOCK;
use akunu_dtype::{DType, q8, tiles};
use std::ops::Range;

/// Rows of activation buffers begin at multiples of this: a cache line and the widest vector.
pub const ALIGN: usize = 64;

/// The memory that records address.
pub struct MemoryMap<'a> {
    /// Bytes by region.
    pub lens: &'a [usize; Region::COUNT],
    pub kv: &'a [KvPool],
}

/// A bound program that stays inside its memory, and what it was proven for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Rows and output rows of a step, at most.
    pub rows: usize,
    pub outputs: usize,
    /// Whether steps can follow one another without the host.
    pub advances: bool,
    /// Whether rows look at other rows of the step: their sequences must be whole.
    pub whole_texts: bool,
    /// Whether some kernel may round, and does not know of branches.
    pub rounds: bool,
    /// Whether no row looks at another one's activations, and no kernel is one for prefill.
    pub rows_apart: bool,
    /// Whether rows read the KV cache, and, as bits, the KV groups that they write.
    pub kv_read: bool,
    pub kv_written: u32,
    /// Records between barriers.
    pub phases: Vec<Range<usize>>,
}

/// Why a bound program cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {index} ({op}) of the bound program: {what}")]
pub struct Unsound {
    pub index: usize,
    pub op: &'static str,
    pub what: String,
}

/// Bytes a record touches, and whether it writes them.
#[derive(Clone)]
struct Touch {
    region: Region,
    start: usize,
    end: usize,
    writes: bool,
    slot: usize,
    stride: usize,
}

impl Touch {
    fn overlaps(&self, other: &Touch) -> bool {
        self.region == other.region && self.start < other.end && other.start < self.end
    }
}

/// Proves `bound` sound for up to `rows` rows and `outputs` output rows; `serves` says why the backend's kernel cannot run
/// a record.
pub fn prove(
    bound: &Bound,
    (rows, outputs): (usize, usize),
    memory: &MemoryMap<'_>,
    serves: impl Fn(&Record) -> Result<(), String>,
) -> Result<Proof, Unsound> {
    let mut since_barrier: Vec<Touch> = Vec::new();
    let mut proof = Proof {
        rows,
        outputs,
        advances: false,
        whole_texts: false,
        rounds: false,
        rows_apart: true,
        kv_read: false,
        kv_written: 0,
        phases: Vec::new(),
    };
    for (index, record) in bound.records.iter().enumerate() {
        let op = record.kind().map_or("unknown op", |kind| kind.spec().name);
        let unsound = |what| Unsound { index, op, what };
        serves(record).map_err(unsound)?;
        let touches = Checker { record, rows, outputs, memory, arena: bound.arena_bytes, touches: Vec::new() }
            .run()
            .map_err(unsound)?;
        if index == 0 || record.flags & BARRIER != 0 {
            since_barrier.clear();
            proof.phases.push(index..index);
        }
        if let Some(phase) = proof.phases.last_mut() {
            phase.end = index + 1;
        }
        let conflict = |t: &Touch| since_barrier.iter().any(|s| s.overlaps(t) && (s.writes || t.writes));
        if touches.iter().any(conflict) {
            return Err(unsound("needs a barrier before it, and has none".into()));
        }
        for (group, writes) in touches.iter().filter_map(|t| Some((t.region.kv_group()?, t.writes))) {
            proof.kv_read |= !writes;
            proof.kv_written |= u32::from(writes) << group;
        }
        since_barrier.extend(touches);
        // Each moves the step variables on by one step, and whatever follows would read them half moved.
        if record.kind() == Some(OpKind::Advance) && index + 1 != bound.records.len() {
            return Err(unsound("moves the step variables, and is not the last record".into()));
        }
        proof.advances |= record.kind() == Some(OpKind::Advance);
        let own_keys = record.kind() == Some(OpKind::Attention) && record.args[at::attention::KV].is_none();
        proof.rounds |= record.flags & MAY_ROUND != 0;
        proof.whole_texts |= own_keys || record.kind() == Some(OpKind::MeanRows);
        let frames = record.per() == Per::Frame || record.kind() == Some(OpKind::Unfold);
        proof.rows_apart &= !proof.whole_texts && !frames && record.flags & (X_IS_BF16 | MAY_ROUND) == 0;
    }
    Ok(proof)
}

/// Operands a result may take the place of: they are read value by value before it is written.
fn may_share(kind: OpKind) -> &'static [usize] {
    match kind {
        OpKind::Norm => &[at::norm::X, at::norm::RESIDUAL],
        OpKind::MatMul => &[at::matmul::RESIDUAL],
        OpKind::Add => &[at::add::A, at::add::B],
        OpKind::GatedActivation => &[at::gated_activation::X, at::gated_activation::U],
        _ => &[],
    }
}

/// Values of a row: no more than a stride could say the bytes of, so that no sum or product of them overflows.
fn product(a: usize, b: usize) -> Result<usize, String> {
    a.checked_mul(b).filter(|width| *width <= u32::MAX as usize).ok_or_else(|| "its rows are too long".into())
}

struct Checker<'a> {
    record: &'a Record,
    rows: usize,
    outputs: usize,
    memory: &'a MemoryMap<'a>,
    /// Bytes of the arena that the program asks for.
    arena: usize,
    touches: Vec<Touch>,
}

impl Checker<'_> {
    fn run(mut self) -> Result<Vec<Touch>, String> {
        let record = self.record;
        let kind = record.kind().ok_or("is not in the op table")?;
        for (slot, spec) in kind.spec().slots.iter().enumerate() {
            if spec.required && record.args[slot].is_none() {
                return Err(format!("{} is missing", spec.name));
            }
        }
        self.operands(kind)?;
        self.aliases(kind)?;
        Ok(self.touches)
    }

    fn operands(&mut self, kind: OpKind) -> Result<(), String> {
        let record = self.record;
        match kind {
            OpKind::Embed => {
                let p = record.params::<EmbedParams>();
                self.per(Per::Row)?;
                let dim = self.positive("dim", p.dim)?;
                self.weight(at::embed::TABLE, 0, (p.vocab, p.dim, p.dtype), (p.row_bytes, p.side_bytes))?;
                self.activation(at::embed::Y, dim)
            }
            OpKind::RopeAngles => {
                let p = record.params::<RopeAnglesParams>();
                self.per(Per::Row)?;
                self.vector(at::rope_angles::FREQUENCIES, p.pairs as usize)?;
                self.activation(at::rope_angles::Y, 2 * p.pairs as usize)
            }
            OpKind::Norm => {
                let dim = self.positive("dim", record.params::<NormParams>().dim)?;
                for slot in [at::norm::X, at::norm::Y, at::norm::RESIDUAL] {
                    self.activation(slot, dim)?;
                }
                self.vector(at::norm::WEIGHT, dim)?;
                self.vector(at::norm::BIAS, dim)
            }
            OpKind::Convert | OpKind::Add | OpKind::GatedActivation => {
                let dim = self.positive("dim", record.params::<ElementParams>().dim)?;
                (0..kind.spec().slots.len()).try_for_each(|slot| self.activation(slot, dim))
            }
            OpKind::GatherRows | OpKind::MeanRows => {
                let dim = self.positive("dim", record.params::<ElementParams>().dim)?;
                self.per(Per::Output)?;
                self.buffer(at::gather::X, dim, self.rows)?;
                self.activation(at::gather::Y, dim)
            }
            OpKind::MatMul | OpKind::MatMulGated => self.product(kind),
            OpKind::MatMulHeads => self.product_heads(),
            OpKind::HeadNormRopeKvWrite => self.heads(),
            OpKind::HeadNormRope => {
                let p = record.params::<HeadParams>();
                let d = self.positive("head_dim", p.head_dim)?;
                self.rotation(d, p.pairs, p.style, at::head::ANGLES)?;
                self.activation(at::head::X, product(self.positive("heads", p.heads)?, d)?)?;
                self.vector(at::head::NORM, d)
            }
            OpKind::Attention => {
                let p = record.params::<AttentionParams>();
                self.per(Per::Row)?;
                let width = product(self.positive("heads", p.heads)?, self.positive("head_dim", p.head_dim)?)?;
                self.activation(at::attention::Q, width)?;
                self.activation(at::attention::Y, width)?;
                if record.args[at::attention::KV].is_none() {
                    return self.own_keys(p);
                }
                self.kv(at::attention::KV, &p.kv, (p.heads, p.kv_heads, p.head_dim), None)
            }
            OpKind::Unfold => {
                let p = record.params::<UnfoldParams>();
                let (channels, taps) = (self.positive("channels", p.channels)?, self.positive("taps", p.taps)?);
                if !matches!((record.per(), p.stride), (Per::Frame, 1) | (Per::Row, 2)) {
                    return Err("does not take frames one or two at a time".into());
                }
                self.buffer(at::unfold::X, channels, 2 * self.rows)?;
                self.activation(at::unfold::Y, product(channels, taps)?)
            }
            OpKind::AttentionWeights => {
                let p = record.params::<AttentionWeightsParams>();
                let a = &p.attention;
                self.per(Per::Row)?;
                let width = product(self.positive("heads", a.heads)?, self.positive("head_dim", a.head_dim)?)?;
                if p.head >= a.heads {
                    return Err("its head is not there".into());
                }
                self.activation(at::weights::Q, width)?;
                self.activation(at::weights::Y, p.at as usize + self.positive("positions", p.positions)?)?;
                self.kv(at::weights::KV, &a.kv, (a.heads, a.kv_heads, a.head_dim), None)
            }
            OpKind::Suppress => {
                let n = self.positive("n", record.params::<TokenParams>().n)?;
                self.per(Per::Output)?;
                self.activation(at::suppress::X, n)?;
                self.activation(at::suppress::MAXIMA, n.div_ceil(MAXIMA_SLICE))?;
                self.activation(at::suppress::TOTAL, 1)
            }
            OpKind::Sample => {
                self.per(Per::Output)?;
                self.activation(at::sample::X, self.positive("n", record.params::<TokenParams>().n)?)?;
                self.activation(at::sample::Y, 1)
            }
            OpKind::Advance => {
                let n = self.positive("n", record.params::<TokenParams>().n)?;
                self.per(Per::Output)?;
                if record.flags & BARRIER == 0 {
                    return Err("moves the step variables, and has no barrier before it".into());
                }
                self.activation(at::advance::X, n)?;
                self.activation(at::advance::MAXIMA, n.div_ceil(MAXIMA_SLICE))?;
                self.activation(at::advance::DRAWN, 1)?;
                self.activation(at::advance::TOTAL, 1)
            }
        }
    }

    fn product(&mut self, kind: OpKind) -> Result<(), String> {
        let record = self.record;
        let p = record.params::<MatMulParams>();
        let (n, k) = (self.positive("n", p.n)?, self.positive("k", p.k)?);
        self.activation(at::matmul::X, k)?;
        self.activation(at::matmul::Y, n)?;
        self.weight(at::matmul::W, 0, (p.n, p.k, p.dtype), (p.row_bytes, p.side_bytes))?;
        if kind == OpKind::MatMulGated {
            return self.weight(at::gated::U, 2, (p.n, p.k, p.dtype), (p.row_bytes, p.side_bytes));
        }
        self.vector(at::matmul::BIAS, n)?;
        self.activation(at::matmul::RESIDUAL, n)?;
        self.activation(at::matmul::MAXIMA, n.div_ceil(MAXIMA_SLICE))
    }

    fn product_heads(&mut self) -> Result<(), String> {
        let p = self.record.params::<MatMulHeadsParams>();
        self.per(Per::Row)?;
        let (n, k) = (self.positive("n", p.product.n)?, self.positive("k", p.product.k)?);
        let d = self.positive("head_dim", p.head.head_dim)?;
        if product(p.head.heads as usize, d)? != n {
            return Err(format!("{n} results are not {} heads of {d}", p.head.heads));
        }
        self.activation(at::matmul_heads::X, k)?;
        let of = (p.product.n, p.product.k, p.product.dtype);
        self.weight(at::matmul_heads::W, 0, of, (p.product.row_bytes, p.product.side_bytes))?;
        self.vector(at::matmul_heads::BIAS, n)?;
        self.vector(at::matmul_heads::NORM, d)?;
        self.rotation(d, p.head.pairs, p.head.style, at::matmul_heads::ANGLES)?;
        if p.makes == Makes::Queries as u32 {
            let missing = self.record.args[at::matmul_heads::Y].is_none();
            return if missing { Err("y is missing".into()) } else { self.activation(at::matmul_heads::Y, n) };
        }
        let heads = (p.head.heads, p.head.heads, p.head.head_dim);
        self.kv(at::matmul_heads::KV, &p.kv, heads, Some(p.written()))
    }

    fn heads(&mut self) -> Result<(), String> {
        let p = self.record.params::<HeadsParams>();
        self.per(Per::Row)?;
        let d = self.positive("head_dim", p.head_dim)?;
        self.rotation(d, p.pairs, p.style, at::heads::ANGLES)?;
        if p.heads > 0 && self.record.args[at::heads::Q].is_none() {
            return Err("q is missing".into());
        }
        self.activation(at::heads::Q, product(p.heads as usize, d)?)?;
        self.activation(at::heads::K, product(p.kv_heads as usize, d)?)?;
        self.activation(at::heads::V, product(p.kv_heads as usize, d)?)?;
        self.vector(at::heads::Q_NORM, d)?;
        self.vector(at::heads::K_NORM, d)?;
        let heads = (p.heads, p.kv_heads, p.head_dim);
        self.kv(at::heads::KV, &p.kv, heads, Some(p.kv.both(p.kv_heads)))
    }

    fn rotation(&mut self, head_dim: usize, pairs: u32, style: u32, angles: usize) -> Result<(), String> {
        if 2 * pairs as usize > head_dim {
            return Err("rotates more values than a head has".into());
        }
        if style != ROPE_NONE && self.record.args[angles].is_none() {
            return Err("angles is missing".into());
        }
        self.activation(angles, 2 * pairs as usize)
    }

    /// Keys and values that are rows of the step.
    fn own_keys(&mut self, p: &AttentionParams) -> Result<(), String> {
        let d = p.head_dim as usize;
        if p.kv_heads == 0 || !p.heads.is_multiple_of(p.kv_heads) {
            return Err(format!("{} heads cannot share {} KV heads", p.heads, p.kv_heads));
        }
        for slot in [at::attention::K, at::attention::V] {
            if self.record.args[slot].is_none() {
                return Err("keys and values are missing".into());
            }
            self.activation(slot, product(p.kv_heads as usize, d)?)?;
            if self.record.strides[slot] != p.kv.row_bytes {
                return Err("keys and values are not as far apart as it says".into());
            }
        }
        let f32 = p.kv.dtype == u32::from(DType::F32.index());
        if !f32 || p.kv.head_bytes as usize != 4 * d {
            return Err("keys and values of the step are not f32, head by head".into());
        }
        Ok(())
    }

    fn positive(&self, name: &str, value: u32) -> Result<usize, String> {
        if value == 0 { Err(format!("{name} is 0")) } else { Ok(value as usize) }
    }

    fn per(&self, want: Per) -> Result<(), String> {
        let has = self.record.per();
        if has == want { Ok(()) } else { Err(format!("runs per {has:?}, not per {want:?}")) }
    }

    /// An activation operand with as many rows as the record runs over.
    fn activation(&mut self, slot: usize, width: usize) -> Result<(), String> {
        let count = match self.record.per() {
            Per::Row => self.rows,
            Per::Output => self.outputs,
            Per::Frame => 2 * self.rows,
        };
        self.buffer(slot, width, count)
    }

    fn buffer(&mut self, slot: usize, width: usize, count: usize) -> Result<(), String> {
        let addr = self.record.args[slot];
        let Some(spec) = self.record.kind().and_then(|kind| kind.spec().slots.get(slot)) else { return Ok(()) };
        if addr.is_none() {
            return Ok(());
        }
        let writes = spec.used != Use::Read;
        // As in `bind`: the first activation operand that is only read may have another form than f32, and the result.
        let has =
            |layout| spec.holds == Holds::Activation && self.record.flags & record::layout_flag(layout, spec.used) != 0;
        let stride = self.record.strides[slot] as usize;
        let (bytes, count) = if has(ActivationLayout::Q8) {
            if !width.is_multiple_of(q8::BLOCK) {
                return Err(format!("{} has {width} int8 values, not whole blocks", spec.name));
            }
            (q8::row_bytes(width), count)
        } else if has(ActivationLayout::Bf16) {
            if stride != tiles::row_bytes(width) {
                return Err(format!("{} has tiles of rows of {stride} bytes", spec.name));
            }
            (stride, count.next_multiple_of(tiles::PAIR))
        } else {
            (width * 4, count)
        };
        if addr.region() != Region::ARENA || !addr.offset().is_multiple_of(ALIGN) || !stride.is_multiple_of(ALIGN) {
            return Err(format!("{} is not a row buffer of the arena", spec.name));
        }
        if stride < bytes {
            return Err(format!("{} has rows of {bytes} bytes, {stride} apart", spec.name));
        }
        let end = self.inside(spec.name, addr, count.checked_mul(stride))?;
        let (region, start) = (addr.region(), addr.offset());
        self.touches.push(Touch { region, start, end, writes, slot, stride });
        Ok(())
    }

    fn vector(&self, slot: usize, len: usize) -> Result<(), String> {
        let addr = self.record.args[slot];
        if addr.is_none() {
            return Ok(());
        }
        if addr.region() != Region::CONSTANTS || !addr.offset().is_multiple_of(4) {
            return Err(format!("operand {slot} is not a constant"));
        }
        self.inside("a constant", addr, len.checked_mul(4)).map(drop)
    }

    fn weight(
        &self,
        slot: usize,
        planes: usize,
        (rows, cols, dtype): (u32, u32, u32),
        (row_bytes, side_bytes): (u32, u32),
    ) -> Result<(), String> {
        let dtype = u8::try_from(dtype).ok().and_then(DType::from_index).ok_or("its weight has an unknown format")?;
        let (rows, cols) = (self.positive("a weight's row count", rows)?, cols as usize);
        if dtype.row_bytes(cols) != Some(row_bytes as usize) || dtype.row_side_bytes(cols) != side_bytes as usize {
            return Err(format!("weight rows of {cols} {dtype} values do not have {row_bytes} + {side_bytes} bytes"));
        }
        let at = self.record.args[slot];
        self.inside("a weight", at, rows.checked_mul(row_bytes as usize))?;
        if side_bytes > 0 {
            for plane in &self.record.planes[planes..planes + 2] {
                self.inside("a weight's side plane", *plane, rows.checked_mul(side_bytes as usize))?;
            }
        }
        Ok(())
    }

    /// The KV cache, of whose blocks some bytes are written, or all of a layer's are read.
    fn kv(
        &mut self,
        slot: usize,
        kv: &KvParams,
        (heads, kv_heads, head_dim): (u32, u32, u32),
        written: Option<Range<usize>>,
    ) -> Result<(), String> {
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(format!("{heads} heads cannot share {kv_heads} KV heads"));
        }
        let dtype =
            u8::try_from(kv.dtype).ok().and_then(DType::from_index).ok_or("its KV cache has an unknown format")?;
        let addr = self.record.args[slot];
        let pool = self.memory.kv.get(kv.group as usize).ok_or("its KV group is not there")?;
        if addr != Addr::new(Region::kv(kv.group as u8), 0) || pool.block_bytes != kv.block_bytes as usize {
            return Err("its KV blocks are not those of the memory".into());
        }
        let row = dtype.row_bytes(head_dim as usize).ok_or("a KV row is not whole blocks of its format")?;
        let (row_bytes, head_bytes) = (kv.row_bytes as usize, kv.head_bytes as usize);
        // u32 factors: sums and products fit u64.
        let half = kv_heads as usize * head_bytes;
        let apart = kv.value_offset as usize >= half;
        if row_bytes < row || head_bytes < KV_BLOCK * row_bytes || kv.both(kv_heads).end > pool.block_bytes || !apart {
            return Err("its heads do not lie inside a KV block".into());
        }
        let (region, writes) = (Region::kv(kv.group as u8), written.is_some());
        let Range { start, end } = written.unwrap_or(kv.both(kv_heads));
        self.touches.push(Touch { region, start, end, writes, slot, stride: 0 });
        Ok(())
    }

    /// The end offset of `len` bytes at `addr`, if they lie inside the region.
    fn inside(&self, what: &str, addr: Addr, len: Option<usize>) -> Result<usize, String> {
        let size = self.memory.lens[addr.region().0 as usize];
        let size = if addr.region() == Region::ARENA { size.min(self.arena) } else { size };
        let end = len.and_then(|len| addr.offset().checked_add(len));
        match end {
            Some(end) if end <= size && !addr.is_none() => Ok(end),
            _ => Err(format!("{what} at {addr:?} does not lie inside its region of {size} bytes")),
        }
    }

    /// A result may lie on an operand only value by value.
    fn aliases(&self, kind: OpKind) -> Result<(), String> {
        for written in self.touches.iter().filter(|t| t.writes) {
            for other in self.touches.iter().filter(|t| t.slot != written.slot && t.overlaps(written)) {
                let (flags, same) = (self.record.flags, (other.start, other.stride) == (written.start, written.stride));
                let converted = flags & Y_LAYOUT != 0 || other.slot == 0 && flags & X_LAYOUT != 0;
                if !(same && !converted && may_share(kind).contains(&other.slot)) {
                    return Err(format!("operand {} lies on its result", other.slot));
                }
            }
        }
        Ok(())
    }
}
