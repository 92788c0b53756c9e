//! A program as a table people read: op, kernel, shapes, number formats, cost.

use std::io::{self, Write};

use akunu::DType;
use akunu_plan::cost::Cost;
use akunu_plan::op::{OpKind, Params, Per};
use akunu_plan::program::{ActivationLayout, Arg, Op};
use akunu_plan::record::BARRIER;
use akunu_plan::{Backend, Bound, Program};
use serde_json::{Value, json};

use crate::table::Table;
use crate::units;

/// One dispatch.
pub struct Entry {
    pub layer: Option<u32>,
    pub op: &'static str,
    pub kernel: String,
    pub shape: String,
    pub dtype: String,
    pub cost: Cost,
    /// All workers wait before it.
    pub barrier: bool,
    /// Dispatches that it becomes, and how many of them wait for what is before them.
    pub dispatches: usize,
    pub waits: usize,
}

/// The entries of a bound program, with their costs for `rows` rows behind `depth` positions.
pub fn entries(backend: &dyn Backend, program: &Program, bound: &Bound, rows: usize, depth: usize) -> Vec<Entry> {
    let rows_of = |op: &Op| match op.per {
        Per::Row => rows,
        Per::Output => rows.min(program.max_outputs),
        Per::Frame => 2 * rows,
    };
    let entry = |(op, record): (&Op, &akunu_plan::Record)| {
        let (dispatches, waits) = backend.dispatches(record, rows_of(op));
        Entry {
            layer: op.layer,
            op: op.kind.spec().name,
            kernel: backend.kernel_name(record.kernel).to_string(),
            shape: shape(op, rows_of(op)),
            dtype: dtype(program, op),
            cost: program.cost(op, rows_of(op), depth),
            barrier: record.flags & BARRIER != 0,
            dispatches,
            waits,
        }
    };
    program.ops.iter().zip(&bound.records).map(entry).collect()
}

/// `[rows, in] → [rows, out]` of products, `[rows, width]` of the rest.
fn shape(op: &Op, rows: usize) -> String {
    match op.params {
        Params::MatMul(p) if op.kind == OpKind::MatMulGated => format!("[{rows}, {}] → 2 × [{rows}, {}]", p.k, p.n),
        Params::MatMul(p) => format!("[{rows}, {}] → [{rows}, {}]", p.k, p.n),
        Params::MatMulHeads(p) => {
            let (heads, d) = (p.head.heads, p.head.head_dim);
            format!("[{rows}, {}] → [{rows}, {heads}, {d}]", p.product.k)
        }
        Params::Embed(p) => format!("[{}, {}] → [{rows}, {}]", p.vocab, p.dim, p.dim),
        Params::RopeAngles(p) => format!("[{rows}, {}, 2]", p.pairs),
        Params::Norm(p) => format!("[{rows}, {}]", p.dim),
        Params::Element(p) => format!("[{rows}, {}]", p.dim),
        Params::Heads(p) => format!("[{rows}, {} + 2 × {}, {}]", p.heads, p.kv_heads, p.head_dim),
        Params::Attention(p) if p.window > 0 => format!("[{rows}, {}, {}] window {}", p.heads, p.head_dim, p.window),
        Params::Unfold(p) => format!("[{rows}, {}, {}]", p.channels, p.taps),
        Params::AttentionWeights(p) => format!("[{rows}, {}] head {}", p.positions, p.head),
        Params::Head(p) => format!("[{rows}, {}, {}]", p.heads, p.head_dim),
        Params::Attention(p) => format!("[{rows}, {}, {}]", p.heads, p.head_dim),
        Params::Token(p) => format!("[{rows}, {}]", p.n),
    }
}

/// Weight or KV format, and `× q8` or `× bf16` where it meets activations in that form.
fn dtype(program: &Program, op: &Op) -> String {
    let mut parts: Vec<String> = Vec::new();
    for arg in op.args {
        if let Arg::Weight(id) = arg {
            let name = program.weight(id).dtype.to_string();
            if !parts.contains(&name) {
                parts.push(name);
            }
        }
    }
    if let Params::Heads(akunu_plan::op::HeadsParams { kv, .. })
    | Params::MatMulHeads(akunu_plan::op::MatMulHeadsParams { kv, .. })
    | Params::Attention(akunu_plan::op::AttentionParams { kv, .. }) = op.params
    {
        parts.extend(DType::from_index(kv.dtype as u8).map(|d| format!("KV {d}")));
    }
    let form = |arg: &Arg| match arg {
        Arg::Buffer(id) => match program.buffer(*id).layout {
            ActivationLayout::F32 => None,
            ActivationLayout::Q8 => Some("q8"),
            ActivationLayout::Bf16 => Some("bf16"),
        },
        _ => None,
    };
    match (parts.is_empty(), op.args.iter().find_map(form)) {
        (true, None) => "F32".to_owned(),
        (true, Some(form)) => format!("F32 → {form}"),
        (false, Some(form)) if matches!(op.params, Params::MatMul(_) | Params::MatMulHeads(_)) => {
            format!("{} × {form}", parts.join(" "))
        }
        (false, _) => parts.join(" "),
    }
}

/// Prints the table with its totals; `timed` adds seconds per entry, and how they compare with the bytes a second that
/// memory gives.
pub fn print(out: &mut dyn Write, entries: &[Entry], timed: Option<(&[f64], f64)>) -> io::Result<()> {
    let times = timed.map(|(times, _)| times);
    let mut headings = vec![">#", ">layer", "op", "kernel", "shape", "dtype", ">bytes", ">flops", "wait"];
    if times.is_some() {
        headings.extend([">time", ">share", ">flops/s", ">bytes/s", ">of memory"]);
    }
    let total_time: f64 = times.map_or(0.0, |t| t.iter().sum());
    let mut table = Table::new(&headings);
    for (i, e) in entries.iter().enumerate() {
        let mut row = vec![
            i.to_string(),
            e.layer.map_or("-".to_owned(), |l| l.to_string()),
            e.op.to_owned(),
            e.kernel.to_owned(),
            e.shape.clone(),
            e.dtype.clone(),
            units::bytes(e.cost.bytes),
            units::count(e.cost.flops),
            if e.barrier { "yes" } else { "" }.to_owned(),
        ];
        if let Some((times, memory)) = timed {
            let time = times.get(i).copied().unwrap_or_default().max(1e-12);
            row.push(units::time(time));
            row.push(format!("{:.1} %", 100.0 * time / total_time.max(1e-12)));
            row.push(units::count((e.cost.flops as f64 / time) as u64));
            row.push(units::rate(e.cost.bytes as f64 / time));
            row.push(format!("{:.0} %", 100.0 * e.cost.bytes as f64 / time / memory.max(1.0)));
        }
        table.row(row);
    }
    table.print(out)?;
    if let Some((times, _)) = timed {
        by_op(out, entries, times)?;
    }
    let total: Cost = entries.iter().map(|e| e.cost).sum();
    let count = |of: fn(&Entry) -> usize| entries.iter().map(of).sum::<usize>();
    let (dispatches, waits) = (count(|e| e.dispatches), count(|e| e.waits));
    write!(out, "\n{dispatches} dispatches{}, {waits} waits, ", a_layer(entries))?;
    write!(out, "{} and {} flops a step", units::bytes(total.bytes), units::count(total.flops))?;
    if let Some((_, memory)) = timed {
        let rate = total.bytes as f64 / total_time.max(1e-12);
        write!(out, ", {}, {}", units::time(total_time), units::rate(rate))?;
        write!(out, " of the {} that memory gives", units::rate(memory))?;
    }
    writeln!(out)
}

/// How many dispatches a layer has, where there are layers.
fn a_layer(entries: &[Entry]) -> String {
    let inside = || entries.iter().filter_map(|e| Some((e.layer?, e.dispatches)));
    let mut layers: Vec<u32> = inside().map(|(layer, _)| layer).collect();
    layers.dedup();
    if layers.is_empty() {
        return String::new();
    }
    let dispatches: usize = inside().map(|(_, dispatches)| dispatches).sum();
    format!(" ({:.1} a layer)", dispatches as f64 / layers.len() as f64)
}

/// The times added up by op and kernel, the longest first.
fn by_op(out: &mut dyn Write, entries: &[Entry], times: &[f64]) -> io::Result<()> {
    let mut sums: Vec<(&Entry, usize, f64)> = Vec::new();
    for (entry, time) in entries.iter().zip(times) {
        let same = |e: &Entry| (e.op, &e.kernel, &e.shape) == (entry.op, &entry.kernel, &entry.shape);
        match sums.iter_mut().find(|(e, ..)| same(e)) {
            Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + time),
            None => sums.push((entry, 1, *time)),
        }
    }
    sums.sort_by(|a, b| b.2.total_cmp(&a.2));
    let mut table = Table::new(&[">dispatches", "op", "kernel", "shape", ">time", ">share", ">flops/s", ">bytes/s"]);
    let total: f64 = times.iter().sum();
    for (e, count, time) in sums {
        let rate = |each: u64| (each * count as u64) as f64 / time.max(1e-12);
        table.row(vec![
            count.to_string(),
            e.op.to_owned(),
            e.kernel.to_owned(),
            e.shape.clone(),
            units::time(time),
            format!("{:.1} %", 100.0 * time / total.max(1e-12)),
            units::count(rate(e.cost.flops) as u64),
            units::rate(rate(e.cost.bytes)),
        ]);
    }
    writeln!(out)?;
    table.print(out)
}

/// The same as JSON.
pub fn to_json(entries: &[Entry], times: Option<&[f64]>) -> Value {
    let rows = entries.iter().enumerate().map(|(i, e)| {
        let mut row = json!({
            "layer": e.layer,
            "op": e.op,
            "kernel": e.kernel,
            "shape": e.shape,
            "dtype": e.dtype,
            "bytes": e.cost.bytes,
            "flops": e.cost.flops,
            "barrier": e.barrier,
            "dispatches": e.dispatches,
        });
        if let Some(time) = times.and_then(|t| t.get(i)) {
            row["seconds"] = json!(time);
        }
        row
    });
    Value::Array(rows.collect())
}
