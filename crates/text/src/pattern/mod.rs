//! Split patterns: the regular expressions that pre-tokenizers are written in, compiled to a deterministic automaton.
//!
//! Vocabularies name their splitting rule by a regular expression, with one-character look-ahead and possessive repeats
//! that engines without backtracking refuse. Both are regular: the automaton here decides them with the next character
//! in hand, so that a match costs one table look-up per character. What an attempt to match read in vain is not read again.

mod dfa;
mod parse;
mod scan;
mod set;

pub(crate) use dfa::Pattern;
pub(crate) use scan::Scan;
pub(crate) use set::{CharSet, ClassMap};
