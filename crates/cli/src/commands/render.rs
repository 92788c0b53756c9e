//! `akunu render`: the prompt that a chat template makes of a conversation.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use akunu::Limits;
use akunu_text::{ChatTemplate, Tokenizer};
use anyhow::Result;
use clap::ArgMatches;
use serde_json::Value;

use crate::failure::{NextStep, failure};
use crate::source::Source;
use crate::{input, loading, templates, terminal};

/// A template and the texts of its special tokens.
struct Found {
    template: ChatTemplate,
    bos: String,
    eos: String,
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let name = matches.get_one::<OsString>("model").cloned().unwrap_or_default();
    let is_template = Path::new(&name).extension().is_some_and(|e| e == "jinja" || e == "jinja2" || e == "j2");
    let limits = loading::limits(matches);
    let found = match is_template {
        true => {
            Found { template: templates::from_file(Path::new(&name), limits)?, bos: String::new(), eos: String::new() }
        }
        false => from_model(&Source::named(&name)?, limits)?,
    };
    let path = matches.get_one::<PathBuf>("input").map_or(Path::new("-"), PathBuf::as_path);
    let json = input::file(path, limits)?;
    let input: Value = serde_json::from_str(&json)
        .or_fail(|e| format!("{}: is not JSON: {e}", path.display()), "give an object with `messages`")?;
    if !input.is_object() {
        return Err(failure(format!("{}: is not a JSON object", path.display()), "give an object with `messages`"));
    }
    let text = |name, own: &str| matches.get_one::<String>(name).map_or(own, String::as_str).to_owned();
    let (bos, eos) = (text("bos", &found.bos), text("eos", &found.eos));
    let prompt = found.template.render(&input, &bos, &eos).next_step("change the conversation, or the template")?;
    let mut out = terminal::out();
    match io::stdout().is_terminal() {
        true => out.write_all(terminal::printable(&prompt).as_bytes())?,
        false => out.write_all(prompt.as_bytes())?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn from_model(source: &Source, limits: Limits) -> Result<Found> {
    let file = source.open(limits)?;
    let template = templates::of_model(&file, "give a template file (.jinja) instead")?;
    // A template may do without the tokens.
    let tokenizer = Tokenizer::from_model_file(&file).ok();
    let text = |id: fn(&Tokenizer) -> Option<u32>| {
        let tokenizer = tokenizer.as_ref()?;
        tokenizer.token_text(id(tokenizer)?).map(str::to_owned)
    };
    let (bos, eos) = (text(Tokenizer::bos).unwrap_or_default(), text(Tokenizer::eos).unwrap_or_default());
    Ok(Found { template, bos, eos })
}
