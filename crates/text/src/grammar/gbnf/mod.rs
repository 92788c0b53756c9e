//! GBNF, the grammar language of llama.cpp, translated into the Lark dialect of `llguidance`.
//!
//! GBNF has no lexer: every character is a symbol. Rules that lead back to themselves become rules; everything else is
//! regular, and what is regular in a row becomes one terminal with one regular expression. Where a lexer could cut such a
//! terminal wrongly (`cut`) it is taken apart, in the end into characters.

mod cut;
mod lexed;
mod parse;

use crate::error::excerpt;
use lexed::Lexed;
use std::sync::Arc;

/// Nested groups and rules that are expanded, at most.
pub const DEEPEST: usize = 200;
/// Rules, at most: the library that matches recurses along them.
const MOST_RULES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A literal.
    Text(String),
    /// A class of characters: ranges in order and apart, and whether they are the ones that do not match.
    Class(Arc<[(char, char)]>, bool),
    Any,
    Rule(usize),
    Sequence(Vec<Node>),
    Either(Vec<Node>),
    /// Between so many times.
    Repeat(Box<Node>, usize, Option<usize>),
}

/// The Lark grammar for a GBNF one.
pub fn to_lark(text: &str) -> Result<String, String> {
    let rules = parse::rules(text)?;
    let root = *rules.names.get("root").ok_or("there is no rule called root")?;
    if let Some((name, _)) = rules.names.iter().find(|(_, id)| rules.bodies[**id].is_none()) {
        return Err(format!("there is no rule called {}", excerpt(name)));
    }
    let bodies: Vec<Node> = rules.bodies.into_iter().flatten().collect();
    if bodies.len() > MOST_RULES {
        return Err(format!("it has {} rules, and at most {MOST_RULES} can be used", bodies.len()));
    }
    let calls: Vec<Vec<usize>> = bodies.iter().map(calls).collect();
    let recursive = recursive(&calls);
    let empty = empty(&bodies, &calls);
    Lexed::new(&bodies, &recursive, &empty, root)?.write().map_err(|e| e.to_string())
}

/// The rules that a node calls.
fn calls(node: &Node) -> Vec<usize> {
    fn add(node: &Node, out: &mut Vec<usize>) {
        match node {
            Node::Rule(id) => out.push(*id),
            Node::Sequence(nodes) | Node::Either(nodes) => nodes.iter().for_each(|n| add(n, out)),
            Node::Repeat(node, ..) => add(node, out),
            Node::Text(_) | Node::Class(..) | Node::Any => {}
        }
    }
    let mut out = Vec::new();
    add(node, &mut out);
    out.sort_unstable();
    out.dedup();
    out
}

/// By rule: those that call it.
pub fn callers(calls: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut callers = vec![Vec::new(); calls.len()];
    for (id, calls) in calls.iter().enumerate() {
        calls.iter().for_each(|called| callers[*called].push(id));
    }
    callers
}

/// Which rules lead back to a recursive one, or to themselves.
fn recursive(calls: &[Vec<usize>]) -> Vec<bool> {
    // A rule is regular once all it calls is: what never becomes regular is recursive, or leads to such.
    let callers = callers(calls);
    let mut left: Vec<usize> = calls.iter().map(Vec::len).collect();
    let mut open: Vec<usize> = (0..calls.len()).filter(|id| left[*id] == 0).collect();
    let mut recursive = vec![true; calls.len()];
    while let Some(id) = open.pop() {
        recursive[id] = false;
        for caller in &callers[id] {
            left[*caller] -= 1;
            if left[*caller] == 0 {
                open.push(*caller);
            }
        }
    }
    recursive
}

/// Which rules match the empty text.
fn empty(bodies: &[Node], calls: &[Vec<usize>]) -> Vec<bool> {
    let callers = callers(calls);
    let mut empty = vec![false; bodies.len()];
    let mut open: Vec<usize> = (0..bodies.len()).collect();
    while let Some(id) = open.pop() {
        if !empty[id] && may_be_empty(&bodies[id], &empty) {
            empty[id] = true;
            open.extend(&callers[id]);
        }
    }
    empty
}

/// Whether a node matches the empty text; `empty` of rules, where it has any.
pub fn may_be_empty(node: &Node, empty: &[bool]) -> bool {
    match node {
        Node::Text(text) => text.is_empty(),
        Node::Class(..) | Node::Any => false,
        Node::Rule(id) => empty[*id],
        Node::Sequence(nodes) => nodes.iter().all(|n| may_be_empty(n, empty)),
        Node::Either(nodes) => nodes.iter().any(|n| may_be_empty(n, empty)),
        Node::Repeat(node, least, _) => *least == 0 || may_be_empty(node, empty),
    }
}

/// The regular expression of a node without rules.
fn write_regex(node: &Node, out: &mut String) {
    match node {
        Node::Text(text) => text.chars().for_each(|c| out.push_str(&character(c))),
        Node::Class(ranges, negated) => {
            out.push_str(if *negated { "[^" } else { "[" });
            for (first, last) in ranges.iter() {
                out.push_str(&character(*first));
                if first != last {
                    out.push('-');
                    out.push_str(&character(*last));
                }
            }
            out.push(']');
        }
        Node::Any | Node::Rule(_) => out.push_str("(?s:.)"),
        Node::Sequence(nodes) => nodes.iter().for_each(|n| write_regex(n, out)),
        Node::Either(nodes) => {
            out.push_str("(?:");
            for (i, node) in nodes.iter().enumerate() {
                if i > 0 {
                    out.push('|');
                }
                write_regex(node, out);
            }
            out.push(')');
        }
        Node::Repeat(node, least, most) => {
            out.push_str("(?:");
            write_regex(node, out);
            match most {
                None => out.push_str(&format!("){{{least},}}")),
                Some(most) => out.push_str(&format!("){{{least},{most}}}")),
            }
        }
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
        assert!(to_lark(&format!("root ::= \"a\"{}", "{2}".repeat(100_000))).is_err());
        // Doubling rules: short to write, long to expand.
        let mut bomb = String::from("root ::= a0\n");
        (0..60).for_each(|i| bomb.push_str(&format!("a{i} ::= a{} a{}\n", i + 1, i + 1)));
        for end in ["x", ""] {
            assert!(to_lark(&format!("{bomb}a60 ::= \"{end}\"\n")).is_err());
        }
    }
}
