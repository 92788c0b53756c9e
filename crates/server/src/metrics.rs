//! What goes on, for Prometheus.

use crate::App;
use crate::models::Loaded;
use akunu::{Latency, Metrics};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A number of every model: its name, its kind, what it is, and where it comes from.
type Row = (&'static str, &'static str, &'static str, fn(&Metrics) -> f64);
/// Times of every model.
type LatencyRow = (&'static str, &'static str, fn(&Metrics) -> &Latency);

/// Everything there is to know now, in the text format of Prometheus.
pub fn text(app: &App) -> String {
    let mut out = String::new();
    let loaded = app.models.loaded();
    let name_of = |entry: usize| app.models.catalog.entry(entry).name.as_str();
    let help = "Memory of models: weights, free or used KV blocks, KV blocks of finished texts (cache), activations and tables \
                (scratch), what models that were let go remember (snapshot).";
    family(&mut out, "memory_bytes", "gauge", help, memory(app, &loaded));
    let budget = app.options.memory.map(|memory| (String::new(), memory as f64));
    family(&mut out, "memory_budget_bytes", "gauge", "Memory that all models may have together.", budget);
    let bodies = [(String::new(), app.bodies.bytes() as f64)];
    family(&mut out, "request_body_bytes", "gauge", "Bodies of requests that are not answered yet.", bodies);
    let generators = loaded.iter().filter_map(|l| Some((name_of(l.entry), l.generator.as_ref()?.service.metrics())));
    let all: Vec<(&str, Metrics)> = generators.collect();
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
        let values = all.iter().map(|(model, metrics)| (labels(&[("model", model)]), value(metrics)));
        family(&mut out, name, kind, help, values);
    }
    let latencies: &[LatencyRow] = &[
        ("first_token_seconds", "From a request to its first token.", |m| &m.first_token),
        ("token_gap_seconds", "From one token of an answer to its next.", |m| &m.gap),
    ];
    for (name, help, latency) in latencies {
        family(&mut out, name, "histogram", help, []);
        all.iter().for_each(|(model, metrics)| histogram(&mut out, name, model, latency(metrics)));
    }
    out
}

/// Bytes by use and model, whatever a model is loaded for. The share of the KV cache that holds finished texts is that of the
/// blocks of its largest pool.
fn memory(app: &App, loaded: &[Loaded]) -> Vec<(String, f64)> {
    let mut bytes: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let mut add = |used, model: &str, n| *bytes.entry((used, model.to_owned())).or_default() += n;
    for Loaded { entry, needs, generator, .. } in loaded {
        let model = &app.models.catalog.entry(*entry).name;
        let metrics = generator.as_ref().map(|g| g.service.metrics()).unwrap_or_default();
        let cache = needs.kv / metrics.blocks.max(1) as u64 * metrics.blocks_cached.min(metrics.blocks) as u64;
        add("weights", model, needs.weights);
        add("kv", model, needs.kv - cache);
        add("cache", model, cache);
        add("scratch", model, needs.scratch);
    }
    for (model, n) in app.models.snapshots.bytes() {
        add("snapshot", &model, n);
    }
    // The page shows the first label.
    bytes.iter().map(|((used, model), n)| (labels(&[("use", used), ("model", model)]), *n as f64)).collect()
}

/// A family of numbers with their labels.
fn family(out: &mut String, name: &str, kind: &str, help: &str, values: impl IntoIterator<Item = (String, f64)>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP akunu_{name} {help}\n# TYPE akunu_{name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(out, "akunu_{name}{labels} {value}");
    }
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

fn histogram(out: &mut String, name: &str, model: &str, latency: &Latency) {
    let count = latency.count();
    let bounds = latency.up_to().map(|(ms, count)| ((ms as f64 / 1e3).to_string(), count));
    for (bound, count) in bounds.chain([("+Inf".to_owned(), count)]) {
        let _ = writeln!(out, "akunu_{name}_bucket{} {count}", labels(&[("model", model), ("le", &bound)]));
    }
    let (labels, sum) = (labels(&[("model", model)]), latency.total().as_secs_f64());
    let _ = writeln!(out, "akunu_{name}_sum{labels} {sum}\nakunu_{name}_count{labels} {count}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_models_are_escaped_as_prometheus_reads_them() {
        assert_eq!(labels(&[("use", "kv"), ("model", "a\"b\\c\nd'é")]), r#"{use="kv",model="a\"b\\c\nd'é"}"#);
    }
}
