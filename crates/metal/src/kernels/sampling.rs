//! Choosing tokens.

use super::common::{floats, stride};
use super::{Category, Plain, Target};
use crate::dispatch::{Dispatch, Extent};
use crate::params::params;
use crate::shaders::sources;
use akunu_plan::op::{OpKind, Per, TokenParams, slots};
use akunu_plan::record::{Addr, Record, Region};

params! {
    /// `argmax_advance`, `gumbel_sample`, `whisper_suppress` and `argmax`: rows of logits, and what belongs to them.
    SamplingParams {
        /// Logits of a row.
        n: u32,
        x_stride: u32,
        maxima_stride: u32,
        drawn_stride: u32,
        total_stride: u32,
        has_drawn: u32,
        has_total: u32,
    }
    TopKParams {
        n: u32,
        /// At most 256.
        k: u32,
        x_stride: u32,
    }
    GumbelTopKParams {
        n: u32,
        /// At most 256.
        k: u32,
        x_stride: u32,
        temperature: f32,
        seed: [u32; 2],
        index: u32,
    }
    TemperatureScaleParams {
        n: u32,
        stride: u32,
        temperature: f32,
    }
    RepetitionPenaltyParams {
        n: u32,
        /// Tokens that came before.
        count: u32,
        penalty: f32,
    }
    GrammarBitmaskParams {
        n: u32,
        stride: u32,
        /// Words from one mask to the next.
        mask_stride: u32,
    }
}

static ROWS: &[Plain] = &[
    Plain {
        name: "argmax_advance",
        source: "sampling/argmax.metal",
        op: Some(OpKind::Advance),
        serves: |r, _| floats(r),
        encode: advance,
        geometry: "one threadgroup, a SIMD group for every output",
        chosen: "always",
    },
    Plain {
        name: "gumbel_sample",
        source: "sampling/gumbel.metal",
        op: Some(OpKind::Sample),
        serves: |r, _| floats(r),
        encode: sample,
        geometry: "up to 1024 threads; a threadgroup for every output",
        chosen: "always",
    },
    Plain {
        name: "whisper_suppress",
        source: "sampling/whisper_suppress.metal",
        op: Some(OpKind::Suppress),
        serves: |r, _| floats(r),
        encode: suppress,
        geometry: "up to 1024 threads; a threadgroup for every output",
        chosen: "always",
    },
    alone("argmax", "sampling/argmax.metal", "up to 1024 threads; a threadgroup for every row"),
    alone("topk", "sampling/topk.metal", "up to 1024 threads; a threadgroup for every row"),
    alone("gumbel_topk", "sampling/gumbel.metal", "up to 1024 threads; a threadgroup for every row"),
    alone("temperature", "sampling/logits.metal", "256 threads; (n / 256, rows)"),
    alone("repetition_penalty", "sampling/logits.metal", "256 threads; count / 256"),
    alone("grammar_bitmask", "sampling/logits.metal", "256 threads; (n / 256, rows)"),
];

/// A kernel that no op is run by.
const fn alone(name: &'static str, source: &'static str, geometry: &'static str) -> Plain {
    Plain { name, source, op: None, serves: |_, _| false, encode: |_, _| Vec::new(), geometry, chosen: "no op" }
}

pub(super) const CATEGORY: Category = Category {
    name: "sampling",
    sources: sources![
        "sampling/argmax.metal",
        "sampling/draws.h",
        "sampling/gumbel.metal",
        "sampling/likeliest.h",
        "sampling/logits.metal",
        "sampling/order.h",
        "sampling/rules.h",
        "sampling/topk.metal",
        "sampling/whisper_suppress.metal",
    ],
    rows: || ROWS.iter().map(Plain::row).collect(),
    layouts,
};

/// Threads of a threadgroup at most.
const THREADS: u32 = 1024;

const SIMD: u32 = 32;

fn steps() -> Addr {
    Addr::new(Region::STEPS, 0)
}

/// One threadgroup, also where a step has no outputs: it is a step all the same.
fn advance(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::advance::{DRAWN, MAXIMA, TOTAL, X};
    let params = SamplingParams {
        n: record.params::<TokenParams>().n,
        x_stride: stride(record, X),
        maxima_stride: stride(record, MAXIMA),
        drawn_stride: stride(record, DRAWN),
        total_stride: stride(record, TOTAL),
        has_drawn: (!record.args[DRAWN].is_none()).into(),
        has_total: (!record.args[TOTAL].is_none()).into(),
    };
    let mut dispatch = Dispatch::new(record, &*target.row.name)
        .operand(0, record, X)
        .params(&params)
        .operand(4, record, MAXIMA)
        .operand(5, record, DRAWN)
        .operand(6, record, TOTAL)
        .region(7, steps())
        .threads([SIMD * record.rows.clamp(1, THREADS / SIMD), 1, 1]);
    dispatch.per = Per::Row;
    vec![dispatch]
}

fn sample(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::sample::{X, Y};
    let params = SamplingParams {
        n: record.params::<TokenParams>().n,
        x_stride: stride(record, X),
        drawn_stride: stride(record, Y),
        ..Default::default()
    };
    vec![of_outputs(record, target, &params).operand(0, record, X).operand(2, record, Y).region(4, steps())]
}

fn suppress(record: &Record, target: &Target<'_>) -> Vec<Dispatch> {
    use slots::suppress::{MAXIMA, TOTAL, X};
    let params = SamplingParams {
        n: record.params::<TokenParams>().n,
        x_stride: stride(record, X),
        maxima_stride: stride(record, MAXIMA),
        total_stride: stride(record, TOTAL),
        ..Default::default()
    };
    let dispatch = of_outputs(record, target, &params)
        .operand(0, record, X)
        .operand(2, record, TOTAL)
        .operand(4, record, MAXIMA)
        .region(5, steps());
    vec![dispatch]
}

/// A threadgroup for every output, with a thread for every logit as far as there can be so many.
fn of_outputs(record: &Record, target: &Target<'_>, params: &SamplingParams) -> Dispatch {
    Dispatch::new(record, &*target.row.name)
        .params(params)
        .grid(Extent::Rows(1), Extent::Fixed(1), Extent::Fixed(1))
        .threads([params.n.next_multiple_of(SIMD).min(THREADS), 1, 1])
}
