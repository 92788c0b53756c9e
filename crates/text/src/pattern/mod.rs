//! Split patterns: the regular expressions that pre-tokenizers are written in, compiled to a deterministic automaton.
//!
//! Vocabularies name their splitting rule by a regular expression, with one-character look-ahead and possessive repeats
//! that engines without backtracking refuse. Both are regular: the automaton here decides them with the next character
//! in hand, so that a match costs one table look-up per character and no text can make it slow.

mod dfa;
mod parse;
mod set;

pub(crate) use dfa::Pattern;
pub(crate) use set::{CharSet, ClassMap};
