//! Flags of the commands that turn texts into vectors and scores.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};

use super::shared::{self, flag, model, option, path};
use super::{constants, ids, json, values};

pub(super) fn embed() -> Command {
    Command::new("embed")
        .about("Turn texts into vectors")
        .long_about(
            "Turn texts into vectors, one for each TEXT, or for each line of a file or of standard input. Vectors are \
             pooled as the model's files say and have length 1, so that the cosine of two is their product. Texts of \
             all lengths are computed together, without padding.",
        )
        .arg(model().required(true))
        .arg(texts("TEXT", "A text; `-` reads standard input, a text a line"))
        .arg(path("file", "Read a file, a text a line").short('f').conflicts_with("text"))
        .arg(
            option("format", "FORMAT", "How vectors are written")
                .long_help(
                    "How vectors are written: `jsonl`, an object with `index`, `tokens` and `embedding` a line; `csv`, \
                     the numbers a line; `npy`, one NumPy array of f32.",
                )
                .value_parser(PossibleValuesParser::new(["jsonl", "csv", "npy"]))
                .default_value("jsonl"),
        )
        .arg(path("output", "Write to a file instead of standard output").short('o'))
        .arg(option("prefix", "TEXT", "Put this before every text, for models that want one, such as \"query: \""))
        .arg(
            option("dimensions", "N", "Keep the first N numbers, for models trained to be cut")
                .value_parser(values::count),
        )
        .arg(flag("raw", "Do not bring vectors to length 1"))
        .arg(pooling())
        .args(text_flags())
}

pub(super) fn rerank() -> Command {
    Command::new("rerank")
        .about("Sort documents by how well they answer a query")
        .long_about(
            "Sort documents by how well they answer a query, with a model that reads query and document together and \
             has a classification head. Prints score, number and text, the best first. Scores are as the model gives \
             them, not probabilities.",
        )
        .arg(model().required(true))
        .arg(Arg::new("query").value_name("QUERY").required(true).help("The query"))
        .arg(texts("DOCUMENT", "A document; `-` reads standard input, a document a line"))
        .arg(path("file", "Read a file, a document a line").short('f').conflicts_with("text"))
        .arg(option("top", "N", "Print only the best N").short('n').value_parser(values::count))
        .arg(json())
        .args(text_flags())
}

pub(super) fn hidden() -> Command {
    Command::new("hidden")
        .about("Write a model's hidden states, to compare engines with")
        .long_about(
            "Write the last hidden states of a token sequence to a safetensors file: tensor `hidden`, F32, \
             [positions, dim], and `pooled`, F32, [dim], what `embed` gives. The model needs no tokenizer.",
        )
        .arg(model().required(true))
        .arg(ids())
        .arg(path("output", "The file to write").short('o').required(true))
        .arg(pooling())
        .arg(constants())
        .args(shared::device_flags())
        .arg(shared::activations().default_value("f32"))
}

fn texts(name: &'static str, help: &'static str) -> Arg {
    Arg::new("text").value_name(name).num_args(0..).help(help)
}

fn pooling() -> Arg {
    option("pooling", "HOW", "How the vectors of tokens become one [default: as the model's files say]")
        .value_parser(PossibleValuesParser::new(["mean", "cls", "last"]))
}

/// How texts are read.
fn text_flags() -> [Arg; 6] {
    let [device, threads] = shared::device_flags();
    [
        flag("truncate", "Drop the end of texts that are too long, instead of refusing them"),
        option("context", "N", "Tokens a text can have [default: what the model was made for, within reason]")
            .short('c')
            .value_parser(values::count),
        device,
        threads,
        shared::activations(),
        shared::chunk().help("Tokens to compute at once, of one text or of many"),
    ]
}
