//! What goes on, for Prometheus.

use crate::App;
use akunu::{Latency, Metrics};
use std::fmt::Write;

/// A number of every model: its name, its kind, what it is, and where it comes from.
type Row = (&'static str, &'static str, &'static str, fn(&Metrics) -> f64);
/// Times of every model.
type LatencyRow = (&'static str, &'static str, fn(&Metrics) -> &Latency);

/// Everything there is to know now, in the text format of Prometheus.
pub fn text(app: &App) -> String {
    let mut out = String::new();
    let loaded = app.models.loaded();
    let mut gauge = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# HELP akunu_{name} {help}\n# TYPE akunu_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(out, "akunu_{name}{labels} {value}");
        }
    };
    let label = |entry: usize| format!("{{model={:?}}}", app.models.catalog.entry(entry).name);
    let bytes: Vec<_> = loaded.iter().map(|l| (label(l.entry), l.bytes as f64)).collect();
    gauge("memory_bytes", "gauge", "Memory of loaded models, weights and KV cache.", &bytes);
    if let Some(memory) = app.options.memory {
        gauge(
            "memory_budget_bytes",
            "gauge",
            "Memory that all models may have together.",
            &[(String::new(), memory as f64)],
        );
    }
    let all: Vec<_> = loaded.iter().filter_map(|l| Some((l.entry, l.generator.as_ref()?.service.metrics()))).collect();
    let rows: &[Row] = &[
        ("requests_running", "gauge", "Requests in the KV cache.", |m| m.running as f64),
        ("requests_waiting", "gauge", "Requests that wait for room.", |m| m.waiting as f64),
        ("requests_total", "counter", "Requests since the start.", |m| m.submitted as f64),
        ("requests_failed_total", "counter", "Requests that an error ended.", |m| m.failed as f64),
        ("requests_cancelled_total", "counter", "Requests that nobody waited for any more.", |m| m.cancelled as f64),
        ("requests_preempted_total", "counter", "Times that a request gave its KV blocks back.", |m| {
            m.preempted as f64
        }),
        ("prompt_tokens_total", "counter", "Tokens of all prompts.", |m| m.prompt_tokens as f64),
        ("cached_tokens_total", "counter", "Of those, found in the prefix cache.", |m| m.cached_tokens as f64),
        ("generated_tokens_total", "counter", "Tokens chosen.", |m| m.generated_tokens as f64),
        ("steps_total", "counter", "Steps computed.", |m| m.steps as f64),
        ("step_rows_total", "counter", "Rows of all steps; by steps, the batch size.", |m| m.rows as f64),
        ("computing_seconds_total", "counter", "Time spent in steps.", |m| m.computing.as_secs_f64()),
        ("longest_step_seconds", "gauge", "The longest step.", |m| m.longest_step.as_secs_f64()),
        ("kv_blocks_used", "gauge", "KV blocks that requests or the prefix cache hold.", |m| m.blocks_used as f64),
        ("kv_blocks_cached", "gauge", "Of those, blocks that the prefix cache holds.", |m| m.blocks_cached as f64),
        ("kv_blocks", "gauge", "All KV blocks.", |m| m.blocks as f64),
    ];
    for (name, kind, help, value) in rows {
        let values: Vec<_> = all.iter().map(|(entry, m)| (label(*entry), value(m))).collect();
        gauge(name, kind, help, &values);
    }
    let latencies: &[LatencyRow] = &[
        ("first_token_seconds", "From a request to its first token.", |m| &m.first_token),
        ("token_gap_seconds", "From one token of an answer to its next.", |m| &m.gap),
    ];
    for (name, help, latency) in latencies {
        let _ = writeln!(out, "# HELP akunu_{name} {help}\n# TYPE akunu_{name} histogram");
        for (entry, metrics) in &all {
            histogram(&mut out, name, &app.models.catalog.entry(*entry).name, latency(metrics));
        }
    }
    out
}

fn histogram(out: &mut String, name: &str, model: &str, latency: &Latency) {
    for (ms, count) in latency.up_to() {
        let _ = writeln!(out, "akunu_{name}_bucket{{model={model:?},le=\"{}\"}} {count}", ms as f64 / 1e3);
    }
    let (count, sum) = (latency.count(), latency.total().as_secs_f64());
    let _ = writeln!(out, "akunu_{name}_bucket{{model={model:?},le=\"+Inf\"}} {count}");
    let _ = writeln!(out, "akunu_{name}_sum{{model={model:?}}} {sum}\nakunu_{name}_count{{model={model:?}}} {count}");
}
