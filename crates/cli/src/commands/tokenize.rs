//! `akunu tokenize`: the tokens of a text.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use akunu_text::{Encode, Tokenizer};
use anyhow::Result;
use clap::ArgMatches;
use serde_json::json;

use crate::failure::NextStep;
use crate::source::Source;
use crate::{input, loading, terminal};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let limits = loading::limits(matches);
    let file = Source::of(matches)?.open(limits)?;
    let name = file.path().display().to_string();
    let tokenizer = Tokenizer::from_model_file(&file)
        .or_fail(|e| format!("{name}: {e}"), "give a model, or a vocabulary, whose tokenizer can be read")?;
    let text = match (matches.get_one::<PathBuf>("file"), matches.get_one::<String>("text").map(String::as_str)) {
        (Some(path), _) => input::file(path, limits)?,
        (None, None | Some("-")) => input::stdin(limits)?,
        (None, Some(text)) => text.to_owned(),
    };
    let special = !matches.get_flag("no-special");
    let ids = tokenizer.encode(&text, Encode { add_special: special, parse_special: special })?;

    let mut out = terminal::out();
    if matches.get_flag("json") {
        let tokens: Vec<&str> = ids.iter().map(|&id| tokenizer.token_text(id).unwrap_or("")).collect();
        writeln!(out, "{}", json!({ "ids": ids, "tokens": tokens }))?;
    } else if matches.get_flag("ids") {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        writeln!(out, "{}", ids.join(","))?;
    } else {
        for id in ids {
            // Bytes need not be whole characters; escapes keep each token on its line.
            writeln!(out, "{id:>7}  {}", quoted(tokenizer.token_bytes(id)))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The bytes as a quoted text, what is not UTF-8 as `\xNN`.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        text.extend(chunk.valid().chars().flat_map(char::escape_debug));
        text.extend(chunk.invalid().iter().map(|b| format!("\\x{b:02x}")));
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn tokens_print_on_one_line_whatever_their_bytes() {
        assert_eq!(quoted(" caf\u{e9}\n".as_bytes()), "\" café\\n\"");
        assert_eq!(quoted(&[b'a', 0xf0, 0x9f]), "\"a\\xf0\\x9f\"");
    }
}
