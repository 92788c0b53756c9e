//! `cargo xtask`: chores of the project.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tidy(),
        _ => {
            eprintln!("{HELP}");
            return ExitCode::FAILURE;
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

const HELP: &str = "usage: cargo xtask tidy                 check the house invariants";

fn tidy() -> anyhow::Result<bool> {
    let findings = xtask::tidy::check(&xtask::root())?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        xtask::tidy::promises().for_each(|promise| println!("kept: {promise}"));
    }
    Ok(findings.is_empty())
}
