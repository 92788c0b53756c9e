//! GBNF, the grammar language of llama.cpp, translated into the Lark dialect of `llguidance`.
//!
//! GBNF has no lexer: every character is a symbol. Rules that lead back to themselves become rules; everything else is
//! regular, and what is regular in a row becomes one terminal with one regular expression. Where a lexer could cut such a
//! terminal wrongly (`cut`) it is taken apart, in the end into characters.

mod cut;
mod lexed;
mod parse;

use lexed::Lexed;

/// Nested groups and rules that are expanded, at most.
pub const DEEPEST: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    let rules = parse::rules(text)?;
    let root = *rules.names.get("root").ok_or("there is no rule called root")?;
    if let Some((name, _)) = rules.names.iter().find(|(_, id)| rules.bodies[**id].is_none()) {
        return Err(format!("there is no rule called {name}"));
    }
    let bodies: Vec<Node> = rules.bodies.into_iter().flatten().collect();
    let recursive = recursive(&bodies);
    let empty = empty(&bodies);
    Lexed::new(&bodies, &recursive, &empty, root)?.write().map_err(|e| e.to_string())
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
            for (first, last) in ranges {
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
        // Doubling rules: short to write, long to expand.
        let mut bomb = String::from("root ::= a0\n");
        (0..60).for_each(|i| bomb.push_str(&format!("a{i} ::= a{} a{}\n", i + 1, i + 1)));
        for end in ["x", ""] {
            assert!(to_lark(&format!("{bomb}a60 ::= \"{end}\"\n")).is_err());
        }
    }
}
