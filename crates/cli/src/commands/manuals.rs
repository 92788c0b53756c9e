//! `akunu man` and `akunu completions`: what is generated from the flag table.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::ArgMatches;
use clap_complete::Shell;

use crate::failure::NextStep;
use crate::{flags, manual, terminal};

pub fn man(matches: &ArgMatches) -> Result<ExitCode> {
    if let Some(folder) = matches.get_one::<PathBuf>("output") {
        std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(flags::tree(), folder))
            .or_fail(|e| format!("{}: cannot be written: {e}", folder.display()), "choose another folder")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = terminal::out();
    if matches.get_flag("markdown") {
        out.write_all(manual::markdown(flags::tree()).as_bytes())?;
    } else {
        clap_mangen::Man::new(flags::tree()).render(&mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub fn completions(matches: &ArgMatches) -> Result<ExitCode> {
    if let Some(&shell) = matches.get_one::<Shell>("shell") {
        // Into memory first: the generator ends the program where it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut flags::tree(), "akunu", &mut script);
        let mut out = terminal::out();
        out.write_all(&script)?;
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}
