//! `akunu run`: continue a prompt, streaming.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use akunu::text::Encode;
use akunu::{Engine, Finish, GenerateOptions};
use anyhow::Result;
use clap::ArgMatches;
use serde_json::json;

use crate::conversation::Prompter;
use crate::failure::failure;
use crate::generation::{Ended, answer};
use crate::interrupt::{self, Interrupt};
use crate::source::{EMBEDDED, Source};
use crate::{input, loading, templates, terminal, units};

/// What the embedded model continues where nobody says.
const OPENER: &str = "Once upon a time";

/// A prompt, and whether it is printed before its continuation.
struct Prompt {
    text: String,
    echo: bool,
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let (source, prompt) = model_and_prompt(matches)?;
    let options = GenerateOptions {
        max_tokens: matches.get_one("max-tokens").copied().unwrap_or_default(),
        sampling: loading::sampling_options(matches),
        ignore_eos: matches.get_flag("ignore-eos"),
    };
    let load = loading::load_options(matches);
    let chunk = load.chunk;
    let start = Instant::now();
    let mut engine = source.load(load)?;
    if matches.get_flag("verbose") {
        let (loaded, cpu) = (units::time(start.elapsed().as_secs_f64()), engine.cpu());
        writeln!(
            terminal::err(),
            "{} loaded in {loaded}: cpu/{}, {} threads, context {}, seed {}",
            source.name(),
            cpu.level(),
            cpu.threads(),
            engine.context(),
            options.sampling.seed,
        )?;
    }
    let ids = ids(matches, &engine, &prompt.text)?;
    let mut sequence = engine.sequence();

    let interrupt = Interrupt::once()?;
    let sanitizer = terminal::Sanitizer::for_stdout();
    let mut out = terminal::out();
    if prompt.echo {
        write!(out, "{}", prompt.text)?;
        out.flush()?;
    }
    let answer = answer(&mut engine, &mut sequence, &ids, options, chunk, &interrupt, |text| {
        write!(out, "{}", sanitizer.clean(text))?;
        Ok(out.flush()?)
    })?;
    writeln!(out)?;
    out.flush()?;
    let mut err = terminal::err();
    let note = match answer.ended {
        Ended::Finished(Finish::Context) => format!("; the context of {} is full", engine.context()),
        Ended::Interrupted => "; interrupted".to_owned(),
        Ended::Finished(_) => String::new(),
    };
    writeln!(err, "{}{note}", answer.speeds)?;
    let interrupted = answer.ended == Ended::Interrupted;
    Ok(if interrupted { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}

/// The prompt's tokens: as it is, or as a user's message.
fn ids(matches: &ArgMatches, engine: &Engine, text: &str) -> Result<Vec<u32>> {
    let tokenizer = engine.need_tokenizer()?;
    if !matches.get_flag("chat") {
        return Ok(tokenizer.encode(text, Encode { add_special: true, parse_special: true }));
    }
    let template = match matches.get_one::<PathBuf>("template") {
        Some(path) => templates::from_file(path)?,
        None => templates::of_model(engine.file(), "give one with `--template FILE`, or leave out --chat")?,
    };
    let message = json!({ "role": "user", "content": text });
    let prompt = Prompter::new(template, tokenizer).prompt(&[message])?;
    Ok(Prompter::ids(tokenizer, &prompt))
}

fn model_and_prompt(matches: &ArgMatches) -> Result<(Source, Prompt)> {
    let name = matches.get_one::<OsString>("model");
    let prompt = matches.get_one::<String>("prompt").map(String::as_str);
    let given = |text: String| Prompt { text, echo: false };
    match (name, prompt) {
        (None, _) => Ok((Source::Embedded, Prompt { text: OPENER.to_owned(), echo: true })),
        // Only a prompt can come from standard input.
        (Some(name), None) if name == "-" => Ok((Source::Embedded, given(input::stdin()?))),
        (Some(name), prompt) => {
            let source = match (Source::find(name)?, prompt) {
                (Some(source), _) => source,
                (None, Some(_)) => Source::named(name)?,
                (None, None) => return Err(not_a_model(&name.to_string_lossy())),
            };
            let prompt = match prompt {
                Some("-") => given(input::stdin()?),
                Some(text) => given(text.to_owned()),
                None if source == Source::Embedded => Prompt { text: OPENER.to_owned(), echo: true },
                None if input::stdin_is_piped() => given(input::stdin()?),
                None => {
                    return Err(failure("there is no prompt", "give one after the model, or pipe it in"));
                }
            };
            Ok((source, prompt))
        }
    }
}

/// One argument that is no model is probably meant as a prompt.
fn not_a_model(name: &str) -> anyhow::Error {
    failure(
        format!("there is no file, directory or downloaded model called {name:?}"),
        format!("to continue it as a text: `akunu run {EMBEDDED} {name:?}`; for models: `akunu models list`"),
    )
}
