//! `akunu run`: continue a prompt, streaming.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use akunu::{Engine, Finish, GenerateOptions, LogProbs, Sequence, Session};
use akunu_text::Encode;
use anyhow::Result;
use clap::ArgMatches;
use serde_json::json;

use crate::conversation::Prompter;
use crate::failure::failure;
use crate::generation::{Ended, Writer, answer, stored};
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
    let mut options = loading::generate_options(matches)?;
    let load = loading::load_options(matches);
    let start = Instant::now();
    let engine = source.load(load)?;
    if matches.get_flag("verbose") {
        let (loaded, info) = (units::time(start.elapsed().as_secs_f64()), engine.backend().info());
        writeln!(
            terminal::err(),
            "{} loaded in {loaded}: {info}, {} threads, context {}, seed {}",
            source.name(),
            info.threads,
            engine.context(),
            options.sampling.seed,
        )?;
    }
    let chunk = engine.chunk();
    let mut writer = Writer { engine, draft: loading::draft(matches)? };
    let ids = ids(matches, &writer.engine, &prompt.text, &mut options)?;
    let session = matches.get_one::<PathBuf>("session");
    let mut sequence = match session.filter(|path| path.exists()) {
        Some(path) => beginning(&mut writer.engine, path, &ids)?,
        None => writer.engine.sequence(),
    };
    let reused = sequence.len();
    // The first token is often one that every text begins with.
    options.context_shift = options.context_shift.map(|_| 1);

    let interrupt = Interrupt::once()?;
    let sanitizer = terminal::Sanitizer::for_stdout();
    let mut out = terminal::out();
    if prompt.echo {
        write!(out, "{}", prompt.text)?;
        out.flush()?;
    }
    let mut logprobs: Vec<(u32, LogProbs)> = Vec::new();
    let answer = answer(&mut writer, &mut sequence, &ids, options, chunk, &interrupt, |piece| {
        logprobs.extend(piece.logprobs.clone().map(|l| (piece.token, l)));
        write!(out, "{}", sanitizer.clean(&piece.text))?;
        Ok(out.flush()?)
    })?;
    writeln!(out)?;
    out.flush()?;
    let mut err = terminal::err();
    for (token, of) in &logprobs {
        writeln!(err, "{}", log_probability_line(&writer.engine, *token, of))?;
    }
    let note = match answer.ended {
        Ended::Finished(Finish::Context) => format!("; the context of {} is full", writer.engine.context()),
        Ended::Interrupted => "; interrupted".to_owned(),
        Ended::Finished(_) => String::new(),
    };
    let cached = if session.is_some() { format!("{reused} tokens reused, ") } else { String::new() };
    writeln!(err, "{cached}{}{note}", answer.speeds)?;
    if let Some(path) = session {
        let text: Vec<u32> = ids.iter().chain(&answer.tokens).copied().collect();
        let tokens = stored(text, &answer.shifts, sequence.len());
        if sequence.truncate(tokens.len()).is_some() {
            writer.engine.save_session(path, &sequence, &tokens, "")?;
        }
    }
    let interrupted = answer.ended == Ended::Interrupted;
    Ok(if interrupted { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}

/// What a session holds of `ids`, all but the last token at most.
fn beginning(engine: &mut Engine, path: &Path, ids: &[u32]) -> Result<Sequence> {
    let Session { mut sequence, tokens, .. } = engine.load_session(path)?;
    let common = tokens.iter().zip(ids).take_while(|(a, b)| a == b).count();
    let common = common.min(sequence.len()).min(ids.len().saturating_sub(1));
    // A sliding window may have dropped what would be needed.
    Ok(if sequence.truncate(common).is_some() { sequence } else { engine.sequence() })
}

/// A chosen token with its log-probability, then the likeliest ones.
fn log_probability_line(engine: &Engine, token: u32, of: &LogProbs) -> String {
    let text = |id| engine.tokenizer().map(|t| String::from_utf8_lossy(t.token_bytes(id)).into_owned());
    let one = |id, p: f32| format!("{p:.4} {:?}", text(id).unwrap_or_default());
    let top = of.top.iter().map(|(id, p)| format!("  {}", one(*id, *p)));
    one(token, of.chosen) + &top.collect::<String>()
}

/// The prompt's tokens, as it is or as a user's message; then the model may think before a grammar binds it.
fn ids(matches: &ArgMatches, engine: &Engine, text: &str, options: &mut GenerateOptions) -> Result<Vec<u32>> {
    let tokenizer = engine.need_tokenizer()?;
    if !matches.get_flag("chat") {
        return Ok(tokenizer.encode(text, Encode { add_special: true, parse_special: true })?);
    }
    let template = match matches.get_one::<PathBuf>("template") {
        Some(path) => templates::from_file(path, loading::limits(matches))?,
        None => templates::of_model(engine.file(), "give one with `--template FILE`, or leave out --chat")?,
    };
    let prompter = Prompter::new(template, tokenizer);
    let prompt = prompter.prompt(&[json!({ "role": "user", "content": text })])?;
    prompter.let_think(&prompt, options);
    Prompter::ids(tokenizer, &prompt)
}

fn model_and_prompt(matches: &ArgMatches) -> Result<(Source, Prompt)> {
    let name = matches.get_one::<OsString>("model");
    let prompt = matches.get_one::<String>("prompt").map(String::as_str);
    let given = |text: String| Prompt { text, echo: false };
    match (name, prompt) {
        (None, _) => Ok((Source::Embedded, Prompt { text: OPENER.to_owned(), echo: true })),
        // Only a prompt can come from standard input.
        (Some(name), None) if name == "-" => Ok((Source::Embedded, given(input::stdin(loading::limits(matches))?))),
        (Some(name), prompt) => {
            let source = match (Source::find(name)?, prompt) {
                (Some(source), _) => source,
                (None, Some(_)) => Source::named(name)?,
                (None, None) => return Err(not_a_model(&name.to_string_lossy())),
            };
            let prompt = match prompt {
                Some("-") => given(input::stdin(loading::limits(matches))?),
                Some(text) => given(text.to_owned()),
                None if source == Source::Embedded => Prompt { text: OPENER.to_owned(), echo: true },
                None if input::stdin_is_piped() => given(input::stdin(loading::limits(matches))?),
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
