//! `akunu convert`: any model to a GGUF file, quantized on the way.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use akunu_convert::{self as convert, Error};
use anyhow::Result;
use clap::ArgMatches;

use crate::failure::{NextStep, failure};
use crate::source::Source;
use crate::{interrupt, loading, terminal, units};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let name = matches.get_one::<OsString>("source").cloned().unwrap_or_default();
    let Source::Path(source) = Source::named(&name)? else {
        return Err(failure("the embedded model is in no file", "give a model file or directory"));
    };
    let output = matches.get_one::<PathBuf>("output").map_or(Path::new(""), PathBuf::as_path);
    let kind = matches.get_one::<String>("type").map_or("", String::as_str);
    let threads = matches.get_one("threads").copied();
    let limits = loading::limits(matches);
    let options = convert::Options { overwrite: matches.get_flag("force"), threads, limits };
    interrupt::leave_nothing_unfinished()?;
    let bar = terminal::byte_progress("converting");
    let start = Instant::now();
    let converted = convert::convert(&source, output, kind, options, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let report = match converted {
        Err(error @ Error::UnknownType { .. }) => Err(error).next_step("choose one of them"),
        Err(error @ Error::SameFile { .. }) => Err(error).next_step("give the new file another name"),
        // What it stands for says what to do.
        Err(Error::Format(error)) => Err(error.into()),
        converted => Ok(converted?),
    }?;
    let tokenizer = if report.tokenizer { "" } else { ", no tokenizer" };
    writeln!(
        terminal::err(),
        "{}: {} tensors, {} in {}{tokenizer}",
        output.display(),
        report.tensors,
        units::bytes(report.bytes),
        units::time(start.elapsed().as_secs_f64()),
    )?;
    Ok(ExitCode::SUCCESS)
}
