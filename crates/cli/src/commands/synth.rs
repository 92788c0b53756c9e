//! `akunu synth`: a model with random weights in a real model's shape.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use akunu_arch::SHAPES;
use akunu_convert::synth;
use anyhow::Result;
use clap::ArgMatches;

use crate::failure::NextStep;
use crate::table::Table;
use crate::{interrupt, terminal};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    if matches.get_flag("list") {
        let mut table = Table::new(&["shape", "family", ">layers", ">width", ">vocabulary"]);
        for s in SHAPES {
            let numbers = [s.layers, s.dim, s.vocab].map(|n| n.to_string());
            table.row([s.name.to_owned(), s.family.name.to_owned()].into_iter().chain(numbers));
        }
        let mut out = terminal::out();
        table.print(&mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = |name| matches.get_one::<String>(name).map_or("", String::as_str);
    let path = matches.get_one::<PathBuf>("output").map_or(Path::new(""), PathBuf::as_path);
    let options = synth::Options { overwrite: matches.get_flag("force"), ..Default::default() };
    interrupt::leave_nothing_unfinished()?;
    let bar = terminal::byte_progress("writing");
    let written = synth::write(text("shape"), text("type"), path, options, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    match written {
        Err(error @ synth::Error::UnknownShape { .. }) => Err(error).next_step("choose one of them"),
        Err(error @ synth::Error::UnknownType { .. }) => Err(error).next_step("choose one of them"),
        // What it stands for says what to do.
        Err(synth::Error::Format(error)) => Err(error.into()),
        written => Ok(written.map(|()| ExitCode::SUCCESS)?),
    }
}
