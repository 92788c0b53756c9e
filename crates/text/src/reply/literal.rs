//! Fixed text of a format, in which the vocabulary's special tokens are tokens and not text.

use std::fmt::Write;

use crate::Tokenizer;

/// Around a special token's text: characters that Unicode keeps free for such uses, and that no text can have here.
pub const TOKEN_BEGINS: char = '\u{FDD0}';
pub const TOKEN_ENDS: char = '\u{FDD1}';
/// In a literal: an id that the model makes up for its call.
pub const ID: char = '\u{FDD2}';
/// Letters and digits of such an id.
const MOST_ID: usize = 9;

/// `text` without the characters that mark tokens.
pub fn unmarked(text: &str) -> String {
    text.replace([TOKEN_BEGINS, TOKEN_ENDS, ID], "\u{FFFD}")
}

/// A special token, as the reader sees it.
pub fn marked_token(text: &str) -> String {
    format!("{TOKEN_BEGINS}{text}{TOKEN_ENDS}")
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Atom {
    Text(String),
    Token { id: u32, text: String },
}

/// Text and special tokens, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Literal(Vec<Atom>);

impl Literal {
    pub fn new(text: &str, tokenizer: &Tokenizer) -> Self {
        let mut atoms = Vec::new();
        tokenizer.cut_at_added(text, |part, id| {
            let special = id.filter(|id| tokenizer.is_special(*id));
            match (special, atoms.last_mut()) {
                (Some(id), _) => atoms.push(Atom::Token { id, text: part.to_owned() }),
                (None, Some(Atom::Text(last))) => last.push_str(part),
                (None, _) => atoms.push(Atom::Text(part.to_owned())),
            }
        });
        Literal(atoms)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Without the white space, special tokens marked: what the reader compares.
    pub fn marked(&self) -> Vec<char> {
        self.exact().into_iter().filter(|c| !c.is_whitespace()).collect()
    }

    /// As [`Self::marked`], with its white space.
    pub fn exact(&self) -> Vec<char> {
        let mut out = String::new();
        for atom in &self.0 {
            match atom {
                Atom::Text(text) => out.push_str(text),
                Atom::Token { text, .. } => out.push_str(&marked_token(text)),
            }
        }
        out.chars().collect()
    }

    pub fn begins_with_break(&self) -> bool {
        matches!(self.0.first(), Some(Atom::Text(text)) if text.starts_with('\n'))
    }

    pub fn ends_in_break(&self) -> bool {
        matches!(self.0.last(), Some(Atom::Text(text)) if text.ends_with('\n'))
    }

    pub fn ends_in_space(&self) -> bool {
        matches!(self.0.last(), Some(Atom::Text(text)) if text.ends_with(char::is_whitespace))
    }

    /// What cannot be mistaken for text: the special token that it begins with, or its first word; and the rest.
    pub fn split_marker(&self) -> (Literal, Literal) {
        let mut rest = self.0.clone();
        match self.0.first() {
            Some(Atom::Token { .. }) => (Literal(vec![rest.remove(0)]), Literal(rest)),
            Some(Atom::Text(text)) => {
                let start = text.len() - text.trim_start().len();
                let bracket = text[start..].find(['>', ']']).map(|at| at + 1);
                let space = text[start..].find(char::is_whitespace);
                let end = start + bracket.into_iter().chain(space).min().unwrap_or(text.len() - start);
                rest[0] = Atom::Text(text[end..].to_owned());
                rest.retain(|atom| !matches!(atom, Atom::Text(text) if text.is_empty()));
                (Literal(vec![Atom::Text(text[start..end].to_owned())]), Literal(rest))
            }
            None => Default::default(),
        }
    }

    /// What comes before the first token, and the rest.
    pub fn split_at_token(&self) -> (Literal, Literal) {
        let token = self.0.iter().position(|atom| matches!(atom, Atom::Token { .. })).unwrap_or(self.0.len());
        let (before, rest) = self.0.split_at(token);
        (Literal(before.to_vec()), Literal(rest.to_vec()))
    }

    /// The text, where it is nothing else.
    pub fn text(&self) -> Option<&str> {
        match &self.0[..] {
            [Atom::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub fn then(&self, text: &str) -> Literal {
        let mut atoms = self.0.clone();
        match atoms.last_mut() {
            Some(Atom::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => atoms.push(Atom::Text(text.to_owned())),
        }
        Literal(atoms)
    }

    pub fn followed_by(&self, other: &Literal) -> Literal {
        let mut all = self.clone();
        for atom in &other.0 {
            match atom {
                Atom::Text(text) => all = all.then(text),
                token => all.0.push(token.clone()),
            }
        }
        all
    }

    /// In the language of grammars.
    pub fn lark(&self) -> String {
        let mut out = String::new();
        for atom in &self.0 {
            match atom {
                Atom::Token { id, .. } => {
                    let _ = write!(out, "<[{id}]> ");
                }
                Atom::Text(text) => {
                    for (number, part) in text.split(ID).enumerate() {
                        if number > 0 {
                            let _ = write!(out, "/[a-zA-Z0-9]{{1,{MOST_ID}}}/ ");
                        }
                        if !part.is_empty() {
                            out.push_str(&quoted(part));
                            out.push(' ');
                        }
                    }
                }
            }
        }
        out
    }
}

/// A string of the grammars' language, which has JSON's.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
