//! What kernels read of the plan's own structs: step variables, and where keys and values lie.

use super::{Layout, declared};
use akunu_dtype::FORMATS;
use akunu_plan::draw::DrawVars;
use akunu_plan::op::KvParams;
use akunu_plan::rules::{MOST_LISTED, RuleVars, Rules};
use akunu_plan::steps::{KV_BLOCK, RowVars, StepHeader};
use std::fmt::Write;
use std::mem::offset_of;

macro_rules! layout {
    ($of:ident as $name:literal { $($field:ident: $type:ty),* $(,)? }) => {
        Layout {
            name: $name,
            bytes: size_of::<$of>(),
            fields: vec![$((stringify!($field), declared::<$type>(stringify!($field)), offset_of!($of, $field))),*],
        }
    };
}

pub(super) fn layouts() -> Vec<Layout> {
    vec![
        layout!(StepHeader as "StepHeader" {
            rows: u32, outputs: u32, emitted_steps: u32, table_blocks: u32, table_sequences: u32, rows_offset: u32,
            outputs_offset: u32, tables_offset: u32, emitted_offset: u32, draws_offset: u32, rules_offset: u32,
            texts_offset: u32, ended: u32, reserved: [u32; 3],
        }),
        layout!(RowVars as "RowVars" {
            token: u32, position: u32, sequence: u32, length: u32, segment: u32, ahead: u32, hidden: [u32; 2],
        }),
        layout!(DrawVars as "DrawVars" {
            temperature: f32, top_k: u32, top_p: f32, min_p: f32, seed: [u32; 2], index: u32, reserved: u32,
        }),
        layout!(Rules as "Rules" {
            end: u32, first_timestamp: u32, timestamps: u32, latest_start: u32, never: u32, not_first: u32,
            tokens: [u32; MOST_LISTED],
        }),
        layout!(RuleVars as "RuleVars" {
            on: u32, count: u32, last: u32, before: u32, latest: u32, sum: f32, total: f32, reserved: u32,
        }),
        layout!(KvParams as "KVParams" {
            group: u32, dtype: u32, block_bytes: u32, layer_offset: u32, value_offset: u32, head_bytes: u32, row_bytes: u32,
        }),
    ]
}

/// Numbers that kernels and the plan must agree on.
pub(super) fn constants(out: &mut String) {
    use akunu_plan::{draw, op, steps};
    let mut define = |name: &str, value: u32| {
        let _ = writeln!(out, "#define {name} {value}u");
    };
    define("KV_BLOCK", KV_BLOCK as u32);
    define("NO_BLOCK", steps::NO_BLOCK);
    define("NO_TOKEN", steps::NO_TOKEN);
    define("MAXIMA_SLICE", op::MAXIMA_SLICE as u32);
    define("MOST_CANDIDATES", draw::MOST_CANDIDATES as u32);
    define("MOST_LISTED", MOST_LISTED as u32);
    for (name, activation) in [
        ("ACTIVATION_NONE", op::Activation::None),
        ("ACTIVATION_SILU", op::Activation::Silu),
        ("ACTIVATION_GELU_TANH", op::Activation::GeluTanh),
        ("ACTIVATION_GELU_ERF", op::Activation::GeluErf),
    ] {
        define(name, activation as u32);
    }
    for (name, value) in [
        ("ROPE_NONE", op::ROPE_NONE),
        ("ROPE_INTERLEAVED", op::ROPE_INTERLEAVED),
        ("ROPE_SPLIT_HALF", op::ROPE_SPLIT_HALF),
        ("INDEX_TOKEN", op::Index::Token as u32),
        ("INDEX_POSITION", op::Index::Position as u32),
        ("INDEX_SEGMENT", op::Index::Segment as u32),
        ("SEES_PAST", op::Sees::Past as u32),
        ("SEES_ALL", op::Sees::All as u32),
    ] {
        define(name, value);
    }
    for format in FORMATS.iter().filter(|f| f.unpack.is_none()) {
        define(&format!("DTYPE_{}", format.name), format.dtype.index().into());
    }
    let _ = writeln!(out, "#define NONE_DRAWN ({:?}f)", op::NONE_DRAWN);
}
