//! `cargo xtask schemas`: what is generated under the schemas of the JSON-Schema-Test-Suite, judged by the Python package
//! `jsonschema`.
//!
//! The other half, that every valid instance of the suite can be written and no invalid one, needs no judge: it is the
//! test `json_schema_suite` of `akunu-text`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use akunu::{Engine, Finish, GenerateOptions, Grammar, LoadOptions, SamplingOptions};
use anyhow::{Context, ensure};
use serde_json::{Value, json};

/// Texts for each schema, and how long they may get.
const TEXTS: u64 = 8;
const LONGEST: usize = 300;
const PROMPTS: [&str; 2] = ["Once upon a time", "[1, 2.5, \"a\", {\"foo\": null, \"bar\": true}]\n"];

pub fn run(python: &Path) -> anyhow::Result<bool> {
    let root = crate::root();
    let suite: Value = serde_json::from_slice(&fs::read(root.join("fixtures/json-schema/draft2020-12.json"))?)?;
    let groups = suite.as_array().context("the suite is a list")?;
    let mut engine = Engine::embedded(LoadOptions::default())?;
    let (mut kept, mut refused, mut unfinished, mut lines) = (0, 0, 0, String::new());
    for group in groups {
        let grammar = Grammar::JsonSchema(group["schema"].to_string());
        if engine.grammars()?.compile(&grammar).is_err() {
            refused += 1;
            continue;
        }
        kept += 1;
        let mut finished = 0;
        for seed in 0..TEXTS {
            let Some(text) = text(&mut engine, &grammar, seed)? else { continue };
            finished += 1;
            let name = format!("{} / {}", group["file"], group["group"]);
            lines += &format!("{}\n", json!({ "name": name, "schema": group["schema"], "text": text }));
        }
        if finished == 0 {
            unfinished += 1;
            println!("no text came to its end: {} / {}", group["file"], group["group"]);
        }
    }
    println!("{} schemas: {kept} kept, {refused} refused by name; {unfinished} without a finished text", groups.len());
    judge(python, &root.join("fixtures/scripts/json_schema_judge.py"), &lines)
}

/// A text under a grammar, where it came to its end.
fn text(engine: &mut Engine, grammar: &Grammar, seed: u64) -> anyhow::Result<Option<String>> {
    let sampling = SamplingOptions { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed, ..Default::default() };
    let options = GenerateOptions::new().max_tokens(LONGEST).grammar(grammar.clone()).sampling(sampling);
    let prompt = engine.need_tokenizer()?.encode(PROMPTS[seed as usize % PROMPTS.len()], Default::default())?;
    let mut sequence = engine.sequence();
    let mut generation = engine.generate(&mut sequence, &prompt, options)?;
    let mut text = String::new();
    for piece in generation.by_ref() {
        text.push_str(&piece?.text);
    }
    text.push_str(&generation.rest());
    Ok((generation.finish() == Some(Finish::Stop)).then_some(text))
}

fn judge(python: &Path, script: &Path, lines: &str) -> anyhow::Result<bool> {
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::inherit())
        .spawn()
        .with_context(|| format!("cannot start {}", python.display()))?;
    let mut input = child.stdin.take().context("the judge has no input")?;
    input.write_all(lines.as_bytes())?;
    drop(input);
    let status = child.wait()?;
    ensure!(status.code() != Some(2), "the judge could not judge: {status}");
    Ok(status.success())
}
