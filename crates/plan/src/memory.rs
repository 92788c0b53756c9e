//! The memory plan: places every buffer in one arena, reusing what is dead.
//!
//! A result may take the place of the operand it is added to: such ops read an element before
//! they write the same element.

use crate::op::{MAX_SLOTS, OpKind, slots};
use crate::program::{ActivationLayout, Arg, BufferId, Op, Program};

/// Result slot and the operand slot whose place it may take.
fn in_place(op: &Op) -> Option<(usize, usize)> {
    match op.kind {
        OpKind::MatMul => Some((slots::matmul::Y, slots::matmul::RESIDUAL)),
        OpKind::Norm => Some((slots::norm::Y, slots::norm::RESIDUAL)),
        OpKind::Add => Some((slots::add::Y, slots::add::A)),
        _ => None,
    }
}

/// Writes `Buffer::offset` for every buffer and `Program::arena_bytes`.
pub fn place(program: &mut Program) {
    let lives = lifetimes(program);
    // (offset, end, last op) of what is placed and may still be alive.
    let mut live: Vec<(usize, usize, usize)> = Vec::new();
    let mut arena = 0;
    for index in 0..program.ops.len() {
        for slot in 0..MAX_SLOTS {
            let Arg::Buffer(id) = program.ops[index].args[slot] else { continue };
            let Some((first, last)) = lives[id.0 as usize] else { continue };
            if first != index || placed_before(program, index, slot, id) {
                continue;
            }
            let buffer = program.buffer(id);
            let bytes = buffer.bytes(program.capacity(buffer.per));
            let offset = match taken_over(program, index, slot, &lives) {
                Some(offset) => {
                    live.retain(|(o, _, _)| *o != offset);
                    offset
                }
                None => {
                    live.retain(|(_, _, end)| *end >= index);
                    first_gap(&mut live, bytes)
                }
            };
            live.push((offset, offset + bytes, last));
            arena = arena.max(offset + bytes);
            program.buffers[id.0 as usize].offset = offset;
        }
    }
    program.arena_bytes = arena.next_multiple_of(64);
}

fn placed_before(program: &Program, index: usize, slot: usize, id: BufferId) -> bool {
    program.ops[index].args[..slot].contains(&Arg::Buffer(id))
}

/// First and last op that touch each buffer; the logits outlive the program.
fn lifetimes(program: &Program) -> Vec<Option<(usize, usize)>> {
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; program.buffers.len()];
    for (index, op) in program.ops.iter().enumerate() {
        for arg in op.args {
            if let Arg::Buffer(id) = arg {
                let life = lives[id.0 as usize].get_or_insert((index, index));
                life.1 = index;
            }
        }
    }
    if let Some(life) = &mut lives[program.logits.0 as usize] {
        life.1 = program.ops.len();
    }
    lives
}

/// The place of an operand that dies here and whose elements the result replaces one by one.
fn taken_over(program: &Program, index: usize, slot: usize, lives: &[Option<(usize, usize)>]) -> Option<usize> {
    let op = &program.ops[index];
    let (y, from) = in_place(op)?;
    let Arg::Buffer(source) = op.args[from] else { return None };
    let Arg::Buffer(result) = op.args[y] else { return None };
    let (a, b) = (program.buffer(source), program.buffer(result));
    let dies = lives[source.0 as usize].is_some_and(|(_, last)| last == index);
    let alike =
        a.layout == ActivationLayout::F32 && b.layout == ActivationLayout::F32 && a.width == b.width && a.per == b.per;
    // Read through another slot too, an element could be needed after it was replaced.
    let read_once = op.args.iter().filter(|arg| **arg == Arg::Buffer(source)).count() == 1;
    (slot == y && dies && alike && read_once).then_some(a.offset)
}

/// The lowest offset where `bytes` fit between what is alive.
fn first_gap(live: &mut [(usize, usize, usize)], bytes: usize) -> usize {
    live.sort_unstable();
    let mut offset = 0;
    for &(start, end, _) in live.iter() {
        if start >= offset + bytes {
            break;
        }
        offset = offset.max(end);
    }
    offset
}
