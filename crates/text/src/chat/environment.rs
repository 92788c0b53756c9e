//! The template engine set up as transformers sets up Jinja: trimmed blocks, Python's methods and formatting, and limits.

use std::fmt;

use minijinja::value::{Rest, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::budget::{self, COUNT, COUNT_ALL, KEEP, MARKUP, NUMBER, REPEAT, TEXT, TICK, TOO_MUCH_TEXT, stopped};
use super::{clock, python};

/// Steps that one rendering may take; a conversation of a thousand turns takes under a million.
const STEPS: u64 = 10_000_000;
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

pub(super) fn build() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_keep_trailing_newline(false);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(STEPS));
    environment.set_recursion_limit(RECURSION);
    environment.set_formatter(print);
    environment.set_unknown_method_callback(method);

    environment.add_filter(COUNT, budget::count);
    environment.add_filter(COUNT_ALL, budget::count_all);
    environment.add_filter(REPEAT, budget::repeat);
    environment.add_filter(NUMBER, budget::number);
    environment.add_filter(TEXT, text);
    environment.add_filter(KEEP, budget::keep);
    environment.add_filter(MARKUP, markup);
    environment.add_function(TICK, budget::tick);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", |format: String| clock::strftime_now(&format));
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("string", text);
    environment.add_filter("join", join);
    environment.add_filter("replace", replace);
    environment.add_filter("indent", indent);
    // Padding by a number that the template chooses; no chat template needs them.
    for name in ["batch", "slice", "format", "pprint"] {
        environment.remove_filter(name);
    }

    // Jinja asks Python, for which texts and dictionaries are sequences too.
    let iterates = |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::Undefined
        )
    };
    environment.add_test("sequence", iterates);
    environment.add_test("iterable", iterates);
    environment
}

/// `{{ value }}`: what Python's `str` gives, paid for by the byte.
fn print(out: &mut Output<'_>, state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let budget = budget::of(state)?;
    let written = match value.as_str() {
        Some(text) => {
            budget.spend(text.len())?;
            out.write_str(text)
        }
        None => out.write_str(&python::str_of(value, &budget)?),
    };
    written.map_err(|_| Error::new(ErrorKind::WriteFailure, "the prompt could not be written"))
}

/// Python's `str`.
fn text(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    python::str_of(value, &*budget::of(state)?)
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

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

fn join(state: &State<'_, '_>, value: &Value, joiner: Option<String>, rest: Rest<Value>) -> Result<String, Error> {
    let joiner = joiner.unwrap_or_default();
    let budget = budget::of(state)?;
    // `join(joiner, attribute)`.
    let attribute = rest.first().and_then(Value::as_str);
    let mut out = String::new();
    for (i, item) in value.try_iter()?.enumerate() {
        let item = match attribute {
            Some(name) => item.get_attr(name)?,
            None => item,
        };
        let text = python::str_of(&item, &budget)?;
        budget.spend(joiner.len())?;
        if i > 0 {
            out.push_str(&joiner);
        }
        out.push_str(&text);
    }
    Ok(out)
}

fn replace(
    state: &State<'_, '_>,
    value: &Value,
    from: String,
    to: String,
    count: Option<usize>,
) -> Result<String, Error> {
    let text = python::str_of(value, &*budget::of(state)?)?;
    pay_for_replacing(state, &text, &from, &to)?;
    Ok(match count {
        Some(count) => text.replacen(&from, &to, count),
        None => text.replace(&from, &to),
    })
}

/// Replacing can multiply two lengths.
fn pay_for_replacing(state: &State<'_, '_>, text: &str, from: &str, to: &str) -> Result<(), Error> {
    budget::of(state)?.spend(text.len().saturating_add(text.matches(from).count().saturating_mul(to.len())))
}

/// The widest indentation.
const MAX_INDENT: usize = 256;

fn indent(
    state: &State<'_, '_>,
    text: String,
    width: Option<usize>,
    first: Option<bool>,
    kwargs: minijinja::value::Kwargs,
) -> Result<String, Error> {
    let width = width.or(kwargs.get("width")?).unwrap_or(4);
    let first = first.or(kwargs.get("first")?).unwrap_or(false);
    let blank = kwargs.get::<Option<bool>>("blank")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    if width > MAX_INDENT {
        return Err(stopped(TOO_MUCH_TEXT));
    }
    let lines = text.matches('\n').count() + 1;
    budget::of(state)?.spend(text.len() + lines * width)?;
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

/// Python's methods on values that have none of their own.
fn method(state: &State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let budget = budget::of(state)?;
    match (value.as_str(), name) {
        (Some(text), "replace") => {
            if let [from, to, ..] = args
                && let (Some(from), Some(to)) = (from.as_str(), to.as_str())
            {
                pay_for_replacing(state, text, from, to)?;
            }
        }
        (Some(joiner), "join") => {
            let [items] = args else { return Err(Error::new(ErrorKind::InvalidOperation, "join takes one list")) };
            return join(state, items, Some(joiner.to_owned()), Rest(Vec::new())).map(Value::from);
        }
        (Some(format), "format") => {
            // A width or a precision of many digits asks for that much padding.
            let numbers = format.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
            let widest = numbers.map(|run| run.parse().unwrap_or(usize::MAX)).max().unwrap_or(0);
            let mut longest = 0;
            for arg in args {
                longest = longest.max(python::str_of(arg, &budget)?.len());
            }
            let fields = format.matches('{').count();
            budget.spend(format.len().saturating_add(fields.saturating_mul(widest.saturating_add(longest))))?;
        }
        (Some(text), _) => budget.spend(text.len())?,
        _ => {}
    }
    unknown_method_callback(state, value, name, args)
}
