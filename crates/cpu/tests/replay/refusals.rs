//! What must be refused before anything runs: broken records and broken step variables.

use super::decoder::Decoder;
use super::{alone, cpu};
use akunu_cpu::Level;
use akunu_plan::bind::Bound;
use akunu_plan::op::{OpKind, slots};
use akunu_plan::record::{Addr, BARRIER, Record, Region};
use akunu_plan::{StepError, SubmitError};

fn record(bound: &mut Bound, kind: OpKind) -> &mut Record {
    bound.records.iter_mut().find(|r| r.kind() == Some(kind)).expect("the decoder has every op")
}

type Break = (&'static str, fn(&mut Bound));

const BROKEN: &[Break] = &[
    ("a kernel that is not there", |b| b.records[0].kernel = 1_000_000),
    ("a kernel of another op", |b| b.records[0].kernel = b.records[1].kernel),
    ("an op that is not there", |b| b.records[0].op = 99),
    ("a result outside the arena", |b| {
        let end = b.arena_bytes;
        record(b, OpKind::Embed).args[slots::embed::Y] = Addr::new(Region::ARENA, end);
    }),
    ("a result in the constants", |b| {
        record(b, OpKind::Embed).args[slots::embed::Y] = Addr::new(Region::CONSTANTS, 0);
    }),
    ("a result in the model file", |b| {
        record(b, OpKind::Norm).args[slots::norm::Y] = Addr::new(Region::file(0), 0);
    }),
    ("an offset between cache lines", |b| record(b, OpKind::Norm).args[slots::norm::X].0 += 4),
    ("rows that overlap", |b| record(b, OpKind::Norm).strides[slots::norm::X] = 64),
    ("a required operand missing", |b| record(b, OpKind::Norm).args[slots::norm::WEIGHT] = Addr::NONE),
    ("a constant past the end", |b| {
        let end = b.constants.len() * 4;
        record(b, OpKind::Norm).args[slots::norm::WEIGHT] = Addr::new(Region::CONSTANTS, end);
    }),
    ("a weight past the end of its file", |b| record(b, OpKind::MatMul).args[slots::matmul::W].0 += 1 << 40),
    ("a weight of a file that is not there", |b| {
        record(b, OpKind::MatMul).args[slots::matmul::W] = Addr::new(Region::file(3), 0);
    }),
    ("more weight rows than there are", |b| record(b, OpKind::Embed).params[1] = 1 << 30),
    ("no vocabulary", |b| record(b, OpKind::Embed).params[1] = 0),
    ("another number format", |b| record(b, OpKind::MatMul).params[2] = 0),
    ("an unknown number format", |b| record(b, OpKind::MatMul).params[2] = 250),
    ("a product that lies on its input", |b| {
        let r = record(b, OpKind::MatMul);
        r.args[slots::matmul::Y] = r.args[slots::matmul::X];
    }),
    ("a KV group that is not there", |b| record(b, OpKind::Attention).params[6] = 5),
    ("KV blocks of another size", |b| record(b, OpKind::Attention).params[8] *= 2),
    ("a layer past the end of its block", |b| record(b, OpKind::HeadNormRopeKvWrite).params[9] += 1 << 20),
    ("heads that cannot share KV heads", |b| record(b, OpKind::Attention).params[1] = 3),
    ("more pairs than a head has", |b| record(b, OpKind::HeadNormRopeKvWrite).params[3] = 500),
    ("no logits", |b| record(b, OpKind::Advance).params[0] = 0),
    ("slices of logits that workers share", |b| {
        let keeps = |r: &&mut Record| !r.args[slots::matmul::MAXIMA].is_none() && r.kind() == Some(OpKind::MatMul);
        b.records.iter_mut().filter(keeps).for_each(|r| r.grain = 32);
    }),
    ("step variables that are moved twice", |b| {
        let last = b.records[b.records.len() - 1];
        b.records.push(last);
    }),
    ("a record after the step variables have moved", |b| {
        let (advance, last) = (b.records.len() - 1, b.records.len() - 2);
        b.records.swap(advance, last);
        b.records[last].flags |= BARRIER;
        b.records[advance].flags |= BARRIER;
    }),
    ("an unknown layout of weights", |b| record(b, OpKind::MatMul).weight_layout = 7),
    ("a missing barrier", |b| {
        for r in &mut b.records {
            r.flags &= !BARRIER;
        }
    }),
];

#[test]
fn broken_records_are_refused() {
    let _alone = alone();
    let decoder = Decoder::new(1);
    let cpu = cpu(Level::detect(), 1);
    let whole = decoder.start(&cpu);
    let mut accepted = Vec::new();
    for (name, damage) in BROKEN {
        let mut bound = whole.ready.bound().clone();
        damage(&mut bound);
        if cpu.ready(bound, 1, 1, &whole.memory).is_ok() {
            accepted.push(name);
        }
    }
    assert!(accepted.is_empty(), "accepted: {accepted:?}");
    assert!(cpu.ready(whole.ready.bound().clone(), 1, 1, &whole.memory).is_ok());
    assert!(cpu.ready(whole.ready.bound().clone(), 1000, 1, &whole.memory).is_err(), "more rows than the arena has");
}

#[test]
fn broken_step_variables_are_refused() {
    let _alone = alone();
    let decoder = Decoder::new(1);
    let mut cpu = cpu(Level::detect(), 1);
    let mut refused = |name: &str, steps: usize, damage: fn(&mut akunu_plan::steps::StepVars<'_>)| {
        let mut running = decoder.start(&cpu);
        damage(&mut running.memory.step_vars());
        let result = cpu.replay(&running.ready, &mut running.memory, steps);
        assert!(result.is_err(), "{name} was accepted");
        result.unwrap_err()
    };
    assert_eq!(refused("a moved table", 1, |v| v.header_mut().tables_offset += 4), StepError::Header.into());
    refused("too many rows", 1, |v| v.header_mut().rows = 2);
    refused("too many outputs", 1, |v| v.header_mut().outputs = 2);
    refused("an output of no row", 1, |v| v.outputs_mut()[0] = 1);
    refused("an unknown sequence", 1, |v| v.rows_mut()[0].sequence = 1);
    refused("a position past the context", 1, |v| v.rows_mut()[0].position = 192);
    refused("a chain past the context", 5, |v| v.rows_mut()[0].position = 188);
    refused("a chain longer than its room", 65, |_| {});
    refused("a chain that began long ago", 1, |v| v.header_mut().emitted_steps = u32::MAX);

    let first = decoder.start(&cpu);
    let mut second = decoder.start(&cpu);
    assert_eq!(cpu.replay(&first.ready, &mut second.memory, 1), Err(SubmitError::OtherMemory));
}
