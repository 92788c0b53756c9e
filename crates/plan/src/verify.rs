//! The verifier: every op against the op table, every shape against its neighbours, every
//! buffer's place against all that is alive with it.

use crate::op::*;
use crate::program::*;
use akunu_dtype::q8;

/// What is wrong with a program, and where.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid program: op {index} ({op}): {what}")]
pub struct Invalid {
    pub index: usize,
    pub op: &'static str,
    pub what: String,
}

pub fn verify(program: &Program) -> Result<(), Invalid> {
    let mut written = vec![false; program.buffers.len()];
    if let Some(input) = program.input {
        *written.get_mut(input.0 as usize).ok_or_else(|| no_input("does not exist"))? = true;
    }
    for (index, op) in program.ops.iter().enumerate() {
        let fault = |what: String| Invalid { index, op: op.kind.spec().name, what };
        check_slots(program, op, &mut written).map_err(fault)?;
        check_shapes(program, op).map_err(fault)?;
    }
    check_places(program)
}

fn no_input(what: &str) -> Invalid {
    Invalid { index: 0, op: "input", what: format!("the program's input {what}") }
}

fn check_slots(program: &Program, op: &Op, written: &mut [bool]) -> Result<(), String> {
    let spec = op.kind.spec();
    for (slot, arg) in op.args.iter().enumerate() {
        let Some(want) = spec.slots.get(slot) else {
            if *arg != Arg::None {
                return Err(format!("has an operand in slot {slot}, which it does not have"));
            }
            continue;
        };
        let name = want.name;
        let fits = match (arg, want.holds) {
            (Arg::None, _) => !want.required,
            (Arg::Buffer(id), Holds::F32 | Holds::Activation) => {
                let Some(buffer) = program.buffers.get(id.0 as usize) else {
                    return Err(format!("{name} is a buffer that does not exist"));
                };
                buffer.layout == ActivationLayout::F32 || want.holds == Holds::Activation
            }
            (Arg::Weight(id), Holds::Weight) => (id.0 as usize) < program.weights.len(),
            (Arg::Vector(v), Holds::Vector) => (v.offset + v.len) as usize <= program.constants.len(),
            (Arg::Kv(group), Holds::Kv) => (*group as usize) < program.kv_groups.len(),
            _ => false,
        };
        if !fits {
            return Err(format!("{name} holds {arg:?}, not {:?}", want.holds));
        }
        if let Arg::Buffer(id) = arg
            && want.used != Use::Write
            && !written[id.0 as usize]
        {
            return Err(format!("{name} is read before anything wrote it"));
        }
    }
    for (arg, want) in op.args.iter().zip(spec.slots) {
        if let (Arg::Buffer(id), Use::Write | Use::ReadWrite) = (arg, want.used) {
            written[id.0 as usize] = true;
        }
    }
    Ok(())
}

fn check_shapes(program: &Program, op: &Op) -> Result<(), String> {
    let width = |slot: usize| match op.args[slot] {
        Arg::Buffer(id) => program.buffer(id).width,
        Arg::Vector(v) => v.len as usize,
        _ => 0,
    };
    let same = |slot: usize, want: usize| match op.args[slot] {
        Arg::None => Ok(()),
        _ if width(slot) == want => Ok(()),
        _ => Err(format!("{} is {} wide, not {want}", op.kind.spec().slots[slot].name, width(slot))),
    };
    let weight = |slot: usize, rows: usize, cols: usize, dtype: u32| match op.args[slot] {
        Arg::Weight(id) => {
            let w = program.weight(id);
            let fits = w.rows == rows && w.cols == cols && u32::from(w.dtype.index()) == dtype;
            let aligned = w.dtype.row_bytes(cols).is_some_and(|b| b <= u32::MAX as usize);
            (fits && aligned).then_some(()).ok_or_else(|| {
                format!("weight {} is {} [{}, {}], not [{rows}, {cols}]", w.name, w.dtype, w.rows, w.cols)
            })
        }
        _ => Ok(()),
    };
    for arg in op.args {
        if let Arg::Buffer(id) = arg {
            let b = program.buffer(id);
            if b.layout == ActivationLayout::Q8 && !b.width.is_multiple_of(q8::BLOCK) {
                return Err(format!("an int8 buffer of {} values is not whole blocks", b.width));
            }
        }
    }
    let widths = |list: &[(usize, usize)]| list.iter().try_for_each(|(slot, want)| same(*slot, *want));
    match (op.kind, op.params) {
        (OpKind::Embed, Params::Embed(p)) => {
            weight(slots::embed::TABLE, p.vocab as usize, p.dim as usize, p.dtype)?;
            same(slots::embed::Y, p.dim as usize)
        }
        (OpKind::RopeAngles, Params::RopeAngles(p)) => widths(&[
            (slots::rope_angles::FREQUENCIES, p.pairs as usize),
            (slots::rope_angles::Y, 2 * p.pairs as usize),
        ]),
        (OpKind::Norm, Params::Norm(p)) => {
            let dim = p.dim as usize;
            use slots::norm::*;
            widths(&[(X, dim), (Y, dim), (WEIGHT, dim), (BIAS, dim), (RESIDUAL, dim)])
        }
        (OpKind::MatMul, Params::MatMul(p)) => {
            let (n, k) = (p.n as usize, p.k as usize);
            use slots::matmul::*;
            weight(W, n, k, p.dtype)?;
            widths(&[(X, k), (Y, n), (BIAS, n), (RESIDUAL, n), (MAXIMA, n.div_ceil(MAXIMA_SLICE))])
        }
        (OpKind::MatMulGated, Params::MatMul(p)) => {
            let (n, k) = (p.n as usize, p.k as usize);
            use slots::gated::*;
            weight(W, n, k, p.dtype)?;
            weight(U, n, k, p.dtype)?;
            widths(&[(X, k), (Y, n)])
        }
        (OpKind::MatMulHeads, Params::MatMulHeads(p)) => {
            let (n, k, d) = (p.product.n as usize, p.product.k as usize, p.head.head_dim as usize);
            use slots::matmul_heads::*;
            if n != p.head.heads as usize * d || 2 * p.head.pairs > p.head.head_dim || !p.product.is_plain() {
                return Err("its heads and its product do not fit together".into());
            }
            let queries = p.makes == Makes::Queries as u32;
            if queries != (op.args[Y] != Arg::None) || queries != (op.args[KV] == Arg::None) {
                return Err("queries are its result, keys and values go into the KV cache".into());
            }
            weight(W, n, k, p.product.dtype)?;
            widths(&[(X, k), (Y, n), (BIAS, n), (NORM, d), (ANGLES, 2 * p.head.pairs as usize)])
        }
        (OpKind::GatedActivation, Params::Element(p)) => {
            use slots::gated_activation::*;
            widths(&[(X, p.dim as usize), (Y, p.dim as usize), (U, p.dim as usize)])
        }
        (OpKind::Add, Params::Element(p)) => {
            use slots::add::*;
            widths(&[(A, p.dim as usize), (Y, p.dim as usize), (B, p.dim as usize)])
        }
        (OpKind::Convert | OpKind::GatherRows | OpKind::MeanRows, Params::Element(p)) => {
            widths(&[(slots::gather::X, p.dim as usize), (slots::gather::Y, p.dim as usize)])
        }
        (OpKind::HeadNormRopeKvWrite, Params::Heads(p)) => {
            use slots::heads::*;
            let d = p.head_dim as usize;
            if 2 * p.pairs > p.head_dim || !p.heads.is_multiple_of(p.kv_heads) {
                return Err("its head counts do not fit together".into());
            }
            if (p.heads == 0) != (op.args[Q] == Arg::None) {
                return Err("it has queries without heads, or heads without queries".into());
            }
            let (q, kv) = (p.heads as usize * d, p.kv_heads as usize * d);
            widths(&[(Q, q), (K, kv), (V, kv), (Q_NORM, d), (K_NORM, d), (ANGLES, 2 * p.pairs as usize)])
        }
        (OpKind::HeadNormRope, Params::Head(p)) => {
            use slots::head::*;
            if 2 * p.pairs > p.head_dim {
                return Err("it rotates more values than a head has".into());
            }
            let (d, pairs) = (p.head_dim as usize, p.pairs as usize);
            widths(&[(X, p.heads as usize * d), (NORM, d), (ANGLES, 2 * pairs)])
        }
        (OpKind::Attention, Params::Attention(p)) => {
            use slots::attention::*;
            if !p.heads.is_multiple_of(p.kv_heads) {
                return Err("its head counts do not fit together".into());
            }
            let (q, kv) = (p.heads as usize * p.head_dim as usize, p.kv_heads as usize * p.head_dim as usize);
            let given = [K, V].map(|slot| op.args[slot] != Arg::None);
            if given[0] != given[1] || given[0] == (op.args[KV] != Arg::None) {
                return Err("keys and values are in the KV cache or in the step, not in both or neither".into());
            }
            if let (Arg::Buffer(k), Arg::Buffer(v)) = (op.args[K], op.args[V])
                && [k, v].iter().any(|id| program.buffer(*id).stride() != p.kv.row_bytes as usize)
            {
                return Err("keys and values are not as far apart as it says".into());
            }
            widths(&[(Q, q), (Y, q), (K, kv), (V, kv)])
        }
        (OpKind::Unfold, Params::Unfold(p)) => {
            use slots::unfold::*;
            let frames = matches!(op.args[X], Arg::Buffer(id) if program.buffer(id).per == Per::Frame);
            if !frames || p.taps == 0 || !matches!((op.per, p.stride), (Per::Frame, 1) | (Per::Row, 2)) {
                return Err("it does not take frames one or two at a time".into());
            }
            widths(&[(X, p.channels as usize), (Y, p.channels as usize * p.taps as usize)])
        }
        (OpKind::AttentionWeights, Params::AttentionWeights(p)) => {
            use slots::weights::*;
            let a = p.attention;
            if p.head >= a.heads || a.kv_heads == 0 || !a.heads.is_multiple_of(a.kv_heads) {
                return Err("its head counts do not fit together".into());
            }
            if p.at as usize + p.positions as usize > width(Y) {
                return Err("its result does not fit its row".into());
            }
            same(Q, a.heads as usize * a.head_dim as usize)
        }
        (OpKind::Suppress, Params::Token(p)) => {
            use slots::suppress::*;
            let n = p.n as usize;
            widths(&[(X, n), (MAXIMA, n.div_ceil(MAXIMA_SLICE)), (TOTAL, 1)])
        }
        (OpKind::Sample, Params::Token(p)) => widths(&[(slots::sample::X, p.n as usize), (slots::sample::Y, 1)]),
        (OpKind::Advance, Params::Token(p)) => {
            use slots::advance::*;
            let n = p.n as usize;
            widths(&[(X, n), (MAXIMA, n.div_ceil(MAXIMA_SLICE)), (DRAWN, 1), (TOTAL, 1)])
        }
        _ => Err("has the parameters of another op".into()),
    }
}

/// No op may write over a buffer that a later op still reads.
fn check_places(program: &Program) -> Result<(), Invalid> {
    let range = |id: BufferId| {
        let b = program.buffer(id);
        (b.offset, b.offset + program.capacity(b.per) * b.stride())
    };
    // Which buffer's value each live range holds: replay the writes, and see that reads find theirs.
    let mut holders: Vec<BufferId> = program.input.into_iter().collect();
    if holders.iter().any(|id| range(*id).1 > program.arena_bytes) {
        return Err(no_input("lies outside the arena"));
    }
    for (index, op) in program.ops.iter().enumerate() {
        let fault = |what: String| Invalid { index, op: op.kind.spec().name, what };
        for (arg, slot) in op.args.iter().zip(op.kind.spec().slots) {
            let Arg::Buffer(id) = arg else { continue };
            if range(*id).1 > program.arena_bytes {
                return Err(fault(format!("{} lies outside the arena", slot.name)));
            }
            if slot.used != Use::Write && !holders.contains(id) {
                return Err(fault(format!("{} was overwritten before this read", slot.name)));
            }
        }
        for (arg, slot) in op.args.iter().zip(op.kind.spec().slots) {
            let (Arg::Buffer(id), Use::Write) = (arg, slot.used) else { continue };
            let (start, end) = range(*id);
            holders.retain(|h| range(*h).1 <= start || range(*h).0 >= end);
            holders.push(*id);
        }
    }
    Ok(())
}
