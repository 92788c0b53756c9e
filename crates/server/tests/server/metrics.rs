//! What is told of what goes on, and that Prometheus can read it.

use crate::socket::{get, named, post, serve, stories};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

fn told(address: SocketAddr, model: &str) {
    post(address, "/v1/completions", &json!({ "model": model, "prompt": "Once upon a time", "max_tokens": 3 })).ok();
}

#[test]
fn what_goes_on_is_counted() {
    let address = serve(vec![stories()], |_| {});
    told(address, "stories");
    told(address, "stories");
    let text = get(address, "/metrics").body;
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|l| l.starts_with(&format!("akunu_{name} ")));
        line.and_then(|l| l.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    let of = |name: &str| value(&format!("{name}{{model=\"stories\"}}"));
    assert_eq!((of("requests_total"), of("generated_tokens_total")), (2.0, 6.0));
    assert!(of("cached_tokens_total") >= 1.0);
    assert_eq!((of("first_token_seconds_count"), of("token_gap_seconds_count")), (2.0, 4.0));
    let memory = |used: &str| value(&format!("memory_bytes{{use=\"{used}\",model=\"stories\"}}"));
    assert!(memory("weights") > 1e6 && memory("kv") > 1e6 && memory("cache") > 1e3 && memory("scratch") > 1e3);
    assert_eq!(value("request_body_bytes"), 0.0);
}

/// Whatever is loaded, for whatever, by whatever name.
#[test]
fn prometheus_can_read_it() {
    let address = serve(vec![named("a\"b\\c"), named("b")], |options| options.memory = Some(200_000_000));
    check(&get(address, "/metrics").body);
    told(address, "a\"b\\c");
    post(address, "/v1/embeddings", &json!({ "model": "a\"b\\c", "input": "Once" })).ok();
    told(address, "b");
    let text = get(address, "/metrics").body;
    check(&text);
    assert!(text.contains("akunu_requests_total{model=\"a\\\"b\\\\c\"} 1"), "{text}");
}

/// What `promtool check metrics` looks for, as far as we know it, and that nothing is there twice.
#[track_caller]
fn check(text: &str) {
    assert!(text.ends_with('\n'));
    let mut kinds: HashMap<&str, &str> = HashMap::new();
    let (mut helped, mut series) = (HashSet::new(), HashSet::new());
    let mut family = "";
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(helped.insert(name), "{name} is explained twice");
            assert!(!help.trim().is_empty());
            family = name;
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, family, "its HELP is not before it");
            assert!(kinds.insert(name, kind).is_none(), "{name} has two types");
            check_name(name, kind);
        } else {
            let (labelled, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(series.insert(labelled), "{labelled} is there twice");
            let name = labelled.split('{').next().unwrap();
            let base = match kinds[family] {
                "histogram" => ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap(),
                _ => name,
            };
            assert_eq!(base, family, "a sample outside of its family");
            if let Some(labels) = labelled.strip_prefix(name).and_then(|l| l.strip_prefix('{')) {
                check_labels(labels.strip_suffix('}').unwrap());
            }
        }
    }
    assert!(kinds.len() > 15 && kinds.len() == helped.len());
}

fn check_name(name: &str, kind: &str) {
    assert!(name.starts_with("akunu_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
    assert!(["counter", "gauge", "histogram"].contains(&kind), "{name} is a {kind}");
    assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
    assert!(!["_sum", "_count", "_bucket"].iter().any(|end| name.ends_with(end)), "{name}");
    let words: Vec<&str> = name.trim_end_matches("_total").split('_').collect();
    let (unit, before) = words.split_last().unwrap();
    // Base units, whole words, at the end.
    for other in ["ms", "milliseconds", "minutes", "mb", "megabytes", "kb", "percent", "gauge", "counter"] {
        assert!(!words.contains(&other), "{name}");
    }
    assert!(!before.contains(&"seconds") && !before.contains(&"bytes"), "{name}: {unit} is no unit");
}

/// `a="b",c="d"`, with nothing after a backslash that Prometheus does not know.
fn check_labels(mut labels: &str) {
    let mut names = HashSet::new();
    while !labels.is_empty() {
        let (name, rest) = labels.split_once("=\"").unwrap();
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') && names.insert(name), "{name}");
        let mut escaped = false;
        let end = rest.char_indices().find_map(|(at, c)| match (escaped, c) {
            (true, c) => {
                assert!("\\\"n".contains(c), "an escaped {c:?}");
                escaped = false;
                None
            }
            (false, '\\') => {
                escaped = true;
                None
            }
            (false, c) => (c == '"').then_some(at),
        });
        let rest = &rest[end.unwrap() + 1..];
        labels = rest.strip_prefix(',').unwrap_or(rest);
    }
}
