//! What untrusted input may cost: one struct of bounds on bytes, counts and steps, carried by value to wherever something is
//! read. Real models, texts and recordings stay far below the defaults.
//!
//! Bounds that a format sets itself, and those that keep a stack or a dependency's counters whole, are constants where they
//! are checked.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::error::Error;
use std::fmt;

macro_rules! limits {
    ($($(#[doc = $help:literal])+ $field:ident = $default:expr;)+) => {
        /// What untrusted input may cost. Reaching one of these is an error with [`Over`] among its causes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Limits {
            $($(#[doc = $help])+ pub $field: u64,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl Limits {
            /// All of them with their values here.
            pub fn list(&self) -> Vec<Limit> {
                vec![$(Limit { name: name(stringify!($field)), help: concat!($($help),+).trim(), value: self.$field },)+]
            }

            fn field(&mut self, named: &str) -> Option<&mut u64> {
                match () {
                    $(() if named == name(stringify!($field)) => Some(&mut self.$field),)+
                    () => None,
                }
            }
        }
    };
}

limits! {
    /// Bytes of a model's `config.json`
    config_bytes = 4 << 20;
    /// Values in a model's `config.json`, which take up to 500 bytes of memory each
    config_values = 60_000;
    /// Bytes of the list of a model's shards
    index_bytes = 32 << 20;
    /// Bytes of any other file beside the weights, such as `tokenizer.json`
    side_file_bytes = 256 << 20;
    /// Tensors of a model
    tensors = 1 << 17;
    /// Tokens of a vocabulary
    tokens = 1 << 22;
    /// Bytes of all tokens that are looked for in a text before it is split, such as special ones
    added_token_bytes = 4 << 20;
    /// Steps of a tokenizer for each byte of a text
    tokenizer_steps = 64;
    /// Bytes of a chat template
    template_bytes = 1 << 20;
    /// Steps of a chat template over one conversation
    template_steps = 5_000_000;
    /// Bytes that a chat template may make or look at, beyond 64 for each of the conversation's
    template_text_bytes = 64 << 20;
    /// Bytes of a grammar
    grammar_bytes = 1 << 20;
    /// Bytes of a JSON schema
    schema_bytes = 4 << 20;
    /// Steps of compiling a grammar
    grammar_compile_steps = 1_000_000;
    /// Steps of a grammar for each token
    grammar_token_steps = 200_000;
    /// States of a grammar, which have 1 to 2 kB each
    grammar_states = 250_000;
    /// Seconds of a recording
    audio_seconds = 24 * 3600;
    /// Tokens of a session file
    session_tokens = 1 << 24;
    /// Bytes of a text from a file or from standard input
    text_bytes = 1 << 30;
}

/// The name of a limit as people write it.
fn name(field: &str) -> String {
    field.replace('_', "-")
}

/// One of [`Limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What [`Limits::set`] calls it.
    pub name: String,
    /// What it bounds.
    pub help: &'static str,
    /// The most that is accepted.
    pub value: u64,
}

impl Limits {
    /// Sets the limit of that name: `template-steps`.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), UnknownLimit> {
        let field = self.field(name).ok_or_else(|| UnknownLimit(name.chars().take(LONGEST_NAME).collect()))?;
        *field = value;
        Ok(())
    }
}

/// Characters of a name that no limit has, in a message.
const LONGEST_NAME: usize = 30;

/// A name that no limit has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLimit(String);

impl fmt::Display for UnknownLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = Limits::default().list().into_iter().map(|limit| limit.name).collect();
        write!(f, "there is no limit called {:?}, only {}", self.0, names.join(", "))
    }
}

impl Error for UnknownLimit {}

/// The limit that something is over; made by [`over!`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    field: &'static str,
    /// The most that would have been accepted.
    pub most: u64,
}

impl Over {
    #[doc(hidden)]
    pub const fn new(field: &'static str, most: u64) -> Self {
        Self { field, most }
    }

    /// What [`Limits::set`] calls it.
    pub fn name(&self) -> String {
        name(self.field)
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the limit {} of {}", self.name(), self.most)
    }
}

impl Error for Over {}

/// The [`Over`] of a field of some [`Limits`]: `over!(limits, template_steps)`.
#[macro_export]
macro_rules! over {
    ($limits:expr, $field:ident) => {
        $crate::Over::new(stringify!($field), $limits.$field)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_set_by_its_name_and_only_it() {
        let defaults = Limits::default().list();
        for (i, limit) in defaults.iter().enumerate() {
            let mut limits = Limits::default();
            limits.set(&limit.name, 7).unwrap();
            for (j, (set, default)) in limits.list().iter().zip(&defaults).enumerate() {
                assert_eq!(set.value, if i == j { 7 } else { default.value }, "{}: {}", limit.name, set.name);
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_there_are() {
        let error = Limits::default().set("template_steps", 1).unwrap_err().to_string();
        assert!(error.contains("\"template_steps\"") && error.contains("template-steps, "), "{error}");
    }

    #[test]
    fn what_is_over_a_limit_names_it() {
        let limits = Limits { template_steps: 9, ..Limits::default() };
        assert_eq!(over!(limits, template_steps).to_string(), "the limit template-steps of 9");
    }
}
