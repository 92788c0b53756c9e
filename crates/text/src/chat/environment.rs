//! The template engine set up as transformers sets up Jinja: trimmed blocks, Python's methods and formatting, and limits.

use std::fmt;

use minijinja::value::Rest;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};

use super::budget::{self, COUNT, CYCLE, ITEM, KEEP, MARKUP, NUMBER, READ, REPEAT, SEARCH, TEXT, TICK, WALK, stopped};
use super::namespace::{self, SET};
use super::slice::{self, SLICE};
use super::{builtins, clock, python};

/// Nested macro calls and recursive loops: each uses native stack.
const RECURSION: usize = 300;

/// What `raise_exception` was called with.
#[derive(Debug)]
pub(super) struct Raised(pub String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// `steps` are what one rendering may take; a conversation of a thousand turns takes under a million.
pub(super) fn build(steps: u64) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_keep_trailing_newline(false);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(steps));
    environment.set_recursion_limit(RECURSION);
    environment.set_formatter(print);
    environment.set_unknown_method_callback(builtins::method);
    builtins::add(&mut environment);

    environment.add_filter(COUNT, budget::count);
    environment.add_filter(READ, budget::read);
    environment.add_filter(ITEM, budget::item);
    environment.add_filter(SEARCH, budget::search);
    environment.add_filter(WALK, budget::walk);
    environment.add_filter(SLICE, slice::slice);
    environment.add_filter(SET, namespace::set);
    environment.add_filter(CYCLE, builtins::cycle);
    environment.add_filter(REPEAT, budget::repeat);
    environment.add_filter(NUMBER, budget::number);
    environment.add_filter(TEXT, text);
    environment.add_filter(KEEP, budget::kept);
    environment.add_filter(MARKUP, markup);
    environment.add_function(TICK, budget::tick);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment
}

/// `{{ value }}`: what Python's `str` gives, paid for by the byte.
fn print(out: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(text) => {
            budget::spend(text.len())?;
            out.write_str(text)
        }
        None => out.write_str(&python::str_of(value)?),
    };
    written.map_err(|_| Error::new(ErrorKind::WriteFailure, "the prompt could not be written"))
}

/// Python's `str`.
pub(super) fn text(value: &Value) -> Result<String, Error> {
    python::str_of(value)
}

/// The longest field, `%B`, has four and a half times the bytes that ask for it, and `%F` five.
const LONGEST_FIELD: usize = 5;

fn strftime_now(format: &Value) -> Result<String, Error> {
    let format = python::str_of(format)?;
    budget::spend(format.len().saturating_mul(LONGEST_FIELD))?;
    Ok(clock::strftime_now(&format))
}

/// A term that is added to markup: escaped unless it is markup itself.
fn markup(value: Value) -> Value {
    match value.as_str() {
        Some(text) if !value.is_safe() => {
            let mut out = String::with_capacity(text.len());
            for c in text.chars() {
                match c {
                    '&' => out.push_str("&amp;"),
                    '<' => out.push_str("&lt;"),
                    '>' => out.push_str("&gt;"),
                    '\'' => out.push_str("&#39;"),
                    '"' => out.push_str("&#34;"),
                    c => out.push(c),
                }
            }
            Value::from(out)
        }
        _ => value,
    }
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let message = python::str_of(message)?;
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

pub(super) fn join(value: &Value, joiner: Option<String>, rest: Rest<Value>) -> Result<String, Error> {
    let joiner = joiner.unwrap_or_default();
    // `join(joiner, attribute)`.
    let attribute = rest.first().and_then(Value::as_str);
    let mut out = String::new();
    for (i, item) in value.try_iter()?.enumerate() {
        let item = match attribute {
            Some(name) => item.get_attr(name)?,
            None => item,
        };
        let text = python::str_of(&item)?;
        budget::spend(joiner.len())?;
        if i > 0 {
            out.push_str(&joiner);
        }
        out.push_str(&text);
    }
    Ok(out)
}

pub(super) fn replace(value: &Value, from: String, to: String, count: Option<usize>) -> Result<String, Error> {
    let text = python::str_of(value)?;
    pay_for_replacing(&text, &from, &to)?;
    Ok(match count {
        Some(count) => text.replacen(&from, &to, count),
        None => text.replace(&from, &to),
    })
}

/// Replacing can multiply two lengths.
pub(super) fn pay_for_replacing(text: &str, from: &str, to: &str) -> Result<(), Error> {
    budget::spend(text.len().saturating_add(text.matches(from).count().saturating_mul(to.len())))
}

/// The widest indentation.
const MAX_INDENT: usize = 256;

pub(super) fn indent(
    text: &Value,
    width: Option<usize>,
    first: Option<bool>,
    kwargs: minijinja::value::Kwargs,
) -> Result<String, Error> {
    let text = python::str_of(text)?;
    let width = width.or(kwargs.get("width")?).unwrap_or(4);
    let first = first.or(kwargs.get("first")?).unwrap_or(false);
    let blank = kwargs.get::<Option<bool>>("blank")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    if width > MAX_INDENT {
        return Err(stopped("it indents too far"));
    }
    let lines = text.matches('\n').count() + 1;
    budget::spend(text.len() + lines * width)?;
    let margin = " ".repeat(width);
    let mut out = String::new();
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if if i == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&margin);
        }
        out.push_str(line);
    }
    Ok(out)
}
