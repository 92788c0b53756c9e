//! Split patterns to syntax trees: the part of Oniguruma's syntax that tokenizers use.

use super::set::CharSet;

/// A pattern's syntax tree. Earlier alternatives win, repeats prefer more.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Set(CharSet),
    Concat(Vec<Node>),
    Alternatives(Vec<Node>),
    /// At least `min`, at most `max` times.
    Repeat(Box<Node>, u32, Option<u32>),
    /// Holds where the next character is in the set, or at the end of the text where the flag says so.
    Ahead(CharSet, bool),
}

/// Repeats with larger bounds are refused: each is unrolled into states.
const MAX_REPEAT: u32 = 1024;
const MAX_DEPTH: usize = 32;
const MAX_PATTERN_BYTES: usize = 16 << 10;

pub(super) fn parse(pattern: &str) -> Result<Node, String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err("a pattern of more than 16 KiB".to_owned());
    }
    let mut parser = Parser { rest: pattern, ignore_case: false, depth: 0 };
    let node = parser.alternatives()?;
    if !parser.rest.is_empty() {
        return Err("an unmatched parenthesis".to_owned());
    }
    Ok(node)
}

struct Parser<'a> {
    rest: &'a str,
    ignore_case: bool,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn alternatives(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("groups nested too deeply".to_owned());
        }
        let mut branches = vec![self.concat()?];
        while self.eat("|") {
            branches.push(self.concat()?);
        }
        self.depth -= 1;
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Alternatives(branches) })
    }

    fn concat(&mut self) -> Result<Node, String> {
        let mut parts = Vec::new();
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            let atom = self.atom()?;
            parts.push(self.quantified(atom)?);
        }
        Ok(Node::Concat(parts))
    }

    fn atom(&mut self) -> Result<Node, String> {
        let Some(first) = self.rest.chars().next() else { return Err("an empty atom".to_owned()) };
        match first {
            '(' => self.group(),
            '[' => {
                let class = self.take_class()?;
                Ok(Node::Set(CharSet::parse(class, self.ignore_case)?))
            }
            '\\' => {
                let class = self.take_escape()?;
                Ok(Node::Set(CharSet::parse(class, self.ignore_case)?))
            }
            '$' => {
                self.rest = &self.rest[1..];
                Ok(Node::Ahead(CharSet::of_char('\n', false), true))
            }
            '.' => {
                self.rest = &self.rest[1..];
                Ok(Node::Set(CharSet::of_char('\n', false).complement()))
            }
            '^' | '*' | '+' | '?' => Err(format!("{first:?} here")),
            c => {
                self.rest = &self.rest[c.len_utf8()..];
                Ok(Node::Set(CharSet::of_char(c, self.ignore_case)))
            }
        }
    }

    fn group(&mut self) -> Result<Node, String> {
        let saved = self.ignore_case;
        let mut ahead = None;
        if self.eat("(?:") || self.eat("(?-i:") {
        } else if self.eat("(?i:") {
            self.ignore_case = true;
        } else if self.eat("(?!") {
            ahead = Some(false);
        } else if self.eat("(?=") {
            ahead = Some(true);
        } else if self.rest.starts_with("(?") {
            return Err("this kind of group".to_owned());
        } else {
            self.eat("(");
        }
        let node = self.alternatives()?;
        if !self.eat(")") {
            return Err("an unmatched parenthesis".to_owned());
        }
        self.ignore_case = saved;
        match ahead {
            None => Ok(node),
            Some(wanted) => match single_set(&node) {
                Some(set) if wanted => Ok(Node::Ahead(set.clone(), false)),
                Some(set) => Ok(Node::Ahead(set.complement(), true)),
                None => Err("look-ahead over more than one character".to_owned()),
            },
        }
    }

    fn quantified(&mut self, atom: Node) -> Result<Node, String> {
        let (min, max) = if self.eat("?") {
            (0, Some(1))
        } else if self.eat("*") {
            (0, None)
        } else if self.eat("+") {
            (1, None)
        } else if self.rest.starts_with('{') {
            self.bounds()?
        } else {
            return Ok(atom);
        };
        if matches!(atom, Node::Ahead(..)) {
            return Err("a repeated look-ahead".to_owned());
        }
        if self.eat("?") {
            return Err("a lazy repeat".to_owned());
        }
        if self.eat("+") { possessive(atom, min, max) } else { Ok(Node::Repeat(Box::new(atom), min, max)) }
    }

    fn bounds(&mut self) -> Result<(u32, Option<u32>), String> {
        let malformed = || "a malformed repeat".to_owned();
        let end = self.rest.find('}').ok_or_else(malformed)?;
        let inner = &self.rest[1..end];
        self.rest = &self.rest[end + 1..];
        let number = |text: &str| text.parse::<u32>().map_err(|_| malformed());
        let (min, max) = match inner.split_once(',') {
            None => (number(inner)?, Some(number(inner)?)),
            Some((min, "")) => (number(min)?, None),
            Some((min, max)) => (number(min)?, Some(number(max)?)),
        };
        if min > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT || max < min) {
            return Err("a repeat of more than 1024".to_owned());
        }
        Ok((min, max))
    }

    /// The text of the class that starts here, up to its closing bracket.
    fn take_class(&mut self) -> Result<&'a str, String> {
        let mut depth = 0usize;
        let mut escaped = false;
        for (i, c) in self.rest.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '[' => depth += 1,
                ']' => {
                    depth -= 1;
                    if depth == 0 {
                        let (class, rest) = self.rest.split_at(i + 1);
                        self.rest = rest;
                        return Ok(class);
                    }
                }
                _ => {}
            }
        }
        Err("an unmatched bracket".to_owned())
    }

    /// The text of the escape that starts here: a backslash, a letter and, for `\p` and `\x`, its braces.
    fn take_escape(&mut self) -> Result<&'a str, String> {
        let second = self.rest[1..].chars().next().ok_or("a pattern that ends in a backslash")?;
        if matches!(second, 'b' | 'B' | 'A' | 'z' | 'Z' | 'G' | 'K' | 'R' | 'X') || second.is_ascii_digit() {
            return Err(format!("\\{second}"));
        }
        let mut end = 1 + second.len_utf8();
        if self.rest[end..].starts_with('{') && matches!(second, 'p' | 'P' | 'x' | 'u') {
            end += self.rest[end..].find('}').ok_or("an unmatched brace")? + 1;
        } else if matches!(second, 'p' | 'P') {
            end += self.rest[end..].chars().next().map_or(0, char::len_utf8);
        }
        let (escape, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(escape)
    }
}

/// The set that `node` is, through groups and choices of single characters.
fn single_set(node: &Node) -> Option<&CharSet> {
    match node {
        Node::Set(set) => Some(set),
        Node::Concat(parts) if parts.len() == 1 => single_set(&parts[0]),
        _ => None,
    }
}

/// A repeat that gives nothing back. Over a single character that is what a greedy repeat is, when it may stop only
/// where the next character could not continue it.
fn possessive(atom: Node, min: u32, max: Option<u32>) -> Result<Node, String> {
    let Some(set) = single_set(&atom).cloned() else {
        return Err("a possessive repeat of more than one character".to_owned());
    };
    let stop = Node::Ahead(set.complement(), true);
    let atom = Box::new(Node::Set(set));
    Ok(match max {
        None => Node::Concat(vec![Node::Repeat(atom, min, None), stop]),
        Some(max) if max == min => Node::Repeat(atom, min, Some(max)),
        Some(max) => Node::Alternatives(vec![
            Node::Repeat(atom.clone(), max, Some(max)),
            Node::Concat(vec![Node::Repeat(atom, min, Some(max - 1)), stop]),
        ]),
    })
}
