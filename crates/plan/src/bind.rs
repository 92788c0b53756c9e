//! `bind`: a program and a backend's choice of kernels to the flat array of records.

use crate::op::{Holds, MAX_SLOTS, Use};
use crate::program::{Arg, Op, Program};
use crate::record::{Addr, BARRIER, Record, Region, encode_params, flags};

/// A backend's choice for one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Row of the backend's kernel table.
    pub kernel: u32,
    pub units: u32,
    pub grain: u32,
    /// How the op's weights lie in the backend's memory: a number of the backend's own, 0 as in the file.
    pub weight_layout: u32,
}

/// An op no kernel of the backend can run.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not supported: no kernel of the {backend} backend runs {op}")]
pub struct NoKernel {
    pub backend: &'static str,
    pub op: String,
}

/// A bound program: plain data that replays without anything else.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub records: Vec<Record>,
    pub constants: Vec<f32>,
    pub arena_bytes: usize,
    pub logits: Addr,
    pub logits_stride: usize,
}

/// Writes the records: `choose` picks a kernel for every op, once.
pub fn bind(
    program: &Program,
    mut choose: impl FnMut(&Program, &Op) -> Result<Choice, NoKernel>,
) -> Result<Bound, NoKernel> {
    let mut hazards = Hazards::default();
    let mut barrier = 0;
    let mut records = Vec::with_capacity(program.ops.len());
    for (index, op) in program.ops.iter().enumerate() {
        let choice = choose(program, op)?;
        let after = hazards.record(program, op, index as u32);
        let mut record = encode(program, op, choice);
        record.after = after;
        // Records up to `barrier` are known to be finished already.
        if after > barrier {
            record.flags |= BARRIER;
            barrier = index as u32;
        }
        records.push(record);
    }
    let logits = program.buffer(program.logits);
    Ok(Bound {
        records,
        constants: program.constants.clone(),
        arena_bytes: program.arena_bytes,
        logits: Addr::new(Region::ARENA, logits.offset),
        logits_stride: logits.stride(),
    })
}

/// An op as a record, but for what a backend chooses and what it waits for.
pub fn describe(program: &Program, op: &Op) -> Record {
    encode(program, op, Choice { kernel: 0, units: 1, grain: 1, weight_layout: 0 })
}

fn encode(program: &Program, op: &Op, choice: Choice) -> Record {
    let mut args = [Addr::NONE; MAX_SLOTS];
    let mut strides = [0; MAX_SLOTS];
    let mut planes = [Addr::NONE; 4];
    let mut weights = 0;
    for (slot, arg) in op.args.iter().enumerate() {
        match *arg {
            Arg::None => {}
            Arg::Buffer(id) => {
                let buffer = program.buffer(id);
                args[slot] = Addr::new(Region::ARENA, buffer.offset);
                strides[slot] = buffer.stride() as u32;
            }
            Arg::Weight(id) => {
                let weight = program.weight(id);
                args[slot] = weight.data;
                planes[2 * weights] = weight.scales;
                planes[2 * weights + 1] = weight.biases;
                weights += 1;
            }
            Arg::Vector(v) => args[slot] = Addr::new(Region::CONSTANTS, v.offset as usize * 4),
            Arg::Kv(group) => args[slot] = Addr::new(Region::kv(group), 0),
        }
    }
    Record {
        kernel: choice.kernel,
        op: op.kind as u32,
        flags: flags(program, op),
        after: 0,
        units: choice.units,
        grain: choice.grain,
        rows: program.capacity(op.per) as u32,
        weight_layout: choice.weight_layout,
        strides,
        args,
        planes,
        params: encode_params(&op.params),
    }
}

/// Tracks which bytes of the arena and which KV groups earlier records touch, to find what a
/// record must wait for: a value it reads, or a place it overwrites.
#[derive(Default)]
struct Hazards {
    /// (start, end, written, record) in one address space: the arena, then the KV groups. What was written over is not kept: who
    /// conflicts with it conflicts with that write.
    touched: Vec<(usize, usize, bool, u32)>,
}

impl Hazards {
    /// Notes what `op` touches; returns 1 + the last record it conflicts with, or 0.
    fn record(&mut self, program: &Program, op: &Op, index: u32) -> u32 {
        let mut after = 0;
        let mut mine = Vec::new();
        for (slot, arg) in op.args.iter().enumerate() {
            let spec = op.kind.spec().slots.get(slot);
            let (start, end) = match *arg {
                Arg::Buffer(id) => {
                    let b = program.buffer(id);
                    (b.offset, b.offset + b.bytes(program.capacity(b.per)))
                }
                Arg::Kv(_) => {
                    let Some((group, bytes)) = op.params.kv() else { continue };
                    let at = program.arena_bytes + group as usize * u32::MAX as usize;
                    (at + bytes.start, at + bytes.end)
                }
                _ => continue,
            };
            let writes = spec.is_some_and(|s| s.used != Use::Read || s.holds == Holds::Kv && s.used == Use::Write);
            for &(s, e, written, by) in &self.touched {
                if s < end && start < e && (writes || written) {
                    after = after.max(by + 1);
                }
            }
            mine.push((start, end, writes, index));
        }
        let over = |&(start, end, ..): &(usize, usize, bool, u32)| {
            mine.iter().any(|&(from, to, writes, _)| writes && from <= start && end <= to)
        };
        self.touched.retain(|touched| !over(touched));
        self.touched.extend(mine);
        after
    }
}
