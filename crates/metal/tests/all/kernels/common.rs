//! Sums, picked rows, means, and what moves values.

use crate::direct::Direct;
use crate::rig::*;
use akunu_plan::op::*;
use akunu_plan::program::{ActivationLayout, Arg};
use akunu_plan::steps::RowVars;

#[test]
fn sums_and_picked_rows_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(1);
    for dim in [1, 31, 64, 300, 1025] {
        let rows = noise.pick(&[1, 2, 5]);
        let mut rig = Rig::new(rows, 2);
        let (a, b, y) = (rig.f32(dim), rig.f32(dim), rig.f32(dim));
        let params = ElementParams { dim: dim as u32, activation: 0, scale: 0.7 };
        rig.op(OpKind::Add, Per::Row, &[Arg::Buffer(a), Arg::Buffer(y), Arg::Buffer(b)], Params::Element(params));
        let picked = rig.buffer(Per::Output, dim, ActivationLayout::F32);
        rig.op(OpKind::GatherRows, Per::Output, &[Arg::Buffer(y), Arg::Buffer(picked)], Params::Element(params));
        let case = Case::new(rig);
        let mut running = case.start(&chip());
        running.outputs(&[rows as u32 - 1, 0]);
        for id in [a, b] {
            running.set(id, &noise.values(rows * dim));
        }
        running.run();
        failures.compare(&format!("add of {dim}"), &running.got(y, rows), &running.want(y, rows), 1e-6);
        failures.compare(&format!("gather of {dim}"), &running.got(picked, 2), &running.want(picked, 2), 1e-6);
    }
    failures.report();
}

/// Rows of texts, one after the other.
fn texts(lengths: &[u32]) -> Vec<RowVars> {
    let text = |(sequence, &length): (usize, &u32)| {
        let row = move |position| RowVars { position, length, sequence: sequence as u32, ..RowVars::default() };
        (0..length).map(row)
    };
    lengths.iter().enumerate().flat_map(text).collect()
}

/// The means of texts, by the last rows of each.
fn means(lengths: &[u32], dim: usize, x: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let (rows, outputs) = (texts(lengths), lengths.len());
    let mut rig = Rig::new(rows.len(), outputs);
    rig.layout.sequences = outputs;
    let from = rig.f32(dim);
    let y = rig.buffer(Per::Output, dim, ActivationLayout::F32);
    let params = ElementParams { dim: dim as u32, activation: 0, scale: 1.0 };
    rig.op(OpKind::MeanRows, Per::Output, &[Arg::Buffer(from), Arg::Buffer(y)], Params::Element(params));
    rig.program.logits = y;
    let case = Case::new(rig);
    let mut running = case.start(&chip());
    running.rows(&rows);
    let ends = lengths.iter().scan(0, |end, length| Some(std::mem::replace(end, *end + length) + length - 1));
    running.outputs(&ends.collect::<Vec<_>>());
    running.set(from, x);
    running.run();
    (running.got(y, outputs), running.want(y, outputs))
}

#[test]
fn means_are_of_whole_texts() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(7);
    for (lengths, dim) in [(&[1][..], 5), (&[3, 40, 1, 17], 70), (&[8, 9], 32)] {
        let rows: u32 = lengths.iter().sum();
        let x = noise.values(rows as usize * dim);
        let (got, want) = means(lengths, dim, &x);
        failures.compare(&format!("means of {lengths:?} × {dim}"), &got, &want, 1e-6);
        let mut first = 0;
        for (text, &length) in lengths.iter().enumerate() {
            let end = first + length as usize;
            let (alone, _) = means(&[length], dim, &x[first * dim..end * dim]);
            failures.check("means", alone == got[text * dim..][..dim], "a text's mean depends on other texts");
            first = end;
        }
    }
    failures.report();
}

#[test]
fn sums_that_no_op_needs_add() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(8);
    for (rows, dim, stride) in [(1, 1, 16usize), (3, 300usize, 304)] {
        let x = noise.values(rows * stride);
        let other = noise.values(rows * stride);
        for name in ["residual_add", "bias_add"] {
            let strides = [stride as u32; 3];
            let params = [rows as u32, dim as u32, strides[0], strides[1], strides[2], 0, 0];
            let grid = [dim.div_ceil(256) as u32, rows as u32, 1];
            let got = Direct::new(name, grid, [256, 1, 1]).values(0, &x).values(1, &other);
            let got = got.output(2, rows * stride).params(&params).floats().remove(0);
            let right = (0..rows * stride).all(|i| {
                let (row, column) = (i / stride, i % stride);
                let added = if name == "bias_add" { other[column] } else { other[row * stride + column] };
                if column < dim { got[i] == x[i] + added } else { got[i].is_nan() }
            });
            failures.check(&format!("{name} of {rows} × {dim}"), right, "is not the sum");
        }
    }
    failures.report();
}

#[test]
fn values_change_places() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(9);
    for (rows, heads, d) in [(1, 1, 1), (5, 3, 20), (40, 2, 33)] {
        let (columns, stride) = (heads * d, heads * d + 3);
        let x = noise.values(rows * stride);
        let value = |row: usize, column: usize| x[row * stride + column];
        let name = |kernel: &str| format!("{kernel} of {rows} × {heads} × {d}");
        let sizes = [rows as u32, heads as u32, d as u32, stride as u32];

        let params = [rows as u32, columns as u32, stride as u32, rows as u32 + 2];
        let grid = [columns.div_ceil(32) as u32, rows.div_ceil(32) as u32, 1];
        let transposed = Direct::new("transpose", grid, [32, 8, 1]).values(0, &x).output(2, columns * (rows + 2));
        let y = transposed.params(&params).floats().remove(0);
        let right = (0..columns).all(|c| (0..rows).all(|r| y[c * (rows + 2) + r] == value(r, c)));
        failures.check(&name("transpose"), right, "values are elsewhere");
        failures.check(
            &name("transpose"),
            y.iter().filter(|v| v.is_nan()).count() == 2 * columns,
            "too much is written",
        );

        let grid = [d.div_ceil(64) as u32, rows as u32, heads as u32];
        let rearranged = Direct::new("head_rearrange", grid, [64, 1, 1]).values(0, &x).output(2, rows * columns);
        let y = rearranged.params(&sizes).floats().remove(0);
        let right = (0..rows * columns).all(|i| y[i] == value(i / d % rows, i / d / rows * d + i % d));
        failures.check(&name("head_rearrange"), right, "values are elsewhere");

        // The last two thirds are keys and values.
        let kv = columns / 3;
        let q = columns - 2 * kv;
        let params = [q as u32, kv as u32, stride as u32, q as u32 + 1, kv as u32 + 1];
        let grid = [columns.div_ceil(256) as u32, rows as u32, 1];
        let split = Direct::new("qkv_split", grid, [256, 1, 1]).values(0, &x).params(&params);
        let split = split.output(2, rows * (q + 1)).output(4, rows * (kv + 1)).output(5, rows * (kv + 1)).floats();
        let starts = [(0, q), (q, kv), (q + kv, kv)];
        let right = split.iter().zip(starts).all(|(part, (start, width))| {
            (0..rows).all(|r| (0..width).all(|c| part[r * (width + 1) + c] == value(r, start + c)))
        });
        failures.check(&name("qkv_split"), right, "values are elsewhere");
    }
    failures.report();
}
