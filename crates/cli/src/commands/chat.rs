//! `akunu chat`: talk with a model.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use akunu::Finish;
use anyhow::Result;
use clap::ArgMatches;
use owo_colors::OwoColorize;

use crate::conversation::{Conversation, Said};
use crate::editor::{Editor, Entered};
use crate::generation::{Ended, Writer};
use crate::interrupt::Interrupt;
use crate::markdown::Painter;
use crate::slash::{self, Outcome};
use crate::source::Source;
use crate::{failure, loading, names, templates, terminal};

/// What to do with a model that was not made for conversations.
pub const NO_TEMPLATE: &str = "give one with `--template FILE`, or continue plain text with `akunu run`";

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let source = Source::of(matches)?;
    let load = loading::load_options(matches);
    let engine = source.load(load)?;
    let template = match matches.get_one::<PathBuf>("template") {
        Some(path) => templates::from_file(path, loading::limits(matches))?,
        None => templates::of_model(engine.file(), NO_TEMPLATE)?,
    };
    let options = loading::generate_options(matches)?;
    let chunk = engine.chunk();
    let mut conversation =
        Conversation::new(Writer { engine, draft: loading::draft(matches)? }, template, options, chunk)?;
    let session = matches.get_one::<PathBuf>("session");
    if let Some(path) = session.filter(|path| path.exists()) {
        conversation.load_session(path)?;
    }
    if let Some(path) = matches.get_one::<PathBuf>("load") {
        slash::load_file(&mut conversation, path)?;
    }
    if let Some(text) = matches.get_one::<String>("system") {
        conversation.set_system(text);
    }
    let at_terminal = std::io::stdin().is_terminal();
    if at_terminal {
        writeln!(terminal::err(), "{}", format!("{}; /help lists commands, Ctrl-D leaves", source.name()).dimmed())?;
    }
    // What is piped in is nobody's typing.
    let history = matches.get_one::<PathBuf>("history").cloned().or_else(names::history).filter(|_| at_terminal);
    talk(&mut conversation, &mut Editor::new(history)?, session, matches.get_flag("verbose"))
}

fn talk(
    conversation: &mut Conversation,
    editor: &mut Editor,
    session: Option<&PathBuf>,
    verbose: bool,
) -> Result<ExitCode> {
    let interrupt = Interrupt::always()?;
    loop {
        let message = match editor.read()? {
            Entered::End => return Ok(ExitCode::SUCCESS),
            Entered::Interrupted => {
                note("Ctrl-D or /exit leaves")?;
                continue;
            }
            Entered::Message(text) if text.trim().is_empty() => continue,
            Entered::Message(text) => text,
        };
        let done = match message.strip_prefix('/') {
            Some(text) if !text.starts_with('/') => slash::run(conversation, text).map(Some),
            // Two slashes are a message with one.
            Some(text) => answer(conversation, text, &interrupt).map(|()| None),
            None => answer(conversation, &message, &interrupt).map(|()| None),
        };
        // After every answer: a session outlives a program that is killed.
        let done = match (done, session) {
            (Ok(None), Some(path)) => conversation.save_session(path).map(|()| None),
            (done, _) => done,
        };
        match done {
            Ok(Some(Outcome::Leave)) => return Ok(ExitCode::SUCCESS),
            Ok(Some(Outcome::Said(text))) => note(&text)?,
            Ok(None) => {}
            Err(error) if failure::is_broken_pipe(&error) => return Err(error),
            // The conversation goes on.
            Err(error) => crate::report(&error, verbose),
        }
    }
}

fn answer(conversation: &mut Conversation, text: &str, interrupt: &Interrupt) -> Result<()> {
    interrupt.clear();
    let colours = terminal::colours();
    let sanitizer = terminal::Sanitizer::for_stdout();
    let mut out = terminal::out();
    let mut painter = Painter::new(colours, false);
    let mut begun = false;
    let ended = conversation.answer(text, interrupt, |said| {
        match said {
            // A template may open the block itself.
            Said::Prompt(prompt) => {
                begun = true;
                painter = Painter::new(colours, prompt.trim_end().ends_with("<think>"));
            }
            Said::Answer(text) => write!(out, "{}", painter.push(&sanitizer.clean(text)))?,
        }
        Ok(out.flush()?)
    });
    if begun {
        writeln!(out, "{}", painter.finish())?;
        out.flush()?;
    }
    match ended? {
        Ended::Interrupted => note("stopped"),
        Ended::Finished(Finish::Length) => note("stopped at max-tokens; `/params max-tokens=N` changes it"),
        Ended::Finished(Finish::Context) => {
            note("the context is full; `/reset`, or start again with a larger --context")
        }
        Ended::Finished(_) => Ok(()),
    }
}

/// Something that is not the model's.
fn note(text: &str) -> Result<()> {
    Ok(writeln!(terminal::err(), "{}", terminal::printable(text).dimmed())?)
}
