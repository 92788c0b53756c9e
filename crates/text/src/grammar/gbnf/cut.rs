//! Where a lexer would cut a text wrongly.
//!
//! The lexer of `llguidance` takes the longest match and never goes back; GBNF has no lexer and takes any. The two agree
//! where a terminal is not followed by a character with which it, or another terminal that begins in the same way, could
//! go on. Characters are compared by their first byte of UTF-8, because the lexer sees bytes.

use super::{Node, may_be_empty};
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

/// Nodes that are copied to compare terminals, at most: once, and in all. Beyond, anything is taken to be possible.
const MOST_WORK_ONCE: usize = 1 << 19;
const MOST_WORK: usize = 1 << 22;

/// A set of first bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes([u64; 4]);

impl Bytes {
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
            let alike = alike([node].into_iter());
            alike.iter().filter(|(c, _)| takes(node, *c)).map(|(_, bytes)| *bytes).fold(Bytes::default(), Bytes::or)
        }
        Node::Sequence(nodes) => {
            let filled = nodes.iter().position(|n| !may_be_empty(n, &[])).map_or(nodes.len(), |at| at + 1);
            all(&nodes[..filled])
        }
        Node::Either(nodes) => all(nodes),
        Node::Repeat(node, ..) => first(node),
    }
}

/// Whether a node is one character, and nothing else.
pub fn is_single(node: &Node) -> bool {
    match node {
        Node::Text(text) => text.chars().nth(1).is_none(),
        Node::Class(..) | Node::Any => true,
        _ => false,
    }
}

/// Whether a class takes a character.
fn takes(node: &Node, c: char) -> bool {
    match node {
        Node::Class(ranges, negated) => {
            let before = ranges.partition_point(|(first, _)| *first <= c);
            (before > 0 && c <= ranges[before - 1].1) != *negated
        }
        Node::Any => true,
        _ => false,
    }
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
        Node::Class(..) | Node::Any if takes(node, c) => end(),
        Node::Class(..) | Node::Any | Node::Rule(_) => Vec::new(),
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
        Node::Text(text) => text.len() / 64,
        Node::Class(..) | Node::Any | Node::Rule(_) => 0,
        Node::Sequence(nodes) | Node::Either(nodes) => nodes.iter().map(size).sum(),
        Node::Repeat(node, ..) => size(node),
    }
}

/// Characters among which none of the nodes can tell a difference: one of them, and the first bytes of all.
fn alike<'n>(nodes: impl Iterator<Item = &'n Node>) -> Vec<(char, Bytes)> {
    /// Where a set of characters that the nodes have begins or ends, and which one.
    fn edges(node: &Node, sets: &mut HashSet<Node>, out: &mut BTreeMap<u32, u64>) {
        let mut range = |first: char, last: char, set: u64| {
            *out.entry(first.into()).or_default() ^= set;
            *out.entry(u32::from(last) + 1).or_default() ^= set;
        };
        let number = |set: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            set(&mut hasher);
            hasher.finish()
        };
        match node {
            Node::Text(text) => {
                for c in text.chars() {
                    if sets.insert(Node::Text(c.into())) {
                        range(c, c, number(&|h| c.hash(h)));
                    }
                }
            }
            Node::Class(ranges, _) => {
                if sets.insert(Node::Class(ranges.clone(), false)) {
                    let set = number(&|h| ranges.hash(h));
                    ranges.iter().for_each(|(first, last)| range(*first, *last, set));
                }
            }
            Node::Any | Node::Rule(_) => {}
            Node::Sequence(nodes) | Node::Either(nodes) => nodes.iter().for_each(|n| edges(n, sets, out)),
            Node::Repeat(node, ..) => edges(node, sets, out),
        }
    }
    let (mut sets, mut all) = (HashSet::new(), BTreeMap::from([(0, 0)]));
    nodes.for_each(|n| edges(n, &mut sets, &mut all));
    let ends = all.keys().skip(1).copied().chain([u32::from(char::MAX) + 1]);
    let (mut member, mut places, mut out) = (0u64, HashMap::new(), Vec::new());
    for ((at, sets), end) in all.iter().zip(ends) {
        member ^= sets;
        // What lies among the surrogates is no character; the one after them stands for it.
        let Some(c) = char::from_u32(*at).or((end > 0xE000).then_some('\u{E000}')) else { continue };
        let bytes = Bytes::of(c.into(), end - 1);
        match places.entry(member) {
            Entry::Vacant(place) => {
                place.insert(out.len());
                out.push((c, bytes));
            }
            Entry::Occupied(place) => out[*place.get()].1 = out[*place.get()].1.or(bytes),
        }
    }
    out
}

/// Compares terminals.
pub struct Cuts {
    work: usize,
}

impl Cuts {
    pub fn new() -> Self {
        Self { work: MOST_WORK }
    }

    /// Whether nothing more will be compared.
    pub fn is_tired(&self) -> bool {
        self.work < MOST_WORK_ONCE
    }

    /// By terminal: whether, after a beginning that a terminal matches, it goes on with a byte that may follow that one.
    /// `None` where that would take too long to find out.
    pub fn swallowing(&mut self, terminals: &[(&Node, Bytes)]) -> Option<Vec<bool>> {
        // All are followed at once through all texts that begin in any of them.
        type State = BTreeSet<(usize, Node)>;
        let alike = alike(terminals.iter().map(|(node, _)| *node));
        let start: State = terminals.iter().enumerate().map(|(id, (node, _))| (id, (*node).clone())).collect();
        let (mut seen, mut open) = (HashSet::new(), vec![start]);
        let mut swallowing = vec![false; terminals.len()];
        let (mut begun, mut once) = (false, MOST_WORK_ONCE);
        while let Some(state) = open.pop() {
            let complete = state.iter().filter(|(_, node)| begun && may_be_empty(node, &[]));
            let follow = complete.map(|(id, _)| terminals[*id].1).fold(Bytes::default(), Bytes::or);
            begun = true;
            for (c, bytes) in &alike {
                let next = state.iter().flat_map(|(id, node)| after(node, *c).into_iter().map(|node| (*id, node)));
                let next: State = next.collect();
                let work = state.len() / 8 + next.iter().map(|(_, node)| size(node)).sum::<usize>() + 1;
                once = once.checked_sub(work)?;
                self.work = self.work.checked_sub(work)?;
                if bytes.meets(follow) {
                    next.iter().for_each(|(id, _)| swallowing[*id] = true);
                }
                if !next.is_empty() && seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        Some(swallowing)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn node(gbnf: &str) -> Node {
        parse::rules(&format!("root ::= {gbnf}")).unwrap().bodies.remove(0).unwrap()
    }

    fn beyond(terminal: &str, other: &str) -> Option<Vec<char>> {
        let (terminal, other) = (node(terminal), node(other));
        let goes_on = |b: &u32| {
            let swallowing = Cuts::new().swallowing(&[(&terminal, Bytes::of(*b, *b)), (&other, Bytes::default())]);
            Some(swallowing?[1])
        };
        let bytes: Option<Vec<bool>> = (0..128u32).map(|b| goes_on(&b)).collect();
        Some(bytes?.iter().zip(0..128u8).filter(|(goes_on, _)| **goes_on).map(|(_, b)| char::from(b)).collect())
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
            assert_eq!(beyond(terminal, other), Some(expected.chars().collect()), "{terminal} and {other}");
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
    fn what_takes_too_long_to_compare_is_not_known() {
        let far = "[a-z]{0,9000} [b-y]{0,9000}";
        assert_eq!(beyond(far, far), None);
    }

    #[test]
    fn characters_that_no_class_tells_apart_are_compared_once() {
        let every_second = (0..4000).filter_map(|i| char::from_u32(0x4E00 + 2 * i)).collect::<String>();
        let nodes = [node(&format!("[{every_second}]+ \"x\"")), node("[^a-z]")];
        assert_eq!(alike(nodes.iter()).len(), 4);
    }
}
