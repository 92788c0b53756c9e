//! Tokens that are found in the text before anything else happens to it: special tokens and user-defined ones.

use std::sync::OnceLock;

use akunu_limits::Limits;

use crate::budget::Spent;
use crate::error::Error;
use crate::matcher::Matcher;
use crate::pattern::{CharSet, ClassMap};

/// A token that is matched as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Added {
    pub id: u32,
    pub text: String,
    /// Matched only where the caller asks for special tokens.
    pub special: bool,
    /// Takes the white space before it along.
    pub lstrip: bool,
    /// Takes the white space after it along.
    pub rstrip: bool,
    /// Matched only where no word character touches it.
    pub single_word: bool,
}

pub(crate) struct AddedTokens {
    tokens: Vec<Added>,
    matcher: Matcher,
}

/// A piece of a text cut at added tokens.
pub(crate) enum Fragment<'t> {
    Text(&'t str),
    Token(u32),
}

impl AddedTokens {
    pub fn new(tokens: Vec<Added>, limits: &Limits) -> Result<Self, Error> {
        let matcher = Matcher::new(tokens.iter().map(|t| t.text.as_bytes()), limits)?;
        Ok(AddedTokens { tokens, matcher })
    }

    /// Gives `sink` the fragments of `text` in order; texts are not empty.
    pub fn split<'t>(
        &self,
        text: &'t str,
        parse_special: bool,
        mut sink: impl FnMut(Fragment<'t>) -> Result<(), Spent>,
    ) -> Result<(), Spent> {
        let mut from = 0; // What lies before is given to `sink`.
        let mut space_end = 0; // The end of the last white space that a token took along.
        for (mut start, mut end, number) in self.matcher.matches(text.as_bytes()) {
            let token = &self.tokens[number];
            if token.special && !parse_special {
                continue;
            }
            if token.single_word && (ends_in_word(&text[..start]) || starts_with_word(&text[end..])) {
                continue;
            }
            if token.lstrip && from < start {
                start = from + text[from..start].trim_end().len();
            }
            if token.rstrip {
                // Tokens that are white space are found in what the one before took along: its end is known.
                if space_end < end {
                    space_end = text.len() - text[end..].trim_start().len();
                }
                end = space_end;
            }
            if from < start {
                sink(Fragment::Text(&text[from..start]))?;
            }
            sink(Fragment::Token(token.id))?;
            from = end;
        }
        if from < text.len() {
            sink(Fragment::Text(&text[from..]))?;
        }
        Ok(())
    }
}

/// Whether `c` is part of a word, as regular expressions see it.
fn is_word(c: char) -> bool {
    static WORD: OnceLock<ClassMap> = OnceLock::new();
    let classes = WORD.get_or_init(|| {
        // Cannot fail: one fixed class. Without it nothing is a word.
        let set = CharSet::parse(r"\w", false).ok();
        set.and_then(|set| ClassMap::new(&[set]).ok()).unwrap_or_else(ClassMap::trivial)
    });
    classes.in_set(classes.class_of(c) as usize, 0)
}

fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word)
}

fn starts_with_word(text: &str) -> bool {
    text.chars().next().is_some_and(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(tokens: &[(&str, &str)], text: &str, parse_special: bool) -> String {
        let tokens = tokens
            .iter()
            .enumerate()
            .map(|(i, (text, flags))| Added {
                id: i as u32,
                text: (*text).to_owned(),
                special: flags.contains('s'),
                lstrip: flags.contains('l'),
                rstrip: flags.contains('r'),
                single_word: flags.contains('w'),
            })
            .collect();
        let mut shown = String::new();
        let show = |fragment: Fragment<'_>| {
            match fragment {
                Fragment::Text(text) => shown.push_str(&format!("[{text}]")),
                Fragment::Token(id) => shown.push_str(&format!("<{id}>")),
            }
            Ok(())
        };
        AddedTokens::new(tokens, &Limits::default()).unwrap().split(text, parse_special, show).unwrap();
        shown
    }

    #[test]
    fn strip_word_and_special_rules() {
        for (flags, text, expected) in [
            ("", "a <x> b", "[a ]<0>[ b]"),
            ("l", "a <x> b", "[a]<0>[ b]"),
            ("r", "a <x> \n b", "[a ]<0>[b]"),
            ("lr", " <x> ", "<0>"),
            ("w", "a<x> <x>", "[a<x> ]<0>"),
            ("w", "<x>1", "[<x>1]"),
            ("r", "<x>  <x>", "<0><0>"),
            ("", "<x><x>", "<0><0>"),
        ] {
            assert_eq!(show(&[("<x>", flags)], text, true), expected, "{flags:?} on {text:?}");
        }
        assert_eq!(show(&[("<x>", "s")], "a<x>", false), "[a<x>]");
        assert_eq!(show(&[("<x>", "s")], "a<x>", true), "[a]<0>");
        assert_eq!(show(&[], "a", true), "[a]");
        assert_eq!(show(&[("<x>", "")], "", true), "");
    }
}
