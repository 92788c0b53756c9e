//! Grammars: which tokens may come next so that a text keeps to a form. GBNF is translated into the language of the library
//! that matches.

#[cfg(feature = "grammar")]
mod gbnf;
mod lark;
#[cfg(feature = "grammar")]
mod limits;
#[cfg_attr(not(feature = "grammar"), path = "absent.rs")]
mod matching;

pub(crate) use lark::{lark_of, regex_literal, schema_within_limits};
pub use matching::{Grammars, Matcher};

/// White space between the parts of JSON: a space, or a line with its indentation; not without end, for models that stray.
pub(crate) const WHITE_SPACE: &str = r"\x20|\x0D?\x0A[\x20\x09]{0,16}";
/// Where a schema says how it is to be written.
pub(crate) const STYLE: &str = "x-guidance";

/// The form that a text must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grammar {
    /// Any JSON object.
    Json,
    /// JSON that a JSON Schema (Draft 2020-12) describes; keywords that cannot be kept are an error that names them.
    JsonSchema(String),
    /// Text that a regular expression matches as a whole.
    Regex(String),
    /// A grammar in the Lark dialect of `llguidance`.
    Lark(String),
    /// A grammar as llama.cpp writes them.
    Gbnf(String),
}
