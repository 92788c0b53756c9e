//! `--limit`: every limit is met by what is small and names itself, and none by what is real.

use std::fs;

use akunu_testkit::{TempDir, fixtures};
use serde_json::json;

use crate::support::{piped, run, words};

/// Names and values, and a command that is over each; `{dir}` is a folder with what [`folder`] puts there.
const OVER: &[(&str, &str)] = &[
    ("config-bytes=9", "inspect {dir}/model"),
    ("config-values=9", "inspect {dir}/model"),
    ("index-bytes=9", "inspect {dir}/shards"),
    ("side-file-bytes=9", "tokenize {dir}/model a"),
    ("tensors=9", "inspect {dir}/model"),
    ("tensors=9", "inspect {dir}/shards"),
    ("tokens=2", "tokenize {dir}/model a"),
    ("tokens=9", "tokenize embedded Tom"),
    ("tokens=9", "run embedded Tom"),
    ("added-token-bytes=2", "tokenize embedded Tom"),
    ("added-token-bytes=2", "embed {dir}/model a"),
    ("tokenizer-steps=0", "tokenize embedded Tom"),
    ("template-bytes=9", "render {dir}/long.jinja -i {dir}/conversation"),
    ("template-steps=9", "render {dir}/long.jinja -i {dir}/conversation"),
    ("template-text-bytes=0", "render {dir}/long.jinja -i {dir}/conversation"),
    ("template-text-bytes=0", "run embedded Tom --chat --template {dir}/long.jinja"),
    ("grammar-bytes=9", "run embedded Tom --gbnf {dir}/grammar"),
    ("schema-bytes=9", "run embedded Tom --json-schema @{dir}/schema"),
    ("grammar-compile-steps=1", "run embedded Tom --regex (a|b)*c"),
    ("grammar-token-steps=1", "run embedded Tom --regex (a|b)*c"),
    ("grammar-states=1", "run embedded Tom --regex (a|b)*c"),
    ("session-tokens=2", "run embedded Tom -n 4 --session {dir}/session"),
    ("text-bytes=9", "tokenize embedded -f {dir}/conversation"),
    ("text-bytes=9", "render {dir}/long.jinja -i {dir}/conversation"),
];

/// Those that no command here meets, and why.
const ELSEWHERE: &[(&str, &str)] = &[("audio-seconds", "a model of speech is too large; crates/audio/tests has it")];

fn folder() -> TempDir {
    let dir = TempDir::new();
    let source = fixtures::path("hf/qwen2");
    for folder in ["model", "shards"] {
        fs::create_dir(dir.join(folder)).unwrap();
        fs::copy(source.join("config.json"), dir.join(folder).join("config.json")).unwrap();
    }
    fs::copy(source.join("model.safetensors"), dir.join("model/model.safetensors")).unwrap();
    fs::copy(source.join("model.safetensors"), dir.join("shards/all.safetensors")).unwrap();
    let names = akunu::ModelFile::open(&source).unwrap();
    let map: serde_json::Map<_, _> =
        names.tensors().iter().map(|t| (t.name.clone(), json!("all.safetensors"))).collect();
    dir.write("shards/model.safetensors.index.json", json!({ "weight_map": map }).to_string().as_bytes());
    let tokenizer = json!({
        "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
    });
    dir.write("model/tokenizer.json", tokenizer.to_string().as_bytes());
    dir.write("long.jinja", b"{% for i in range(100) %}{{ 'long' * 1000 }}{% endfor %}");
    dir.write("conversation", br#"{"messages": [{"role": "user", "content": "Hi"}]}"#);
    dir.write("grammar", b"root ::= \"yes\" | \"no\"");
    dir.write("schema", br#"{"type": "object", "properties": {"a": {"type": "string"}}}"#);
    dir
}

#[test]
fn every_limit_is_met_by_its_name() {
    let dir = folder();
    let session = dir.join("session");
    words(&format!("run embedded Tom -n 4 --session {}", session.display())).ok();
    let mut wrong = Vec::new();
    for (limit, command) in OVER {
        let (name, value) = limit.split_once('=').unwrap();
        let command = command.replace("{dir}", dir.path().to_str().unwrap());
        let sentence = words(&format!("{command} --limit {limit}")).refused(1);
        if !sentence.contains(&format!("the limit {name} of {value}"))
            || !sentence.trim_end().ends_with(&format!("`--limit {name}=N`"))
        {
            wrong.push(format!("{command} --limit {limit}: {sentence}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join(""));
}

#[test]
fn every_limit_has_a_case() {
    let cases = || OVER.iter().map(|(limit, _)| limit.split('=').next().unwrap());
    for limit in akunu::Limits::default().list() {
        let elsewhere = ELSEWHERE.iter().any(|(name, _)| limit.name == *name);
        assert!(elsewhere || cases().any(|name| name == limit.name), "{}", limit.name);
    }
}

#[test]
fn a_quarter_of_every_limit_is_enough_for_what_is_real() {
    let dir = folder();
    let quarter: Vec<String> = akunu_testkit::quarter_of_limits()
        .list()
        .iter()
        .flat_map(|l| ["--limit".into(), format!("{}={}", l.name, l.value)])
        .collect();
    for command in [
        "inspect {dir}/model",
        "inspect {dir}/shards",
        "run embedded Tom -n 8 --json-object",
        "run embedded Tom -n 8 --session {dir}/session",
        "run embedded Tom -n 8 --session {dir}/session",
        "render {dir}/long.jinja -i {dir}/conversation",
        "tokenize {dir}/model abab",
    ] {
        let command = command.replace("{dir}", dir.path().to_str().unwrap());
        run(command.split_whitespace().map(str::to_owned).chain(quarter.iter().cloned())).ok();
    }
}

#[test]
fn standard_input_counts_too() {
    let sentence = piped(&["tokenize", "embedded", "--limit", "text-bytes=3"], b"four").refused(1);
    assert!(sentence.contains("standard input: is longer than the limit text-bytes of 3 bytes"), "{sentence}");
    piped(&["tokenize", "embedded", "--limit", "text-bytes=4"], b"four").ok();
}

#[test]
fn a_limit_that_is_none_is_a_mistake_of_the_command_line() {
    for wrong in ["tokens", "tokens=", "tokens=x", "bytes=1", "=1"] {
        let sentence = run(["tokenize", "embedded", "Tom", "--limit", wrong]).refused(2);
        assert!(sentence.contains("--limit"), "{sentence}");
    }
}
