//! Grammars as parts of a larger one, in the Lark dialect of the library that matches.

use akunu_limits::Limits;

use super::Grammar;
use crate::Error;

/// The right side of a rule that a grammar is.
#[cfg(feature = "grammar")]
pub fn lark_of(grammar: &Grammar, within: &Limits) -> Result<String, Error> {
    use super::{gbnf, limits, matching};
    limits::check(grammar, within)?;
    Ok(match grammar {
        Grammar::Json => format!("%json {}", matching::styled(serde_json::json!({ "type": "object" }))),
        Grammar::JsonSchema(text) => {
            format!("%json {}", matching::styled(limits::schema(text).map_err(Error::Grammar)?))
        }
        Grammar::Regex(text) => format!("/{}/", regex_literal(text)),
        Grammar::Lark(text) => format!("%lark {{\n{text}\n}}"),
        Grammar::Gbnf(text) => format!("%lark {{\n{}\n}}", gbnf::to_lark(text).map_err(Error::Grammar)?),
    })
}

/// Errs where a schema is too large.
#[cfg(feature = "grammar")]
pub fn schema_within_limits(text: &str) -> Result<(), String> {
    super::limits::schema(text).map(drop)
}

#[cfg(not(feature = "grammar"))]
pub fn lark_of(_: &Grammar, _: &Limits) -> Result<String, Error> {
    Err(Error::Grammar(super::matching::ABSENT.to_owned()))
}

#[cfg(not(feature = "grammar"))]
pub fn schema_within_limits(_: &str) -> Result<(), String> {
    Err(super::matching::ABSENT.to_owned())
}

/// A regular expression between slashes.
pub fn regex_literal(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut escaped = false;
    for c in pattern.chars() {
        match c {
            '/' if !escaped => out.push_str("\\/"),
            '\n' => out.push_str(if escaped { "n" } else { "\\n" }),
            _ => out.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    out
}
