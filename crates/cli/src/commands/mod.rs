//! One file per command; here each name finds its function.

mod bench;
mod chat;
#[cfg(feature = "convert")]
mod convert;
mod devices;
mod embed;
mod fit;
mod hidden;
mod inspect;
mod logits;
mod manuals;
#[cfg(feature = "hub")]
mod models;
mod op_times;
mod perplexity;
mod render;
mod rerank;
mod run;
#[cfg(feature = "server")]
mod serve;
mod streams;
#[cfg(feature = "convert")]
mod synth;
mod tokenize;
#[cfg(feature = "audio")]
mod transcribe;

use std::process::ExitCode;

use anyhow::Result;
use clap::ArgMatches;

use crate::failure::failure;

type Command = fn(&ArgMatches) -> Result<ExitCode>;

/// Every command of the flag table, of those that are built in.
const COMMANDS: &[(&str, Command)] = &[
    ("run", run::run),
    ("chat", chat::run),
    #[cfg(feature = "server")]
    ("serve", serve::run),
    ("embed", embed::run),
    ("rerank", rerank::run),
    ("inspect", inspect::run),
    ("bench", bench::run),
    ("logits", logits::run),
    ("hidden", hidden::run),
    ("perplexity", perplexity::run),
    ("tokenize", tokenize::run),
    #[cfg(feature = "audio")]
    ("transcribe", transcribe::run),
    ("render", render::run),
    #[cfg(feature = "convert")]
    ("synth", synth::run),
    #[cfg(feature = "convert")]
    ("convert", convert::run),
    #[cfg(feature = "hub")]
    ("models", models::run),
    ("devices", devices::run),
    ("completions", manuals::completions),
    ("man", manuals::man),
];

pub fn dispatch(matches: &ArgMatches) -> Result<ExitCode> {
    let (name, matches) = matches.subcommand().unwrap_or(("", matches));
    match COMMANDS.iter().find(|(n, _)| *n == name) {
        Some((_, command)) => command(matches),
        // The flag table requires a command, and a test checks that each of its commands has a row.
        None => {
            let feature = PARTS.iter().find(|(n, _)| *n == name).map_or("", |(_, feature)| feature);
            let sentence = format!("this akunu was built without the command {name:?}");
            Err(failure(sentence, format!("build it with `--features {feature}`")))
        }
    }
}

/// Commands that a binary may be built without, with the feature of each.
const PARTS: &[(&str, &str)] =
    &[("serve", "server"), ("transcribe", "audio"), ("synth", "convert"), ("convert", "convert"), ("models", "hub")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_flag_table_is_here_and_no_other() {
        let tree = crate::flags::tree();
        let mut named: Vec<&str> = tree.get_subcommands().map(|c| c.get_name()).collect();
        let mut here: Vec<&str> = COMMANDS.iter().map(|(n, _)| *n).chain(PARTS.iter().map(|(n, _)| *n)).collect();
        named.sort_unstable();
        here.sort_unstable();
        here.dedup();
        assert_eq!(named, here);
    }

    #[test]
    fn the_flag_table_is_sound() {
        crate::flags::tree().debug_assert();
    }
}
