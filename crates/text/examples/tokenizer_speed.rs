//! Prints how fast a vocabulary encodes a text on one thread, and 10 MB lines that have no break.
//! `tokenizer_speed MODEL TEXT_FILE`, where MODEL is a GGUF file or a tokenizer.json.

use std::path::Path;
use std::time::Instant;

use akunu_formats::ModelFile;
use akunu_text::{Encode, Tokenizer};

const MEGABYTE: usize = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: tokenizer_speed MODEL TEXT_FILE";
    let path = args.next().ok_or(usage)?;
    let text = std::fs::read_to_string(args.next().ok_or(usage)?)?;
    let started = Instant::now();
    let tokenizer = if path.ends_with(".json") {
        Tokenizer::from_tokenizer_json(&std::fs::read(&path)?, None)?
    } else {
        Tokenizer::from_model_file(&ModelFile::open(Path::new(&path))?)?
    };
    println!("load {:.0} ms, {} tokens", started.elapsed().as_secs_f64() * 1e3, tokenizer.vocab_size());

    let text = text.repeat(20 * MEGABYTE / text.len().max(1) + 1);
    for _ in 0..3 {
        measure(&tokenizer, "text", &text)?;
    }
    for (name, unit) in [("one letter", "a"), ("spaces", " "), ("emoji", "🚀"), ("digits", "7"), ("newlines", "\n")] {
        for size in [MEGABYTE, 10 * MEGABYTE] {
            measure(&tokenizer, name, &unit.repeat(size / unit.len()))?;
        }
    }
    let scrambled: String = (0..10 * MEGABYTE as u64)
        .map(|i| (b'a' + (i.wrapping_mul(6_364_136_223_846_793_005) >> 33) as u8 % 26) as char)
        .collect();
    measure(&tokenizer, "one word of random letters", &scrambled)?;
    Ok(())
}

fn measure(tokenizer: &Tokenizer, name: &str, text: &str) -> Result<(), akunu_text::Error> {
    let started = Instant::now();
    let count = tokenizer.encode(text, Encode::default())?.len();
    let seconds = started.elapsed().as_secs_f64();
    let megabytes = text.len() as f64 / MEGABYTE as f64;
    println!("{name:>28} {megabytes:5.1} MB {:7.1} MB/s {seconds:6.2} s {count} tokens", megabytes / seconds);
    Ok(())
}
