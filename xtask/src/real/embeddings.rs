//! Embedding models against the vectors of another engine, by cosine, and what they find among texts.

use std::path::Path;

use akunu::hub::Hub;
use akunu::{Activations, Embedder, LoadOptions, Reading, Text, TooLong, normalize};
use anyhow::{Context, ensure};

struct Row {
    name: &'static str,
    /// Vectors of the same file by llama.cpp; none where no other engine has read the file.
    reference: Option<&'static str>,
    cosine: f64,
    /// What the model wants before queries and before documents.
    prefixes: [&'static str; 2],
}

static ROWS: &[Row] = &[
    // Three bits a weight: rounding of activations weighs more.
    Row { name: "minilm-q3", reference: Some("all-minilm-l6-v2-q3_k_s.json"), cosine: 0.995, prefixes: ["", ""] },
    Row { name: "minilm", reference: None, cosine: 0.999, prefixes: ["", ""] },
    Row {
        name: "nomic-embed",
        reference: Some("nomic-embed-text-v1.5-f16.json"),
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
            agree &= compare(row, &path, folder, activations)?;
        }
    }
    Ok(agree)
}

fn compare(row: &Row, path: &Path, folder: &Path, activations: Activations) -> anyhow::Result<bool> {
    let options = LoadOptions { activations, ..LoadOptions::default() };
    let mut embedder = Embedder::load(path, options, Reading::Embedding(None))?;
    let (mut worst, mut count) = (1.0f64, 0);
    if let Some(reference) = row.reference {
        let reference = super::read(&folder.join(reference))?;
        let items = reference["items"].as_array().context("a reference without items")?;
        let texts: Vec<&str> = items.iter().filter_map(|i| i["text"].as_str()).collect();
        for (ours, item) in vectors(&mut embedder, "", &texts)?.iter().zip(items) {
            let theirs: Vec<f64> =
                item["embedding"].as_array().into_iter().flatten().filter_map(|v| v.as_f64()).collect();
            ensure!(theirs.len() == ours.len(), "a reference of {} numbers", theirs.len());
            let length = theirs.iter().map(|v| v * v).sum::<f64>().sqrt();
            let dot: f64 = ours.iter().zip(&theirs).map(|(a, b)| f64::from(*a) * b).sum();
            worst = worst.min(dot / length);
            count += 1;
        }
    }
    let (questions, answers): (Vec<&str>, Vec<&str>) = ANSWERS.iter().copied().unzip();
    let questions = vectors(&mut embedder, row.prefixes[0], &questions)?;
    let answers = vectors(&mut embedder, row.prefixes[1], &answers)?;
    let score = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let right = |(i, question): &(usize, &Vec<f32>)| {
        let best =
            (0..answers.len()).max_by(|a, b| score(question, &answers[*a]).total_cmp(&score(question, &answers[*b])));
        best == Some(*i)
    };
    let retrieved = questions.iter().enumerate().filter(right).count();
    let right = worst >= row.cosine && retrieved == ANSWERS.len();
    println!(
        "{:<20} {:<11} {count:>7} {:>13} {:>9}  {}",
        row.name,
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
