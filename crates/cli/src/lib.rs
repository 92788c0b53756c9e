//! The `akunu` command as a function: reads the command line, runs one command, and says in one sentence what went wrong.

#![forbid(unsafe_code)]

mod commands;
mod conversation;
mod editor;
mod failure;
mod flags;
mod generation;
mod input;
mod interrupt;
mod loading;
mod machine;
mod manual;
mod markdown;
#[cfg_attr(not(feature = "hub"), path = "names_absent.rs")]
mod names;
mod program_table;
mod settings;
mod slash;
mod source;
mod table;
mod templates;
mod terminal;
#[cfg(feature = "audio")]
mod transcripts;
mod units;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The exit status of a command line that is not right.
const USAGE: u8 = 2;

/// Runs the command line, whose first argument is the program's name. It takes over the process's signals, and may end it.
pub fn run(arguments: &[OsString]) -> ExitCode {
    let matches = match flags::tree().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return usage(&error, arguments),
    };
    let matches = match settings::complete(&flags::tree(), arguments, &matches) {
        Ok(all) if all == arguments => Ok(Ok(matches)),
        all => all.map(|all| flags::tree().try_get_matches_from(all)),
    };
    let matches = match matches {
        Ok(Ok(matches)) => matches,
        Ok(Err(error)) => return usage(&error, arguments),
        Err(error) => {
            report(&error, false);
            return ExitCode::from(USAGE);
        }
    };
    match commands::dispatch(&matches) {
        Ok(status) => status,
        Err(error) if failure::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error, matches.get_flag("verbose"));
            ExitCode::FAILURE
        }
    }
}

/// Nobody is left to tell where standard error is closed, so that failures to write to it are ignored.
fn report(error: &anyhow::Error, verbose: bool) {
    let mut err = terminal::err();
    let _ = writeln!(err, "{} {}", label(), failure::sentence(error));
    if verbose {
        for cause in failure::causes(error) {
            let _ = writeln!(err, "  caused by: {cause}");
        }
    }
}

fn label() -> impl std::fmt::Display {
    use owo_colors::OwoColorize;
    "error:".red().bold().to_string()
}

/// Help and version are answers; anything else is one line and status 2.
fn usage(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind::*;
    match error.kind() {
        DisplayHelp | DisplayVersion => match error.print() {
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
                report(
                    &failure::failure(format!("the help could not be written: {e}"), "write it somewhere else"),
                    false,
                );
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        },
        DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(USAGE)
        }
        _ => {
            let tree = flags::tree();
            let command =
                arguments.iter().skip(1).filter_map(|a| a.to_str()).find(|a| tree.find_subcommand(a).is_some());
            let command = command.map_or("akunu".to_owned(), |c| format!("akunu {c}"));
            let _ = writeln!(terminal::err(), "{} {}", label(), failure::usage_line(error, &command));
            ExitCode::from(USAGE)
        }
    }
}
