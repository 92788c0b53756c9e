//! Reads JSON strings from standard input, one a line, and prints the ids of each as a JSON array: the half of the
//! comparison with HF's library that is ours. `encode_lines MODEL [--decode]`, where MODEL is a GGUF file or a
//! tokenizer.json; with `--decode`, prints `[ids, text]` where text is what the ids decode to.

use std::io::{BufRead, Write};
use std::path::Path;

use akunu_formats::ModelFile;
use akunu_text::{Encode, Tokenizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: encode_lines MODEL [--decode]")?;
    let with_text = args.next().as_deref() == Some("--decode");
    let tokenizer = if path.ends_with(".json") {
        Tokenizer::from_tokenizer_json(&std::fs::read(&path)?, None)?
    } else {
        Tokenizer::from_model_file(&ModelFile::open(Path::new(&path))?)?
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        let ids = tokenizer.encode(&text, Encode { add_special: false, parse_special: true })?;
        if with_text {
            writeln!(out, "{}", serde_json::json!([ids, tokenizer.decode(&ids, false)]))?;
        } else {
            writeln!(out, "{}", serde_json::json!(ids))?;
        }
    }
    Ok(())
}
