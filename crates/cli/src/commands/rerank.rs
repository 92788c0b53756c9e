//! `akunu rerank`: documents by how well they answer a query.

use std::io::Write;
use std::process::ExitCode;

use akunu::{Embedder, Reading, Text};
use anyhow::Result;
use clap::ArgMatches;
use serde_json::json;

use super::embed::{load_options, texts, too_long};
use crate::failure::failure;
use crate::loading;
use crate::source::Source;
use crate::terminal::{self, Sanitizer};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let documents = texts(matches)?;
    let query = matches.get_one::<String>("query").map_or("", String::as_str);
    let file = Source::of(matches)?.open(loading::limits(matches))?;
    let mut embedder = Embedder::from_file(file, load_options(matches), Reading::Scores)?;
    if embedder.width() != 1 {
        let sentence = format!("the model's head gives {} scores a pair, not one", embedder.width());
        return Err(failure(sentence, "give a model that was made to rank"));
    }
    let pairs: Vec<Text> = documents
        .iter()
        .map(|document| embedder.pair(query, document, too_long(matches)))
        .collect::<Result<_, akunu::Error>>()?;
    let mut scores = vec![0.0; documents.len()];
    let bar = terminal::step_progress(documents.len() as u64, "documents");
    embedder.read(&pairs, |i, score| {
        scores[i] = score[0];
        bar.inc(1);
    })?;
    bar.finish_and_clear();

    let mut order: Vec<usize> = (0..documents.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order.truncate(matches.get_one::<usize>("top").copied().unwrap_or(usize::MAX));
    let mut out = terminal::out();
    if matches.get_flag("json") {
        let ranked: Vec<_> =
            order.iter().map(|&i| json!({ "index": i, "score": scores[i], "text": documents[i] })).collect();
        writeln!(out, "{}", json!({ "query": query, "results": ranked }))?;
    } else {
        let sanitizer = Sanitizer::for_stdout();
        for i in order {
            writeln!(out, "{:.4}\t{i}\t{}", scores[i], sanitizer.clean(&documents[i]))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
