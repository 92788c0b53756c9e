//! Attention: where rows are few, where they are many, and what one head looks at.

use super::common::{floats, stride};
use super::{Category, Plain, Target, kv_cache};
use crate::chip::Chip;
use crate::dispatch::{Dispatch, Extent};
use crate::params::params;
use crate::shaders::sources;
use akunu_plan::KV_BLOCK;
use akunu_plan::op::{AttentionParams as Op, AttentionWeightsParams as WeightsOp, KvParams, OpKind, slots};
use akunu_plan::record::{Addr, MAY_ROUND, Record, Region};
use std::mem::offset_of;

params! {
    /// All that end in `attention` or begin with `flash`.
    AttentionParams {
        rows: u32,
        heads_per_kv: u32,
        q_stride: u32,
        y_stride: u32,
        scale: f32,
        /// 0: none.
        soft_cap: f32,
        /// 0: none.
        window: u32,
        /// Keys and values are rows of the step.
        own_rows: u32,
        kv: KvParams,
        /// Every head has a score that nothing is behind.
        has_sinks: u32,
    }
    AttentionWeightsParams {
        rows: u32,
        head: u32,
        kv_head: u32,
        /// First value of the result in its row, and how many there are.
        at: u32,
        positions: u32,
        q_stride: u32,
        y_stride: u32,
        scale: f32,
        kv: KvParams,
        window: u32,
    }
    SoftmaxParams {
        rows: u32,
        dim: u32,
        x_stride: u32,
        y_stride: u32,
        scale: f32,
    }
}

/// Function constants.
const HEAD_DIM: u32 = 0;
const TREE_MASK: u32 = 1;
const QUERY_ROWS: u32 = 2;
const SEES: u32 = 3;
const HEADS_AT_ONCE: u32 = 4;

/// Values of the largest head.
const MOST_VALUES: u32 = 512;
/// SIMD groups of a threadgroup of `flash_attention`, and of `flash_attention_decode_parallel` at most.
const SIMDS: u32 = 8;
const MOST_SIMDS: u32 = 32;
/// Rows that are so few that all cores are busy only where many SIMD groups share a head.
const FEW_ROWS: u32 = 4;
/// Bytes of threadgroup memory.
const MEMORY: u32 = 32 << 10;

static ROWS: &[Plain] = &[
    Plain {
        name: "flash_attention_prefill_v2",
        source: "attention/flash_attention_prefill_v2.metal",
        op: Some(OpKind::Attention),
        serves: |r, chip| prefills(r) && matrices(r, chip),
        encode: prefill_v2,
        geometry: "128 threads; (rows / 32, heads)",
        chosen: "prefill, where the chip has matrices: heads of up to 128 values in eights",
    },
    Plain {
        name: "flash_attention_prefill",
        source: "attention/flash_attention_prefill.metal",
        op: Some(OpKind::Attention),
        serves: |r, _| prefills(r),
        encode: prefill,
        geometry: "128 threads; (rows / NQ, heads), NQ 16, 8 or 4 by head_dim",
        chosen: "prefill, where V2 does not go",
    },
    Plain {
        name: "flash_attention_decode_fast",
        source: "attention/flash_attention.metal",
        op: Some(OpKind::Attention),
        serves: |r, _| decodes(r) && (of(r).window_blocks(2) || own_rows(r)),
        encode: |r, target| vec![decode(r, target, "flash_attention_decode_fast", 1, at_once(of(r)))],
        geometry: "32 threads; (heads / 1 to 4, rows)",
        chosen: "windows of two blocks, and keys and values that are rows of the step",
    },
    Plain {
        name: "flash_attention",
        source: "attention/flash_attention.metal",
        op: Some(OpKind::Attention),
        serves: |r, _| decodes(r) && of(r).window_blocks(SIMDS),
        encode: |r, target| {
            let few = decode(r, target, "flash_attention", SIMDS, 1).when(1..=FEW_ROWS);
            let more = decode(r, target, "flash_attention", SIMDS, at_once(of(r))).when(FEW_ROWS + 1..=u32::MAX);
            vec![few, more]
        },
        geometry: "256 threads; (heads / 1 to 4, rows)",
        chosen: "windows of eight blocks; any context, where rows are more than 4",
    },
    Plain {
        name: "flash_attention_decode_parallel",
        source: "attention/flash_attention.metal",
        op: Some(OpKind::Attention),
        serves: |r, _| decodes(r),
        encode: |r, target| {
            let simds = simds_that_fit(of(r).head_dim);
            let few = decode(r, target, "flash_attention_decode_parallel", simds, 1).when(1..=FEW_ROWS);
            let more = decode(r, target, "flash_attention", SIMDS, at_once(of(r))).when(FEW_ROWS + 1..=u32::MAX);
            vec![few, more]
        },
        geometry: "1024 threads, fewer where head_dim is 256 or more; (heads, rows)",
        chosen: "any context, up to 4 rows; more are for flash_attention, with the same bits",
    },
    Plain {
        name: "attention_weights",
        source: "attention/attention_weights.metal",
        op: Some(OpKind::AttentionWeights),
        serves: |r, _| floats(r) && head_fits(r.params::<WeightsOp>().attention.head_dim),
        encode: weights,
        geometry: "256 threads; a threadgroup for every row",
        chosen: "always",
    },
];

static ALONE: &[Plain] = &[
    Plain {
        name: "softmax",
        source: "attention/softmax.metal",
        op: None,
        serves: |_, _| false,
        encode: |_, _| Vec::new(),
        geometry: "256 threads; a threadgroup for every row",
        chosen: "no op: attention never writes scores",
    },
    Plain {
        name: "logit_cap",
        source: "attention/logit_cap.metal",
        op: None,
        serves: |_, _| false,
        encode: |_, _| Vec::new(),
        geometry: "256 threads; (dim / 256, rows)",
        chosen: "no op: attention and products cap what they compute",
    },
];

pub(super) const CATEGORY: Category = Category {
    name: "attention",
    sources: sources![
        "attention/attention.h",
        "attention/attention_weights.metal",
        "attention/decode.h",
        "attention/flash_attention.metal",
        "attention/flash_attention_prefill.metal",
        "attention/flash_attention_prefill_v2.metal",
        "attention/logit_cap.metal",
        "attention/softmax.metal",
    ],
    rows: || ROWS.iter().flat_map(kv_cache::rows).chain(ALONE.iter().map(Plain::row)).collect(),
    layouts,
};

fn of(record: &Record) -> &Op {
    record.params::<Op>()
}

trait Window {
    /// Whether a row sees so many blocks at most, apart from where its first and last begin and end.
    fn window_blocks(&self, blocks: u32) -> bool;
}

impl Window for Op {
    fn window_blocks(&self, blocks: u32) -> bool {
        (1..=blocks * KV_BLOCK as u32).contains(&self.window)
    }
}

fn head_fits(head_dim: u32) -> bool {
    head_dim.is_multiple_of(2) && (1..=MOST_VALUES).contains(&head_dim)
}

fn decodes(record: &Record) -> bool {
    floats(record) && record.flags & MAY_ROUND == 0 && head_fits(of(record).head_dim)
}

fn prefills(record: &Record) -> bool {
    floats(record) && record.flags & MAY_ROUND != 0 && head_fits(of(record).head_dim)
}

/// Whether matrices of 8 by 8 are whole, and those of queries and results fit registers together.
fn matrices(record: &Record, chip: &Chip) -> bool {
    let d = of(record).head_dim;
    chip.matrices && d.is_multiple_of(8) && d <= 128
}

fn own_rows(record: &Record) -> bool {
    record.args[slots::attention::KV].is_none()
}

/// Heads of one KV head that share its loads: as many as fit registers.
fn at_once(p: &Op) -> u32 {
    let (parts, most) = (p.head_dim.div_ceil(32), MOST_VALUES / 32);
    let fits = |n: &u32| (p.heads / p.kv_heads).is_multiple_of(*n) && n * parts <= most;
    [4, 2].into_iter().find(fits).unwrap_or(1)
}

/// SIMD groups whose partial results of one head fit threadgroup memory.
fn simds_that_fit(head_dim: u32) -> u32 {
    let most = MEMORY / partial_bytes(head_dim, 1);
    [MOST_SIMDS, 16].into_iter().find(|n| *n <= most).unwrap_or(SIMDS)
}

/// What a SIMD group leaves of a block: values, their largest score, the sum of their weights.
fn partial_bytes(head_dim: u32, heads: u32) -> u32 {
    heads * (head_dim + 2) * 4
}

fn decode(record: &Record, target: &Target<'_>, name: &str, simds: u32, heads: u32) -> Dispatch {
    let p = of(record);
    let memory = (simds * partial_bytes(p.head_dim, heads)).next_multiple_of(16);
    of_queries(record, target, name)
        .constant(TREE_MASK, 1)
        .constant(HEADS_AT_ONCE, heads)
        .grid(Extent::Fixed(p.heads / heads), Extent::Rows(1), Extent::Fixed(1))
        .threads([32 * simds, 1, 1])
        .threadgroup_memory(&[memory as usize])
}

fn prefill(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    let p = of(record);
    let rows = match p.head_dim {
        ..=128 => 16,
        129..=256 => 8,
        _ => 4,
    };
    let memory = rows * p.head_dim.next_multiple_of(4) * 4;
    let dispatch = of_queries(record, target, "flash_attention_prefill")
        .constant(QUERY_ROWS, rows)
        .grid(Extent::Rows(rows), Extent::Fixed(p.heads), Extent::Fixed(1))
        .threads([128, 1, 1])
        .threadgroup_memory(&[memory as usize]);
    vec![dispatch]
}

fn prefill_v2(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    let p = of(record);
    let value = if target.row.format == Some("f16") { 2 } else { 4 };
    let dispatch = of_queries(record, target, "flash_attention_prefill_v2")
        .grid(Extent::Rows(32), Extent::Fixed(p.heads), Extent::Fixed(1))
        .threads([128, 1, 1])
        .threadgroup_memory(&[(32 * (p.head_dim + 8) * value) as usize]);
    vec![dispatch]
}

/// What all of attention has in common.
fn of_queries(record: &Record, target: &Target<'_>, name: &str) -> Dispatch {
    use slots::attention::*;
    let p = of(record);
    let own = own_rows(record);
    let params = AttentionParams {
        heads_per_kv: p.heads / p.kv_heads,
        q_stride: stride(record, Q),
        y_stride: stride(record, Y),
        scale: p.scale,
        soft_cap: p.soft_cap,
        window: p.window,
        own_rows: own.into(),
        kv: p.kv,
        ..Default::default()
    };
    let format = target.row.format.unwrap_or("f32");
    let dispatch = Dispatch::new(record, format!("{name}_{format}"))
        .operand(0, record, Q)
        .operand(2, record, Y)
        .params(&params)
        .rows_at(offset_of!(AttentionParams, rows))
        .region(4, Addr::new(Region::STEPS, 0))
        .constant(HEAD_DIM, p.head_dim)
        .constant(SEES, p.sees);
    match own {
        true => dispatch.operand(1, record, K).operand(5, record, V),
        false => dispatch.region(1, record.args[KV]),
    }
}

fn weights(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::weights::*;
    let p = record.params::<WeightsOp>();
    let a = &p.attention;
    let params = AttentionWeightsParams {
        rows: 0,
        head: p.head,
        kv_head: p.head / (a.heads / a.kv_heads),
        at: p.at,
        positions: p.positions,
        q_stride: stride(record, Q),
        y_stride: stride(record, Y),
        scale: a.scale,
        kv: a.kv,
        window: a.window,
    };
    let dispatch = Dispatch::new(record, &*target.row.name)
        .operand(0, record, Q)
        .region(1, record.args[KV])
        .operand(2, record, Y)
        .params(&params)
        .rows_at(offset_of!(AttentionWeightsParams, rows))
        .region(4, Addr::new(Region::STEPS, 0))
        .constant(HEAD_DIM, a.head_dim)
        .constant(SEES, a.sees)
        .constant(HEADS_AT_ONCE, 1)
        .grid(Extent::Rows(1), Extent::Fixed(1), Extent::Fixed(1))
        .threads([256, 1, 1]);
    vec![dispatch]
}
