//! Fusion: merges ops whose intermediate result nobody else reads.
//!
//! Each rule is local and keeps the meaning: the reference executor gives the same result before
//! and after. The form of activations is introduced here too, because what matters about it is that
//! the op before writes it directly.

use crate::op::{Makes, MatMulHeadsParams, OpKind, Params, Per, ROPE_NONE, slots};
use crate::program::*;
use akunu_dtype::{q8, tiles};

/// Values that one op writes together.
const WHOLE: usize = q8::BLOCK;
const _: () = assert!(WHOLE == tiles::VALUES);

pub fn fuse(program: &mut Program) {
    let converts = program.activations != ActivationLayout::F32;
    if converts {
        convert(program);
    }
    residual_into(program, OpKind::MatMul);
    residual_into(program, OpKind::Norm);
    gated(program);
    if converts {
        converted_results(program);
    }
    if program.activations == ActivationLayout::Bf16 {
        heads(program);
    }
}

fn reads(op: &Op, id: BufferId) -> bool {
    let slots = op.kind.spec().slots;
    op.args.iter().zip(slots).any(|(arg, slot)| *arg == Arg::Buffer(id) && slot.used != crate::op::Use::Write)
}

/// How often each buffer is read when a pass begins. Within the pass a count can become wrong: too high for what was fused away,
/// too low for the angles of heads. Nobody asks about either again.
struct Reads(Vec<u32>);

impl Reads {
    fn of(program: &Program) -> Self {
        let mut reads = vec![0; program.buffers.len()];
        for op in &program.ops {
            for (arg, slot) in op.args.iter().zip(op.kind.spec().slots) {
                if let (Arg::Buffer(id), true) = (arg, slot.used != crate::op::Use::Write) {
                    reads[id.0 as usize] += 1;
                }
            }
        }
        Self(reads)
    }

    fn once(&self, id: BufferId) -> bool {
        self.0[id.0 as usize] == 1
    }

    /// The one op that reads what op `writer` has written, if it is one.
    fn sole_reader(&self, program: &Program, writer: usize, id: BufferId) -> Option<usize> {
        self.once(id).then(|| (writer + 1..program.ops.len()).find(|&op| reads(&program.ops[op], id))).flatten()
    }
}

fn result(op: &Op, slot: usize) -> Option<BufferId> {
    match op.args[slot] {
        Arg::Buffer(id) => Some(id),
        _ => None,
    }
}

/// The form that a product takes its activations in, if it is another than f32: int8 goes with quantized weights and whole
/// blocks, tiles with many rows, which outputs are not.
fn form(program: &Program, op: &Op) -> Option<ActivationLayout> {
    let Arg::Weight(w) = op.args[slots::matmul::W] else { return None };
    let weight = program.weight(w);
    match program.activations {
        ActivationLayout::F32 => None,
        ActivationLayout::Bf16 if op.per != Per::Output => Some(ActivationLayout::Bf16),
        _ => (weight.dtype.is_quantized() && weight.cols.is_multiple_of(q8::BLOCK)).then_some(ActivationLayout::Q8),
    }
}

/// Gives every product a copy of its input in the form it takes, one per input and form.
fn convert(program: &mut Program) {
    let mut copies: Vec<(BufferId, ActivationLayout, BufferId)> = Vec::new();
    let mut index = 0;
    while index < program.ops.len() {
        let op = &program.ops[index];
        let wants = (op.kind == OpKind::MatMul).then(|| form(program, op).zip(result(op, slots::matmul::X))).flatten();
        let Some((form, x)) = wants else {
            index += 1;
            continue;
        };
        let copy = match copies.iter().find(|(from, layout, _)| (*from, *layout) == (x, form)) {
            Some((_, _, copy)) => *copy,
            None => {
                let source = program.buffer(x).clone();
                let width = source.width;
                program.buffers.push(Buffer { layout: form, ..source });
                let copy = BufferId(program.buffers.len() as u32 - 1);
                copies.push((x, form, copy));
                let mut args = [Arg::None; crate::op::MAX_SLOTS];
                args[slots::convert::X] = Arg::Buffer(x);
                args[slots::convert::Y] = Arg::Buffer(copy);
                let params = crate::op::ElementParams { dim: width as u32, activation: 0, scale: 1.0 };
                let op = &program.ops[index];
                let convert =
                    Op { kind: OpKind::Convert, per: op.per, args, params: Params::Element(params), layer: op.layer };
                program.ops.insert(index, convert);
                index += 1;
                copy
            }
        };
        program.ops[index].args[slots::matmul::X] = Arg::Buffer(copy);
        index += 1;
    }
}

/// `Add` of a result of `kind` into that op's residual operand.
fn residual_into(program: &mut Program, kind: OpKind) {
    let reads = Reads::of(program);
    let mut index = 0;
    while index < program.ops.len() {
        // Both ops have their result and their residual in the same slots.
        let op = &program.ops[index];
        let fits = op.kind == kind && op.args[slots::matmul::RESIDUAL] == Arg::None;
        let reader = fits.then(|| result(op, slots::matmul::Y)).flatten().and_then(|y| {
            let reader = reads.sole_reader(program, index, y)?;
            let add = &program.ops[reader];
            (add.kind == OpKind::Add && add.args[slots::add::B] == Arg::Buffer(y)).then_some(reader)
        });
        if let Some(reader) = reader {
            let add = program.ops.remove(reader);
            let Params::Element(add_params) = add.params else { continue };
            let op = &mut program.ops[index];
            op.args[slots::matmul::RESIDUAL] = add.args[slots::add::A];
            op.args[slots::matmul::Y] = add.args[slots::add::Y];
            match &mut op.params {
                Params::MatMul(p) => p.scale *= add_params.scale,
                Params::Norm(p) => p.scale *= add_params.scale,
                _ => {}
            }
        }
        index += 1;
    }
}

/// Gate and up products with the activation between them, where both weights are alike.
fn gated(program: &mut Program) {
    let reads = Reads::of(program);
    let mut index = 0;
    while index < program.ops.len() {
        if let Some((gate, up)) = gated_pair(program, &reads, index) {
            let up = program.ops[up].args[slots::matmul::W];
            let mut fused = program.ops[gate].clone();
            fused.kind = OpKind::MatMulGated;
            fused.args[slots::gated::Y] = program.ops[index].args[slots::gated_activation::Y];
            fused.args[slots::gated::U] = up;
            if let (Params::MatMul(p), Params::Element(e)) = (&mut fused.params, &program.ops[index].params) {
                p.activation = e.activation;
            }
            let u = program.ops[index].args[slots::gated_activation::U];
            program.ops[index] = fused;
            let x = program.ops[gate].args[slots::matmul::Y];
            program.ops.retain(|op| op.kind != OpKind::MatMul || ![x, u].contains(&op.args[slots::matmul::Y]));
            index -= 1;
        } else {
            index += 1;
        }
    }
}

fn gated_pair(program: &Program, reads: &Reads, index: usize) -> Option<(usize, usize)> {
    let op = &program.ops[index];
    if op.kind != OpKind::GatedActivation {
        return None;
    }
    let producer = |slot| {
        let id = result(op, slot).filter(|id| reads.once(*id))?;
        program.ops[..index].iter().position(|p| {
            p.kind == OpKind::MatMul
                && p.args[slots::matmul::Y] == Arg::Buffer(id)
                && p.args[slots::matmul::BIAS] == Arg::None
        })
    };
    let gate = producer(slots::gated_activation::X)?;
    let up = producer(slots::gated_activation::U)?;
    let (g, u) = (&program.ops[gate], &program.ops[up]);
    let plain = matches!(g.params, Params::MatMul(p) if p.is_plain());
    (plain && g.params == u.params && g.args[slots::matmul::X] == u.args[slots::matmul::X]).then_some((gate, up))
}

/// `HeadNormRopeKvWrite` into the products before it, so that many rows of queries, keys and values need not go to memory
/// and back.
fn heads(program: &mut Program) {
    let reads = Reads::of(program);
    let mut index = 0;
    while index < program.ops.len() {
        let Some(products) = head_products(program, &reads, index) else {
            index += 1;
            continue;
        };
        let op = program.ops.remove(index);
        let Params::Heads(p) = op.params else { continue };
        for (at, makes) in products {
            let (angles, norm) = match makes {
                Makes::Queries => (op.args[slots::heads::ANGLES], op.args[slots::heads::Q_NORM]),
                Makes::Keys => (op.args[slots::heads::ANGLES], op.args[slots::heads::K_NORM]),
                Makes::Values => (Arg::None, Arg::None),
            };
            let product = &mut program.ops[at];
            let Params::MatMul(of) = product.params else { continue };
            let mut head = p.each(if makes == Makes::Queries { p.heads } else { p.kv_heads });
            if makes == Makes::Values {
                (head.pairs, head.style) = (0, ROPE_NONE);
            }
            product.kind = OpKind::MatMulHeads;
            product.params =
                Params::MatMulHeads(MatMulHeadsParams { product: of, head, makes: makes as u32, kv: p.kv });
            product.args[slots::matmul_heads::ANGLES] = angles;
            product.args[slots::matmul_heads::NORM] = norm;
            if makes != Makes::Queries {
                product.args[slots::matmul_heads::Y] = Arg::None;
                product.args[slots::matmul_heads::KV] = op.args[slots::heads::KV];
            }
        }
    }
}

/// The products that make the heads of an op, if all can finish them: nothing else happens between them and the op, and
/// nobody else sees keys and values as they are before.
fn head_products(program: &Program, reads: &Reads, index: usize) -> Option<Vec<(usize, Makes)>> {
    use slots::heads::{K, Q, V};
    let op = &program.ops[index];
    let Params::Heads(p) = op.params else { return None };
    let fits = tiles::HEADS.is_multiple_of(p.head_dim as usize);
    let between = program.ops[..index].iter().rev().take_while(|op| op.kind == OpKind::MatMul).count();
    let product = |(slot, makes): (usize, Makes)| {
        let id = result(op, slot)?;
        let at = (index - between..index).find(|&i| result(&program.ops[i], slots::matmul::Y) == Some(id))?;
        let product = &program.ops[at];
        let plain = matches!(product.params, Params::MatMul(p) if p.is_plain())
            && [slots::matmul::RESIDUAL, slots::matmul::MAXIMA].iter().all(|slot| product.args[*slot] == Arg::None)
            && product.per == op.per;
        let alone = makes == Makes::Queries || reads.once(id);
        (plain && alone).then_some((at, makes))
    };
    let made = [(Q, Makes::Queries), (K, Makes::Keys), (V, Makes::Values)];
    let made = made.into_iter().filter(|(slot, _)| op.args[*slot] != Arg::None);
    made.map(product).collect::<Option<Vec<_>>>().filter(|_| fits)
}

/// `Convert` into the op before it, where nobody needs the f32 result.
fn converted_results(program: &mut Program) {
    let reads = Reads::of(program);
    let mut index = 0;
    while index < program.ops.len() {
        let op = &program.ops[index];
        let can = match (op.kind, &op.params) {
            (OpKind::Norm | OpKind::MatMul | OpKind::MatMulGated, _) => true,
            (OpKind::GatedActivation | OpKind::Unfold, _) => true,
            // A head is written by one worker: it must be whole blocks, or whole rows of tiles.
            (OpKind::Attention, Params::Attention(p)) => (p.head_dim as usize).is_multiple_of(WHOLE),
            _ => false,
        };
        // All of these have their result in the same slot.
        let reader = can.then(|| result(op, slots::norm::Y)).flatten().and_then(|y| {
            let reader = reads.sole_reader(program, index, y)?;
            (program.ops[reader].kind == OpKind::Convert).then_some(reader)
        });
        if let Some(reader) = reader {
            let convert = program.ops.remove(reader);
            program.ops[index].args[slots::norm::Y] = convert.args[slots::convert::Y];
        }
        index += 1;
    }
}
