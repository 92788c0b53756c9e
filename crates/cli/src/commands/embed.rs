//! `akunu embed`: texts to vectors.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use akunu::{Embedder, LoadOptions, Reading, Text, TooLong, normalize};
use akunu_arch::Pooling;
use akunu_formats::Output;
use anyhow::Result;
use clap::ArgMatches;

use crate::failure::{NextStep, failure};
use crate::source::Source;
use crate::{input, loading, terminal};

/// Texts that are sorted by length together; their vectors are written before the next are read.
const WINDOW: usize = 4096;
/// Rows of a step, unless one text has more.
const STEP_ROWS: usize = 512;

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let texts = texts(matches)?;
    let file = Source::of(matches)?.open(loading::limits(matches))?;
    let mut embedder = Embedder::from_file(file, load_options(matches), Reading::Embedding(pooling(matches)))?;
    let width = match matches.get_one::<usize>("dimensions").copied() {
        Some(n) if n > embedder.width() => {
            let sentence = format!("--dimensions {n}: the model's vectors have {} numbers", embedder.width());
            return Err(failure(sentence, "give fewer"));
        }
        n => n.unwrap_or(embedder.width()),
    };
    let prefix = matches.get_one::<String>("prefix").map_or("", String::as_str);
    let raw = matches.get_flag("raw");
    let mut out = Writer::open(matches, texts.len(), width)?;
    let bar = terminal::step_progress(texts.len() as u64, "texts");
    for (window, lines) in texts.chunks(WINDOW).enumerate() {
        let first = window * WINDOW;
        let inputs = tokens(&embedder, lines, first, prefix, too_long(matches))?;
        let mut vectors = vec![0.0; lines.len() * width];
        embedder.read(&inputs, |text, vector| {
            let kept = &mut vectors[text * width..][..width];
            kept.copy_from_slice(&vector[..width]);
            if !raw {
                normalize(kept);
            }
            bar.inc(1);
        })?;
        for (i, vector) in vectors.chunks(width).enumerate() {
            out.row(first + i, inputs[i].tokens.len(), vector)?;
        }
    }
    bar.finish_and_clear();
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn tokens(embedder: &Embedder, lines: &[String], first: usize, prefix: &str, too_long: TooLong) -> Result<Vec<Text>> {
    let text = |(i, line): (usize, &String)| {
        let next = "shorten it, or let `--truncate` drop its end";
        match embedder.text(&format!("{prefix}{line}"), too_long) {
            // Which one it is, among many.
            Err(e @ akunu::Error::TextTooLong { .. }) if lines.len() > 1 => {
                Err(e).or_fail(|e| format!("text {}: {e}", first + i + 1), next)
            }
            // Most models have tokens around a text, and so a vector for none.
            Ok(text) if text.tokens.is_empty() => {
                let sentence =
                    format!("text {} is empty, and the model has no token that stands for that", first + i + 1);
                Err(failure(sentence, "leave it out"))
            }
            text => Ok(text?),
        }
    };
    lines.iter().enumerate().map(text).collect()
}

/// The texts of the command line, or the lines of a file or of standard input.
pub fn texts(matches: &ArgMatches) -> Result<Vec<String>> {
    let given: Vec<&String> = matches.get_many("text").into_iter().flatten().collect();
    let lines = |text: String| text.lines().map(str::to_owned).collect();
    match (matches.get_one::<PathBuf>("file"), given.as_slice()) {
        (Some(path), _) => Ok(lines(input::file(path, loading::limits(matches))?)),
        (None, [one]) if *one == "-" => Ok(lines(input::stdin(loading::limits(matches))?)),
        (None, []) if input::stdin_is_piped() => Ok(lines(input::stdin(loading::limits(matches))?)),
        (None, []) => Err(failure("there is no text", "give one, or --file, or `-` for standard input")),
        (None, given) => Ok(given.iter().map(|t| t.to_string()).collect()),
    }
}

/// Of loading flags those that matter to reading texts.
pub fn load_options(matches: &ArgMatches) -> LoadOptions {
    let number = |name| matches.try_get_one::<usize>(name).ok().flatten().copied();
    LoadOptions {
        device: loading::device(matches),
        threads: number("threads"),
        activations: loading::activations(matches),
        context: number("context"),
        chunk: Some(number("chunk").unwrap_or(STEP_ROWS)),
        limits: loading::limits(matches),
        ..LoadOptions::default()
    }
}

/// `--pooling`.
pub fn pooling(matches: &ArgMatches) -> Option<Pooling> {
    matches.get_one::<String>("pooling").map(|how| match how.as_str() {
        "mean" => Pooling::Mean,
        "cls" => Pooling::First,
        _ => Pooling::Last,
    })
}

/// `--truncate`.
pub fn too_long(matches: &ArgMatches) -> TooLong {
    if matches.get_flag("truncate") { TooLong::Cut } else { TooLong::Refuse }
}

enum Format {
    JsonLines,
    Csv,
    Npy,
}

/// Vectors on their way out. Not through the terminal's stream: an array is not text.
/// Where vectors go: a file that has its name once it is whole, or what takes them as they come.
enum Destination {
    File(Output),
    Stream(BufWriter<Box<dyn Write>>),
}

impl Destination {
    fn open(path: Option<&Path>) -> Result<Self> {
        let stream: Box<dyn Write> = match path {
            // Devices and pipes cannot be replaced by a file.
            Some(path) if path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir()) => {
                let next = "check the path and its permissions";
                let file = File::create(path);
                Box::new(file.or_fail(|e| format!("{}: cannot be written: {e}", path.display()), next)?)
            }
            Some(path) => return Ok(Self::File(Output::create(path, true)?)),
            None => Box::new(io::stdout().lock()),
        };
        Ok(Self::Stream(BufWriter::with_capacity(1 << 16, stream)))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::File(file) => Ok(file.write(bytes)?),
            Self::Stream(stream) => Ok(stream.write_all(bytes)?),
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::File(file) => Ok(file.finish()?),
            Self::Stream(mut stream) => Ok(stream.flush()?),
        }
    }
}

struct Writer {
    out: Destination,
    format: Format,
}

impl Writer {
    fn open(matches: &ArgMatches, rows: usize, width: usize) -> Result<Self> {
        let format = match matches.get_one::<String>("format").map(String::as_str) {
            Some("csv") => Format::Csv,
            Some("npy") => Format::Npy,
            _ => Format::JsonLines,
        };
        let path = matches.get_one::<PathBuf>("output").map(PathBuf::as_path);
        if path.is_none() && matches!(format, Format::Npy) && io::stdout().is_terminal() {
            return Err(failure("an array is not for a terminal", "give -o FILE, or another --format"));
        }
        let mut out = Destination::open(path)?;
        if let Format::Npy = format {
            out.write(&npy_header(rows, width))?;
        }
        Ok(Self { out, format })
    }

    fn row(&mut self, index: usize, tokens: usize, vector: &[f32]) -> Result<()> {
        let row = match self.format {
            Format::JsonLines => {
                // As f32 numbers have few digits; in a JSON value they would become f64.
                let vector = serde_json::to_string(vector)?;
                format!("{{\"index\":{index},\"tokens\":{tokens},\"embedding\":{vector}}}\n").into_bytes()
            }
            Format::Csv => {
                let values: Vec<String> = vector.iter().map(f32::to_string).collect();
                (values.join(",") + "\n").into_bytes()
            }
            Format::Npy => vector.iter().flat_map(|value| value.to_le_bytes()).collect(),
        };
        self.out.write(&row)
    }

    fn finish(self) -> Result<()> {
        self.out.finish()
    }
}

/// Version 1.0: magic, version, length, a dictionary padded so that the values start on a multiple of 64.
fn npy_header(rows: usize, width: usize) -> Vec<u8> {
    let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}");
    const BEFORE: usize = 10;
    let total = (BEFORE + text.len() + 1).next_multiple_of(64);
    text.push_str(&" ".repeat(total - BEFORE - text.len() - 1));
    text.push('\n');
    let length = (text.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::npy_header;

    #[test]
    fn an_array_header_is_whole_lines_of_64() {
        for (rows, width) in [(0, 1), (1, 384), (1_000_000_000, 4096)] {
            let header = npy_header(rows, width);
            assert!(header.len().is_multiple_of(64) && header.ends_with(b"\n"));
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])), header.len() - 10);
        }
    }
}
