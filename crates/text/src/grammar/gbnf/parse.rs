//! Reading GBNF.

use super::{DEEPEST, Node};
use crate::error::excerpt;
use std::collections::HashMap;
use std::sync::Arc;

/// A repetition is written out by those who match it.
const MOST_REPEATS: usize = 10_000;
/// Counted repetitions of one repetition, at most.
const MOST_NESTED: usize = 8;

#[derive(Default)]
pub struct Rules {
    pub names: HashMap<String, usize>,
    /// `None` where a rule is only named.
    pub bodies: Vec<Option<Node>>,
}

/// The rules of a grammar.
pub fn rules(text: &str) -> Result<Rules, String> {
    Parser { text, rest: text.char_indices().peekable(), rules: Rules::default(), depth: 0 }.grammar()
}

struct Parser<'a> {
    text: &'a str,
    rest: std::iter::Peekable<std::str::CharIndices<'a>>,
    rules: Rules,
    depth: usize,
}

impl Parser<'_> {
    fn error<T>(&mut self, what: impl Into<String>) -> Result<T, String> {
        let at = self.rest.peek().map_or(self.text.len(), |c| c.0);
        let line = self.text[..at].matches('\n').count() + 1;
        Err(format!("line {line}: {}", what.into()))
    }

    fn peek(&mut self) -> Option<char> {
        self.rest.peek().map(|c| c.1)
    }

    fn take(&mut self) -> Option<char> {
        self.rest.next().map(|c| c.1)
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let at = self.rest.peek().map_or(self.text.len(), |c| c.0);
        let found = self.text[at..].starts_with(wanted);
        if found {
            self.rest.by_ref().take(wanted.chars().count()).for_each(|_| ());
        }
        found
    }

    /// Skips spaces and comments, and newlines where a rule cannot end.
    fn space(&mut self, newlines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => {}
                '\n' | '\r' if newlines => {}
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n' && c != '\r') {
                        self.take();
                    }
                    continue;
                }
                _ => return,
            }
            self.take();
        }
    }

    fn grammar(mut self) -> Result<Rules, String> {
        self.space(true);
        while self.peek().is_some() {
            let name = self.name()?;
            self.space(false);
            if !self.eat("::=") {
                return self.error(format!("after the name {} a ::= is needed", excerpt(&name)));
            }
            self.space(true);
            let body = self.either(false)?;
            let id = self.id(&name);
            if self.rules.bodies[id].replace(body).is_some() {
                return self.error(format!("the rule {} is there twice", excerpt(&name)));
            }
            if !matches!(self.peek(), None | Some('\n' | '\r')) {
                return self.error("the end of the rule is needed");
            }
            self.space(true);
        }
        Ok(self.rules)
    }

    fn id(&mut self, name: &str) -> usize {
        let next = self.rules.bodies.len();
        let id = *self.rules.names.entry(name.to_owned()).or_insert(next);
        if id == next {
            self.rules.bodies.push(None);
        }
        id
    }

    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            name.push(c);
            self.take();
        }
        if name.is_empty() { self.error("a rule's name is needed") } else { Ok(name) }
    }

    fn either(&mut self, nested: bool) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.error("groups are nested too deeply");
        }
        let mut choices = vec![self.sequence(nested)?];
        while self.eat("|") {
            self.space(true);
            choices.push(self.sequence(nested)?);
        }
        self.depth -= 1;
        Ok(if choices.len() == 1 { choices.remove(0) } else { Node::Either(choices) })
    }

    fn sequence(&mut self, nested: bool) -> Result<Node, String> {
        let mut nodes = Vec::new();
        loop {
            let node = match self.peek() {
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.take();
                    Node::Any
                }
                Some('(') => {
                    self.take();
                    self.space(true);
                    let node = self.either(true)?;
                    if !self.eat(")") {
                        return self.error("a group is not closed");
                    }
                    node
                }
                Some(c) if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') => {
                    let name = self.name()?;
                    Node::Rule(self.id(&name))
                }
                Some(c @ ('<' | '!')) => return self.error(format!("not supported: tokens by name ({c})")),
                _ => break,
            };
            let node = self.repeated(node)?;
            nodes.push(node);
            self.space(nested);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Sequence(nodes) })
    }

    fn repeated(&mut self, mut node: Node) -> Result<Node, String> {
        let mut nested = 0;
        loop {
            let (least, most) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => {
                    self.take();
                    let least = self.number()?;
                    let most = if self.eat(",") {
                        if self.peek() == Some('}') { None } else { self.number()? }
                    } else {
                        least
                    };
                    if self.peek() != Some('}') {
                        return self.error("a repetition is not closed");
                    }
                    (least.unwrap_or(0), most)
                }
                _ => return Ok(node),
            };
            self.take();
            if most.is_some_and(|most| most < least || most > MOST_REPEATS) || least > MOST_REPEATS {
                return self.error(format!(
                    "a repetition has more than {MOST_REPEATS} times, or its ends the wrong way round"
                ));
            }
            let simple = |least: usize, most: Option<usize>| least <= 1 && most.is_none_or(|most| most == 1);
            node = match node {
                // `?`, `*` and `+` of each other are one of them.
                Node::Repeat(inner, first, last) if simple(first, last) && simple(least, most) => {
                    Node::Repeat(inner, first * least, last.and(most))
                }
                node => {
                    nested += 1;
                    if nested > MOST_NESTED {
                        return self.error("repetitions are nested too deeply");
                    }
                    Node::Repeat(Box::new(node), least, most)
                }
            };
        }
    }

    fn number(&mut self) -> Result<Option<usize>, String> {
        let mut digits = String::new();
        self.space(false);
        while let Some(c) = self.peek().filter(char::is_ascii_digit) {
            digits.push(c);
            self.take();
        }
        self.space(false);
        match digits.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) if digits.is_empty() && self.peek() == Some(',') => Ok(None),
            Err(_) => self.error("a number of repetitions is needed"),
        }
    }

    fn literal(&mut self) -> Result<Node, String> {
        self.take();
        let mut text = String::new();
        loop {
            match self.peek() {
                None | Some('\n' | '\r') => return self.error("a literal is not closed"),
                Some('"') => {
                    self.take();
                    return Ok(Node::Text(text));
                }
                Some(_) => text.push(self.character()?),
            }
        }
    }

    fn class(&mut self) -> Result<Node, String> {
        self.take();
        let negated = self.eat("^");
        let mut ranges = Vec::new();
        loop {
            match self.peek() {
                None | Some('\n' | '\r') => return self.error("a class is not closed"),
                Some(']') => {
                    self.take();
                    return Ok(Node::Class(apart(ranges), negated));
                }
                Some(_) => {
                    let first = self.character()?;
                    let at = self.rest.peek().map_or(self.text.len(), |c| c.0);
                    let ranged = self.text[at..].starts_with('-') && !self.text[at..].starts_with("-]");
                    let last = if ranged {
                        self.take();
                        self.character()?
                    } else {
                        first
                    };
                    if last < first {
                        return self.error(format!("the range {first:?} to {last:?} is the wrong way round"));
                    }
                    ranges.push((first, last));
                }
            }
        }
    }

    /// One character of a literal or class, which may be escaped.
    fn character(&mut self) -> Result<char, String> {
        let Some(c) = self.take() else { return self.error("a character is needed") };
        if c != '\\' {
            return Ok(c);
        }
        let digits = match self.take() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(c @ ('"' | '\\' | '[' | ']' | '-' | '^' | '/')) => return Ok(c),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            other => return self.error(format!("the escape {other:?} is not known")),
        };
        let mut value: u32 = 0;
        for _ in 0..digits {
            let Some(digit) = self.take().and_then(|c| c.to_digit(16)) else {
                return self.error(format!("{digits} hexadecimal digits are needed"));
            };
            value = value.wrapping_mul(16).wrapping_add(digit);
        }
        match char::from_u32(value) {
            Some(c) => Ok(c),
            None => self.error(format!("U+{value:X} is not a character")),
        }
    }
}

/// Ranges in order, those that touch made one.
fn apart(mut ranges: Vec<(char, char)>) -> Arc<[(char, char)]> {
    ranges.sort_unstable();
    let mut out: Vec<(char, char)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match out.last_mut() {
            Some((_, end)) if u32::from(first) <= u32::from(*end) + 1 => *end = last.max(*end),
            _ => out.push((first, last)),
        }
    }
    out.into()
}
