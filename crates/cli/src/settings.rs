//! Flags from other places: the environment, and a file. What the command line says counts most, then the environment, then
//! the file. All three have the names of the one flag table.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::{Table, Value};

use crate::failure::{NextStep, failure};
use crate::{input, loading};

/// The flag that names the file.
pub const FILE: &str = "config";
/// The flag that prints what came of it all.
pub const PRINT: &str = "print-config";
/// What is never printed.
const SECRET: &str = "api-key";

/// The environment's name of a flag: `AKUNU_SERVE_MAX_GAP`.
pub fn variable(command: &str, flag: &str) -> String {
    format!("AKUNU_{command}_{flag}").replace('-', "_").to_ascii_uppercase()
}

/// The command line of `command` with what the other places add to it; the same where they add nothing.
pub fn complete(tree: &Command, arguments: &[OsString], matches: &ArgMatches) -> Result<Vec<OsString>> {
    let mut all = arguments.to_vec();
    let Some((name, matches)) = matches.subcommand() else { return Ok(all) };
    let Some(command) = tree.find_subcommand(name).filter(|c| c.get_arguments().any(|a| a.get_id() == FILE)) else {
        return Ok(all);
    };
    let mut file =
        match matches.get_one::<PathBuf>(FILE).cloned().or(env::var_os(variable(name, FILE)).map(PathBuf::from)) {
            None => Table::new(),
            Some(path) => input::file(&path, loading::limits(matches))?.parse::<Table>().or_fail(
                |e| format!("{}: {}", path.display(), crate::failure::one_line(&e.to_string())),
                "give a TOML file",
            )?,
        };
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let from_file = file.remove(id);
        if matches.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue) {
            continue;
        }
        let values = match (env::var_os(variable(name, id)), from_file) {
            (Some(value), _) => vec![value],
            (None, Some(value)) => texts(id, value)?.into_iter().map(OsString::from).collect(),
            (None, None) => continue,
        };
        add(&mut all, arg, values);
    }
    match file.keys().next() {
        None => Ok(all),
        Some(key) => Err(failure(
            format!("the file of --{FILE} has {key:?}, which is no flag"),
            format!("see `akunu {name} --help`"),
        )),
    }
}

fn add(all: &mut Vec<OsString>, arg: &Arg, values: Vec<OsString>) {
    let Some(long) = arg.get_long() else { return all.extend(values) };
    for value in values {
        match arg.get_action() {
            ArgAction::SetTrue if value == "true" || value == "1" => all.push(format!("--{long}").into()),
            ArgAction::SetTrue => {}
            _ => {
                let mut flag = OsString::from(format!("--{long}="));
                flag.push(value);
                all.push(flag);
            }
        }
    }
}

/// A value of the file as the command line would have it.
fn texts(key: &str, value: Value) -> Result<Vec<String>> {
    Ok(match value {
        Value::String(text) => vec![text],
        Value::Integer(n) => vec![n.to_string()],
        Value::Float(n) => vec![n.to_string()],
        Value::Boolean(is) => vec![is.to_string()],
        Value::Array(values) => {
            let texts = values.into_iter().map(|value| texts(key, value)).collect::<Result<Vec<_>>>()?;
            texts.into_iter().flatten().collect()
        }
        _ => {
            return Err(failure(
                format!("{key} in the file of --{FILE} is neither a value nor a list"),
                "give a value",
            ));
        }
    })
}

/// What counts in the end, as a file that `--config` reads.
pub fn print(command: &Command, matches: &ArgMatches) -> String {
    let mut table = Table::new();
    for arg in command.get_arguments().filter(|arg| ![FILE, PRINT].contains(&arg.get_id().as_str())) {
        let id = arg.get_id().as_str();
        let Ok(Some(values)) = matches.try_get_raw(id) else { continue };
        let mut values: Vec<Value> = values
            .map(|value| match value.to_string_lossy().into_owned() {
                _ if id == SECRET => Value::String("(not shown)".into()),
                text if matches!(arg.get_action(), ArgAction::SetTrue) => Value::Boolean(text == "true"),
                text => text.parse().map(Value::Integer).unwrap_or(Value::String(text)),
            })
            .collect();
        let many = matches!(arg.get_action(), ArgAction::Append) || arg.get_long().is_none();
        let value = if many { Value::Array(values) } else { values.pop().unwrap_or(Value::Array(Vec::new())) };
        table.insert(id.to_owned(), value);
    }
    toml::to_string(&table).unwrap_or_default()
}
