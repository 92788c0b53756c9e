//! `cargo xtask bench embed`: a thousand texts of mixed lengths through us, llama.cpp and onnxruntime with the same
//! weights, in rounds that alternate; and how far their vectors and what they find are from ours.
//!
//! Ours is the whole command, from its start to its end. The others are measured by `xtask/peers/embed.py` without
//! loading the model, which favours them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use akunu_hub::Hub;
use anyhow::{Context, ensure};
use serde_json::json;

use super::report::{Spread, save};
use super::{build, machine, run};

/// What to measure and with what.
#[derive(Clone, Debug)]
pub struct EmbedPeers {
    /// A Python with numpy, safetensors, tokenizers, onnx, onnxruntime and xllamacpp.
    pub python: PathBuf,
    pub akunu: Option<PathBuf>,
    pub rounds: usize,
    pub threads: usize,
}

const TEXTS: usize = 1000;
/// Texts that look for the nearest of the others.
const QUERIES: usize = 100;
/// How many sentences are joined, over and over: most texts are short, some long.
const SENTENCES: [usize; 10] = [1, 1, 2, 1, 3, 1, 1, 5, 1, 8];

struct Engine {
    name: &'static str,
    seconds: Vec<f64>,
    vectors: Vec<Vec<f32>>,
}

pub fn embed(options: &EmbedPeers) -> anyhow::Result<bool> {
    let stories = crate::root().join("../shared/fixtures/stories.txt");
    if !stories.exists() {
        println!("skipped: there is no text beside the repository (shared/fixtures/stories.txt)");
        return Ok(true);
    }
    let model = Hub::from_environment()?.path("minilm").context("cargo xtask models fetch minilm")?;
    let model = model.parent().context("a model in a folder")?.to_path_buf();
    let akunu = options.akunu.clone().map_or_else(build, Ok)?;
    let folder = std::env::temp_dir().join(format!("akunu-embed-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let lines = folder.join("lines.txt");
    fs::write(&lines, texts(&fs::read_to_string(&stories)?).join("\n"))?;
    let gguf = folder.join("f16.gguf");
    let converted = Command::new(&akunu).arg("convert").args([&model, &gguf]).args(["-t", "f16"]).status()?;
    ensure!(converted.success(), "the model could not be converted for llama.cpp");

    let new = |name| Engine { name, seconds: Vec::new(), vectors: Vec::new() };
    let mut engines = [new("akunu"), new("llama.cpp"), new("onnxruntime")];
    let mut raw = Vec::new();
    for round in 0..options.rounds {
        for engine in &mut engines {
            eprintln!("round {} of {}: {}", round + 1, options.rounds, engine.name);
            let out = folder.join("vectors.npy");
            let seconds = match engine.name {
                "akunu" => ours(&akunu, &model, &lines, &out, options.threads)?,
                "llama.cpp" => theirs(options, "llama.cpp", &gguf, &lines, &out)?,
                _ => theirs(options, "onnx", &model, &lines, &out)?,
            };
            raw.push(json!({ "round": round, "engine": engine.name, "seconds": seconds }));
            engine.seconds.push(seconds);
            engine.vectors = read_npy(&out)?;
            ensure!(engine.vectors.len() == TEXTS, "{} gave {} vectors", engine.name, engine.vectors.len());
        }
    }
    fs::remove_dir_all(&folder)?;
    save(&format!("embed-t{}", options.threads), &table(options, &engines), raw)?;
    Ok(true)
}

fn table(o: &EmbedPeers, engines: &[Engine]) -> String {
    let mut text = format!(
        "{} on {}, {} threads; {TEXTS} texts with all-MiniLM-L6-v2, seconds as median (lowest–highest) of {} interleaved rounds; \
         the ratio is of each round. Ours is the whole command, the others' is without loading.\n\n\
         | engine | seconds | texts/s | ours is | worst cosine | same nearest |\n|---|---|---|---|---|---|\n",
        machine::date(),
        machine::processor(),
        o.threads,
        o.rounds
    );
    let ours = &engines[0];
    for engine in engines {
        let worst = ours.vectors.iter().zip(&engine.vectors).map(|(a, b)| dot(a, b)).fold(1.0, f64::min);
        let same = nearest(&ours.vectors).iter().zip(nearest(&engine.vectors)).filter(|(a, b)| **a == *b).count();
        let ratios = engine.seconds.iter().zip(&ours.seconds).map(|(theirs, ours)| theirs / ours);
        if let (Some(seconds), Some(ratio)) = (Spread::of(engine.seconds.iter().copied()), Spread::of(ratios)) {
            let rate = TEXTS as f64 / seconds.median;
            text += &format!("| {} | {} | {rate:.0} | {} |", engine.name, seconds.rate(), ratio.ratio());
            text += &format!(" {worst:.6} | {same}/{QUERIES} |\n");
        }
    }
    text
}

/// Texts of one sentence up to eight.
fn texts(stories: &str) -> Vec<String> {
    let words = stories.split_whitespace();
    let mut sentences = vec![String::new()];
    for word in words {
        let last = sentences.len() - 1;
        let sentence = &mut sentences[last];
        sentence.push_str(if sentence.is_empty() { "" } else { " " });
        sentence.push_str(word);
        if word.ends_with(['.', '!', '?']) {
            sentences.push(String::new());
        }
    }
    sentences.retain(|s| !s.is_empty());
    let mut next = sentences.iter().cycle();
    let text = |count: &usize| next.by_ref().take(*count).cloned().collect::<Vec<_>>().join(" ");
    SENTENCES.iter().cycle().take(TEXTS).map(text).collect()
}

fn ours(akunu: &Path, model: &Path, lines: &Path, out: &Path, threads: usize) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut command = Command::new(akunu);
    command.arg("embed").arg(model).arg("--file").arg(lines).arg("-o").arg(out);
    let status = command.args(["--format", "npy", "--threads", &threads.to_string()]).status()?;
    ensure!(status.success(), "akunu embed ended with {status}");
    Ok(start.elapsed().as_secs_f64())
}

fn theirs(o: &EmbedPeers, engine: &str, model: &Path, lines: &Path, out: &Path) -> anyhow::Result<f64> {
    let script = crate::root().join("xtask/peers/embed.py");
    let mut command = Command::new(&o.python);
    command.arg(script).arg(engine).args([model, lines, out]).arg(o.threads.to_string());
    run(&mut command)?["seconds"].as_f64().context("the script gave no time")
}

/// An array of f32 rows.
fn read_npy(path: &Path) -> anyhow::Result<Vec<Vec<f32>>> {
    let bytes = fs::read(path)?;
    let length = bytes.get(8..10).map_or(0, |b| usize::from(u16::from_le_bytes([b[0], b[1]])));
    let header = String::from_utf8_lossy(bytes.get(10..10 + length).context("an array that is cut off")?);
    let shape = header.split("'shape': (").nth(1).and_then(|s| s.split(')').next()).context("an array's shape")?;
    let width: usize = shape.split(',').nth(1).context("an array of rows")?.trim().parse()?;
    ensure!(header.contains("<f4") && width > 0, "an array of f32");
    let values: Vec<f32> = bytes[10 + length..].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    Ok(values.chunks(width).map(<[f32]>::to_vec).collect())
}

/// For the first texts, which of the others is nearest.
fn nearest(vectors: &[Vec<f32>]) -> Vec<usize> {
    let (queries, documents) = vectors.split_at(QUERIES);
    let best = |q: &Vec<f32>| {
        let scores = documents.iter().map(|d| dot(q, d)).enumerate();
        scores.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i)
    };
    queries.iter().map(best).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}
