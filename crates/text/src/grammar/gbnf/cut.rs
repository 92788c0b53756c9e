//! Where a lexer would cut a text wrongly.
//!
//! The lexer of `llguidance` takes the longest match and never goes back; GBNF has no lexer and takes any. The two agree
//! where a terminal is not followed by a character with which it, or another terminal that begins in the same way, could
//! go on. Characters are compared by their first byte of UTF-8, because the lexer sees bytes.

use super::{Node, may_be_empty};
use std::collections::{BTreeSet, HashMap};

/// Pairs of states that are visited to compare two terminals, at most; beyond, anything is taken to be possible.
const MOST_STATES: usize = 2000;
/// Nodes that are copied for all comparisons, at most.
const MOST_WORK: usize = 1 << 22;

/// A set of first bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes([u64; 4]);

impl Bytes {
    const ALL: Self = Self([u64::MAX; 4]);

    pub fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    pub fn meets(self, other: Self) -> bool {
        (0..4).any(|i| self.0[i] & other.0[i] != 0)
    }

    /// Of the characters from `first` to `last`.
    fn of(first: u32, last: u32) -> Self {
        let lead = |c: u32| match c {
            ..0x80 => c,
            0x80..0x800 => 0xC0 | c >> 6,
            0x800..0x1_0000 => 0xE0 | c >> 12,
            _ => 0xF0 | c >> 18,
        };
        let mut bytes = Self::default();
        (lead(first)..=lead(last)).for_each(|b| bytes.0[b as usize / 64] |= 1 << (b % 64));
        bytes
    }
}

/// The first bytes of what a node without rules matches.
pub fn first(node: &Node) -> Bytes {
    let all = |nodes: &[Node]| nodes.iter().map(first).fold(Bytes::default(), Bytes::or);
    match node {
        Node::Text(text) => text.chars().next().map_or(Bytes::default(), |c| Bytes::of(c.into(), c.into())),
        Node::Class(..) | Node::Any | Node::Rule(_) => {
            let starts = intervals(&[node]);
            let parts = starts.iter().filter(|(start, _)| !after(node, *start).is_empty());
            parts.map(|(start, last)| Bytes::of(u32::from(*start), *last)).fold(Bytes::default(), Bytes::or)
        }
        Node::Sequence(nodes) => {
            let filled = nodes.iter().position(|n| !may_be_empty(n, &[])).map_or(nodes.len(), |at| at + 1);
            all(&nodes[..filled])
        }
        Node::Either(nodes) => all(nodes),
        Node::Repeat(node, ..) => first(node),
    }
}

/// Whether a class has a character.
fn has(ranges: &[(char, char)], negated: bool, c: char) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != negated
}

/// What may follow where `node`, which has no rules, has taken `c`.
fn after(node: &Node, c: char) -> Vec<Node> {
    let end = || vec![Node::Sequence(Vec::new())];
    match node {
        Node::Text(text) => match text.strip_prefix(c) {
            Some("") => end(),
            Some(rest) => vec![Node::Text(rest.to_owned())],
            None => Vec::new(),
        },
        Node::Class(ranges, negated) if has(ranges, *negated, c) => end(),
        Node::Any => end(),
        Node::Class(..) | Node::Rule(_) => Vec::new(),
        Node::Sequence(nodes) => {
            let mut out = Vec::new();
            for (i, node) in nodes.iter().enumerate() {
                out.extend(after(node, c).into_iter().map(|head| then(head, &nodes[i + 1..])));
                if !may_be_empty(node, &[]) {
                    break;
                }
            }
            out
        }
        Node::Either(nodes) => nodes.iter().flat_map(|n| after(n, c)).collect(),
        Node::Repeat(_, _, Some(0)) => Vec::new(),
        Node::Repeat(inner, least, most) => {
            let left = Node::Repeat(inner.clone(), least.saturating_sub(1), most.map(|m| m - 1));
            after(inner, c).into_iter().map(|head| then(head, std::slice::from_ref(&left))).collect()
        }
    }
}

fn then(head: Node, rest: &[Node]) -> Node {
    let mut nodes = match head {
        Node::Sequence(nodes) => nodes,
        head => vec![head],
    };
    nodes.extend(rest.iter().filter(|n| !matches!(n, Node::Repeat(_, _, Some(0)))).cloned());
    Node::Sequence(nodes)
}

fn size(node: &Node) -> usize {
    1 + match node {
        Node::Text(_) | Node::Any | Node::Rule(_) => 0,
        Node::Class(ranges, _) => ranges.len() / 8,
        Node::Sequence(nodes) | Node::Either(nodes) => nodes.iter().map(size).sum(),
        Node::Repeat(node, ..) => size(node),
    }
}

/// Characters among which none of the nodes can tell a difference: the first, and the last as a number.
fn intervals(nodes: &[&Node]) -> Vec<(char, u32)> {
    fn starts(node: &Node, out: &mut BTreeSet<u32>) {
        let mut range = |first: char, last: char| out.extend([u32::from(first), u32::from(last) + 1]);
        match node {
            Node::Text(text) => text.chars().for_each(|c| range(c, c)),
            Node::Class(ranges, _) => ranges.iter().for_each(|(first, last)| range(*first, *last)),
            Node::Any | Node::Rule(_) => {}
            Node::Sequence(nodes) | Node::Either(nodes) => nodes.iter().for_each(|n| starts(n, out)),
            Node::Repeat(node, ..) => starts(node, out),
        }
    }
    let mut all = BTreeSet::from([0]);
    nodes.iter().for_each(|n| starts(n, &mut all));
    let ends = all.iter().skip(1).copied().chain([u32::from(char::MAX) + 1]);
    // What lies among the surrogates is no character; the one after them stands for it.
    let start = |at: u32, end: u32| char::from_u32(at).or((end > 0xE000).then_some('\u{E000}'));
    all.iter().zip(ends).filter_map(|(at, end)| Some((start(*at, end)?, end - 1))).collect()
}

/// Compares terminals, and remembers.
pub struct Cuts {
    known: HashMap<(String, String), Bytes>,
    work: usize,
}

impl Cuts {
    pub fn new() -> Self {
        Self { known: HashMap::new(), work: MOST_WORK }
    }

    /// With which bytes `other` goes on after a beginning that `terminal` matches. Both are given with their regular
    /// expressions, by which they are known.
    pub fn beyond(&mut self, terminal: (&str, &Node), other: (&str, &Node)) -> Bytes {
        let key = (terminal.0.to_owned(), other.0.to_owned());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let bytes = match first(terminal.1).meets(first(other.1)) {
            true => self.search(terminal.1, other.1).unwrap_or(Bytes::ALL),
            false => Bytes::default(),
        };
        self.known.insert(key, bytes);
        bytes
    }

    /// Follows both through all texts that begin in both; `None` where that would take too long.
    fn search(&mut self, terminal: &Node, other: &Node) -> Option<Bytes> {
        type States = BTreeSet<Node>;
        let intervals = intervals(&[terminal, other]);
        let start = (States::from([terminal.clone()]), States::from([other.clone()]));
        let (mut seen, mut open) = (BTreeSet::from([start.clone()]), vec![start]);
        let (mut bytes, mut begun) = (Bytes::default(), false);
        while let Some((ours, theirs)) = open.pop() {
            let complete = begun && ours.iter().any(|n| may_be_empty(n, &[]));
            begun = true;
            for (c, last) in &intervals {
                let next = |states: &States| states.iter().flat_map(|n| after(n, *c)).collect::<States>();
                let them = next(&theirs);
                if them.is_empty() {
                    continue;
                }
                let us = next(&ours);
                self.work = self.work.checked_sub(us.iter().chain(&them).map(size).sum::<usize>() + 1)?;
                if complete {
                    bytes = bytes.or(Bytes::of(u32::from(*c), *last));
                }
                let pair = (us, them);
                if !pair.0.is_empty() && !seen.contains(&pair) {
                    if seen.len() == MOST_STATES {
                        return None;
                    }
                    seen.insert(pair.clone());
                    open.push(pair);
                }
            }
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn node(gbnf: &str) -> Node {
        parse::rules(&format!("root ::= {gbnf}")).unwrap().bodies.remove(0).unwrap()
    }

    fn beyond(terminal: &str, other: &str) -> Vec<char> {
        let bytes = Cuts::new().beyond((terminal, &node(terminal)), (other, &node(other)));
        (0..128u32).filter(|b| bytes.meets(Bytes::of(*b, *b))).filter_map(char::from_u32).collect()
    }

    #[test]
    fn what_a_terminal_goes_on_with_is_known() {
        for (terminal, other, expected) in [
            ("[0-1]+", "[0-1]+", "01"),
            ("\"ab\"", "\"ab\"", ""),
            ("\"a\"", "\"abc\"", "b"),
            ("\"abc\"", "\"a\"", ""),
            // What one way completes another way goes on with.
            ("\"a\" | \"ab\"", "\"a\" | \"ab\"", "b"),
            ("[0-9]{2}", "[0-9]{2}", ""),
            ("[2-3]{1,2}", "[2-3]{1,2}", "23"),
            ("\"1\" (\".\" [5-6]+)?", "\"1\" (\".\" [5-6]+)?", ".56"),
            ("[b-c]*", "[^a-z] \"x\"", ""),
            ("\"-\" .", "\"-\" . \"x\"", "x"),
        ] {
            assert_eq!(beyond(terminal, other), expected.chars().collect::<Vec<_>>(), "{terminal} and {other}");
        }
    }

    #[test]
    fn first_bytes_of_classes_beyond_ascii_are_those_of_their_utf_8() {
        assert_eq!(first(&node("[é]")), Bytes::of(0xE9, 0xE9));
        assert!(first(&node("[é]")).meets(first(&node("[è]"))));
        assert!(!first(&node("[^é]")).meets(Bytes([0, 0, 0, 1 << (0xFF - 192)])));
        assert!(first(&node("[^\\U00000000-\\U0000D7FF]")).meets(first(&node("\"\\U0000E000\""))));
        assert!(!first(&node("[^b-z]")).meets(first(&node("\"c\""))));
    }

    #[test]
    fn what_takes_too_long_to_compare_is_taken_to_go_on_with_anything() {
        let far = "[a-z]{0,9000}";
        assert_eq!(beyond(far, far).len(), 128);
    }
}
