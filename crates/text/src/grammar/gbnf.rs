//! GBNF, the grammar language of llama.cpp, translated into the Lark dialect of `llguidance`.
//!
//! GBNF has no lexer: every character is a symbol. Rules that lead back to themselves become rules; everything else is
//! regular, and what is regular in a row becomes one terminal with one regular expression, where nothing depends on how a
//! lexer would cut. Only where a regular part meets a recursive one it ends as late as it can.

use super::gbnf_parse;
use std::fmt::Write;

/// Nested groups and rules that are expanded, at most.
pub const DEEPEST: usize = 200;
/// Nodes that are written, at most: what a grammar expands to can be much longer than itself.
const LONGEST: usize = 1 << 18;

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A literal.
    Text(String),
    /// A class of characters: ranges, and whether they are the ones that do not match.
    Class(Vec<(char, char)>, bool),
    Any,
    Rule(usize),
    Sequence(Vec<Node>),
    Either(Vec<Node>),
    /// Between so many times.
    Repeat(Box<Node>, usize, Option<usize>),
}

/// The Lark grammar for a GBNF one.
pub fn to_lark(text: &str) -> Result<String, String> {
    let rules = gbnf_parse::rules(text)?;
    let root = *rules.names.get("root").ok_or("there is no rule called root")?;
    if let Some((name, _)) = rules.names.iter().find(|(_, id)| rules.bodies[**id].is_none()) {
        return Err(format!("there is no rule called {name}"));
    }
    let bodies: Vec<Node> = rules.bodies.into_iter().flatten().collect();
    let recursive = recursive(&bodies);
    let empty = empty(&bodies);
    let (lark, terminals) = (String::new(), Vec::new());
    let mut out = Writer { bodies: &bodies, recursive: &recursive, empty: &empty, lark, terminals, budget: LONGEST };
    let start = out.rule(&Node::Rule(root))?;
    writeln!(out.lark, "start: {start}").map_err(|e| e.to_string())?;
    for (id, body) in bodies.iter().enumerate().filter(|(id, _)| recursive[*id]) {
        let body = out.rule(body)?;
        writeln!(out.lark, "r{id}: {body}").map_err(|e| e.to_string())?;
    }
    for (id, regex) in out.terminals.iter().enumerate() {
        // Terminals must not be empty: where one may be, it is optional in its rule.
        writeln!(out.lark, "T{id}: /{regex}/ & /(?s:.)+/").map_err(|e| e.to_string())?;
    }
    Ok(out.lark)
}

/// Which rules lead back to a recursive one, or to themselves.
fn recursive(bodies: &[Node]) -> Vec<bool> {
    fn calls(node: &Node, out: &mut Vec<usize>) {
        match node {
            Node::Rule(id) => out.push(*id),
            Node::Sequence(nodes) | Node::Either(nodes) => nodes.iter().for_each(|n| calls(n, out)),
            Node::Repeat(node, ..) => calls(node, out),
            Node::Text(_) | Node::Class(..) | Node::Any => {}
        }
    }
    let calls: Vec<Vec<usize>> = bodies
        .iter()
        .map(|body| {
            let mut out = Vec::new();
            calls(body, &mut out);
            out
        })
        .collect();
    // A rule is regular once all it calls is: what never becomes regular is recursive, or leads to such.
    let mut regular = vec![false; bodies.len()];
    loop {
        let before = regular.iter().filter(|r| **r).count();
        for id in 0..bodies.len() {
            regular[id] = regular[id] || calls[id].iter().all(|c| regular[*c]);
        }
        if regular.iter().filter(|r| **r).count() == before {
            return regular.into_iter().map(|r| !r).collect();
        }
    }
}

/// Which rules match the empty text.
fn empty(bodies: &[Node]) -> Vec<bool> {
    let mut empty = vec![false; bodies.len()];
    loop {
        let next: Vec<bool> = bodies.iter().map(|body| may_be_empty(body, &empty)).collect();
        if next == empty {
            return empty;
        }
        empty = next;
    }
}

fn may_be_empty(node: &Node, empty: &[bool]) -> bool {
    match node {
        Node::Text(text) => text.is_empty(),
        Node::Class(..) | Node::Any => false,
        Node::Rule(id) => empty[*id],
        Node::Sequence(nodes) => nodes.iter().all(|n| may_be_empty(n, empty)),
        Node::Either(nodes) => nodes.iter().any(|n| may_be_empty(n, empty)),
        Node::Repeat(node, least, _) => *least == 0 || may_be_empty(node, empty),
    }
}

struct Writer<'a> {
    bodies: &'a [Node],
    recursive: &'a [bool],
    empty: &'a [bool],
    lark: String,
    terminals: Vec<String>,
    /// Nodes that may still be written.
    budget: usize,
}

impl Writer<'_> {
    fn is_regular(&self, node: &Node) -> bool {
        match node {
            Node::Text(_) | Node::Class(..) | Node::Any => true,
            Node::Rule(id) => !self.recursive[*id],
            Node::Sequence(nodes) | Node::Either(nodes) => nodes.iter().all(|n| self.is_regular(n)),
            Node::Repeat(node, ..) => self.is_regular(node),
        }
    }

    /// A node inside a rule.
    fn rule(&mut self, node: &Node) -> Result<String, String> {
        if self.is_regular(node) {
            return self.terminal(node);
        }
        Ok(match node {
            Node::Rule(id) => format!("r{id}"),
            Node::Sequence(nodes) => {
                // What is regular in a row is one terminal.
                let mut parts = Vec::new();
                let mut row: Vec<Node> = Vec::new();
                for node in nodes {
                    if self.is_regular(node) {
                        row.push(node.clone());
                        continue;
                    }
                    if !row.is_empty() {
                        parts.push(self.terminal(&Node::Sequence(std::mem::take(&mut row)))?);
                    }
                    parts.push(self.rule(node)?);
                }
                if !row.is_empty() {
                    parts.push(self.terminal(&Node::Sequence(row))?);
                }
                format!("({})", parts.join(" "))
            }
            Node::Either(nodes) => {
                let parts: Result<Vec<String>, String> = nodes.iter().map(|n| self.rule(n)).collect();
                format!("({})", parts?.join(" | "))
            }
            Node::Repeat(node, least, most) => {
                let inner = self.rule(node)?;
                match (least, most) {
                    (0, None) => format!("({inner})*"),
                    (1, None) => format!("({inner})+"),
                    (0, Some(1)) => format!("({inner})?"),
                    (least, None) => format!("({inner}){{{least},}}"),
                    (least, Some(most)) => format!("({inner}){{{least},{most}}}"),
                }
            }
            Node::Text(_) | Node::Class(..) | Node::Any => self.terminal(node)?,
        })
    }

    fn terminal(&mut self, node: &Node) -> Result<String, String> {
        let mut regex = String::new();
        self.regex(node, &mut regex, 0)?;
        if regex.is_empty() {
            return Ok("\"\"".to_owned());
        }
        let id = self.terminals.iter().position(|t| *t == regex).unwrap_or(self.terminals.len());
        if id == self.terminals.len() {
            self.terminals.push(regex);
        }
        Ok(if may_be_empty(node, self.empty) { format!("T{id}?") } else { format!("T{id}") })
    }

    fn regex(&mut self, node: &Node, out: &mut String, depth: usize) -> Result<(), String> {
        self.budget = self.budget.saturating_sub(1);
        if depth > DEEPEST || self.budget == 0 {
            return Err("it is too deep or too long when its rules are put in".to_owned());
        }
        match node {
            Node::Text(text) => text.chars().for_each(|c| out.push_str(&character(c))),
            Node::Class(ranges, negated) => {
                if ranges.is_empty() {
                    return Err("it has a class without characters".to_owned());
                }
                out.push_str(if *negated { "[^" } else { "[" });
                for (first, last) in ranges {
                    out.push_str(&character(*first));
                    if first != last {
                        out.push('-');
                        out.push_str(&character(*last));
                    }
                }
                out.push(']');
            }
            Node::Any => out.push_str("(?s:.)"),
            Node::Rule(id) => {
                let bodies = self.bodies;
                self.regex(&bodies[*id], out, depth + 1)?;
            }
            Node::Sequence(nodes) => nodes.iter().try_for_each(|n| self.regex(n, out, depth + 1))?,
            Node::Either(nodes) => {
                out.push_str("(?:");
                for (i, node) in nodes.iter().enumerate() {
                    if i > 0 {
                        out.push('|');
                    }
                    self.regex(node, out, depth + 1)?;
                }
                out.push(')');
            }
            Node::Repeat(node, least, most) => {
                out.push_str("(?:");
                self.regex(node, out, depth + 1)?;
                match most {
                    None => out.push_str(&format!("){{{least},}}")),
                    Some(most) => out.push_str(&format!("){{{least},{most}}}")),
                }
            }
        }
        Ok(())
    }
}

/// A character as a regular expression: by its number unless it is a letter or digit.
fn character(c: char) -> String {
    if c.is_ascii_alphanumeric() { c.to_string() } else { format!("\\x{{{:x}}}", u32::from(c)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_regular_becomes_one_terminal() {
        let lark = to_lark("root ::= \"a\" [b-d]+ word? # comment\nword ::= \"x\" | \"y\"\n").unwrap();
        assert_eq!(lark, "start: T0\nT0: /a(?:[b-d]){1,}(?:(?:x|y)){0,1}/ & /(?s:.)+/\n");
    }

    #[test]
    fn what_leads_back_to_itself_stays_a_rule() {
        let lark = to_lark("root ::= \"(\" root? \")\" ws\nws ::= [ \\t]*").unwrap();
        assert!(lark.starts_with("start: r0\nr0: (T0 (r0)? T1)\n"), "{lark}");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (grammar, named) in [
            ("x ::= \"a\"", "called root"),
            ("root ::= gone", "called gone"),
            ("root ::= \"a", "line 1: a literal is not closed"),
            ("root ::= [a", "a class is not closed"),
            ("root ::= [z-a]", "wrong way round"),
            ("root ::= (\"a\"", "a group is not closed"),
            ("root ::= \"a\"{3,1}", "repetition"),
            ("root ::= \"a\"{99999999999999999999}", "repetitions is needed"),
            ("root ::= \"\\q\"", "escape"),
            ("root ::= \"\\uD800\"", "U+D800"),
            ("root ::= \"a\"\nroot ::= \"b\"", "twice"),
            ("root = \"a\"", "::="),
            ("root ::= <think>", "not supported"),
            ("", "root"),
        ] {
            let error = to_lark(grammar).unwrap_err();
            assert!(error.contains(named), "{grammar:?}: {error}");
        }
        assert!(to_lark(&format!("root ::= {}", "(".repeat(100_000))).is_err());
        // Doubling rules: short to write, long to expand.
        let mut bomb = String::from("root ::= a0\n");
        (0..60).for_each(|i| bomb.push_str(&format!("a{i} ::= a{} a{}\n", i + 1, i + 1)));
        for end in ["x", ""] {
            assert!(to_lark(&format!("{bomb}a60 ::= \"{end}\"\n")).is_err());
        }
    }
}
