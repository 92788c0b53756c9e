//! Embedding models against the vectors of another engine, by cosine, and what they find among texts.
//!
//! HF's vectors are in the repository (`fixtures/embeddings_hf.json`, made by `fixtures/scripts/encoders_hf.py`), llama.cpp's
//! beside it.

use std::path::Path;

use akunu::{Activations, Embedder, LoadOptions, Reading, Text, TooLong, normalize};
use akunu_hub::Hub;
use anyhow::{Context, ensure};
use serde_json::json;

struct Row {
    name: &'static str,
    reference: Reference,
    cosine: f64,
    /// What the model wants before queries and before documents.
    prefixes: [&'static str; 2],
}

/// Whose vectors.
#[derive(Clone, Copy)]
enum Reference {
    /// llama.cpp's of the same file, by the name of a file in `shared/fixtures/real`.
    LlamaCpp(&'static str),
    /// HF's of the same weights, by their name in `fixtures/embeddings_hf.json`.
    Hf(&'static str),
}

static ROWS: &[Row] = &[
    // Three bits a weight: rounding of activations weighs more.
    Row {
        name: "minilm-q3",
        reference: Reference::LlamaCpp("all-minilm-l6-v2-q3_k_s.json"),
        cosine: 0.995,
        prefixes: ["", ""],
    },
    Row { name: "minilm", reference: Reference::Hf("minilm"), cosine: 0.999, prefixes: ["", ""] },
    Row {
        name: "nomic-embed",
        reference: Reference::LlamaCpp("nomic-embed-text-v1.5-f16.json"),
        cosine: 0.999,
        prefixes: ["search_query: ", "search_document: "],
    },
];

/// Questions and the one text that answers each: no words in common that matter.
static ANSWERS: &[(&str, &str)] = &[
    ("Which animal says meow?", "The kitten purred and asked for milk."),
    ("How do plants make their food?", "Leaves use sunlight to turn carbon dioxide and water into sugar."),
    ("Who wrote the play about the prince of Denmark?", "Hamlet is a tragedy by William Shakespeare."),
    (
        "What should I do when the computer will not start?",
        "If the machine does not boot, check the power cable first.",
    ),
    ("At what temperature does water boil?", "At sea level the liquid turns to steam at one hundred degrees Celsius."),
    ("How can I save money for old age?", "A pension fund lets you put aside part of your salary until you retire."),
];

pub fn run(hub: &Hub, folder: &Path, names: &[&str]) -> anyhow::Result<bool> {
    let mut agree = true;
    println!("{:<20} {:<11} {:>7} {:>13} {:>9}  result", "model", "activations", "texts", "worst cosine", "retrieved");
    for row in ROWS.iter().filter(|r| names.is_empty() || names.contains(&r.name)) {
        let Ok(path) = hub.path(row.name) else {
            println!("{:<20} skipped: not fetched (cargo xtask models fetch {})", row.name, row.name);
            continue;
        };
        for activations in [Activations::F32, Activations::Int8] {
            agree &= compare(row, row.name, &path, folder, activations)?;
        }
        if let Reference::Hf(name) = row.reference {
            let source = path.parent().context("a model in a folder")?;
            let gguf = std::env::temp_dir().join(format!("akunu-real-{}.gguf", std::process::id()));
            akunu_convert::convert(source, &gguf, "f16", Default::default(), &mut |_, _| {})?;
            agree &= compare(row, &format!("{name}, GGUF F16"), &gguf, folder, Activations::Int8)?;
            std::fs::remove_file(&gguf)?;
        }
    }
    Ok(agree)
}

fn compare(row: &Row, name: &str, path: &Path, folder: &Path, activations: Activations) -> anyhow::Result<bool> {
    let options = LoadOptions { activations, ..LoadOptions::default() };
    let mut embedder = Embedder::load(path, options, Reading::Embedding(None))?;
    let (mut worst, mut count) = (1.0f64, 0);
    let reference = match row.reference {
        Reference::Hf(name) => super::read(&crate::root().join("fixtures/embeddings_hf.json"))?[name].take(),
        Reference::LlamaCpp(name) if folder.exists() => super::read(&folder.join(name))?,
        Reference::LlamaCpp(_) => json!({ "items": [] }),
    };
    let items = reference["items"].as_array().context("a reference without items")?;
    let texts: Vec<&str> = items.iter().filter_map(|i| i["text"].as_str()).collect();
    for (ours, item) in vectors(&mut embedder, "", &texts)?.iter().zip(items) {
        let theirs: Vec<f64> = item["embedding"].as_array().into_iter().flatten().filter_map(|v| v.as_f64()).collect();
        ensure!(theirs.len() == ours.len(), "a reference of {} numbers", theirs.len());
        let length = theirs.iter().map(|v| v * v).sum::<f64>().sqrt();
        let dot: f64 = ours.iter().zip(&theirs).map(|(a, b)| f64::from(*a) * b).sum();
        worst = worst.min(dot / length);
        count += 1;
    }
    let (questions, answers): (Vec<&str>, Vec<&str>) = ANSWERS.iter().copied().unzip();
    let questions = vectors(&mut embedder, row.prefixes[0], &questions)?;
    let answers = vectors(&mut embedder, row.prefixes[1], &answers)?;
    let score = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    // The answers of every question, the most similar first.
    let order = |question: &Vec<f32>| {
        let mut order: Vec<usize> = (0..answers.len()).collect();
        order.sort_by(|a, b| score(question, &answers[*b]).total_cmp(&score(question, &answers[*a])));
        order
    };
    let orders: Vec<Vec<usize>> = questions.iter().map(order).collect();
    let retrieved = orders.iter().enumerate().filter(|(i, order)| order[0] == *i).count();
    let ordered = reference.get("order").is_none_or(|theirs| *theirs == json!(orders));
    let right = worst >= row.cosine && retrieved == ANSWERS.len() && ordered;
    println!(
        "{:<20} {:<11} {count:>7} {:>13} {:>9}  {}",
        name,
        format!("{activations:?}").to_lowercase(),
        if count > 0 { format!("{worst:.6}") } else { "-".into() },
        format!("{retrieved}/{}", ANSWERS.len()),
        if right { "agrees" } else { "DIFFERS" }
    );
    Ok(right)
}

fn vectors(embedder: &mut Embedder, prefix: &str, texts: &[&str]) -> anyhow::Result<Vec<Vec<f32>>> {
    let inputs: Vec<Text> = texts
        .iter()
        .map(|text| embedder.text(&format!("{prefix}{text}"), TooLong::Refuse))
        .collect::<Result<_, akunu::Error>>()?;
    let mut all = vec![Vec::new(); texts.len()];
    embedder.read(&inputs, |i, vector| all[i] = vector.to_vec())?;
    all.iter_mut().for_each(|v| normalize(v));
    Ok(all)
}
