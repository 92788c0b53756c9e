//! A grammar with a lexer: rules over terminals, which are as long as they can be and as short as they must be.

use super::cut::{Bytes, Cuts, first};
use super::{DEEPEST, Node, may_be_empty, write_regex};
use std::fmt::Write;

/// Nodes that are written, at most: what a grammar expands to can be much longer than itself.
const LONGEST: usize = 1 << 18;
/// After so many rounds terminals are taken apart into characters at once.
const PATIENCE: usize = 64;

/// What a rule is made of.
#[derive(Clone)]
enum Piece {
    Terminal(usize),
    Rule(usize),
    Sequence(Vec<Piece>),
    Either(Vec<Piece>),
    Repeat(Box<Piece>, usize, Option<usize>),
}

struct Terminal {
    /// Without rules.
    node: Node,
    regex: String,
    first: Bytes,
    /// It is optional in its rules then: terminals must not be empty.
    empty: bool,
}

/// A grammar with a lexer.
pub struct Lexed<'a> {
    bodies: &'a [Node],
    recursive: &'a [bool],
    empty: &'a [bool],
    /// The start, then every rule; those that are not recursive are in their terminals.
    rules: Vec<Piece>,
    terminals: Vec<Terminal>,
    /// Nodes that may still be written.
    budget: usize,
}

const TOO_LONG: &str = "it is too deep or too long when its rules are put in";

impl<'a> Lexed<'a> {
    pub fn new(bodies: &'a [Node], recursive: &'a [bool], empty: &'a [bool], root: usize) -> Result<Self, String> {
        let (rules, terminals) = (Vec::new(), Vec::new());
        let mut grammar = Self { bodies, recursive, empty, rules, terminals, budget: LONGEST };
        let start = grammar.piece(&Node::Rule(root), 0)?;
        grammar.rules.push(start);
        for (id, body) in bodies.iter().enumerate() {
            let piece = if recursive[id] { grammar.piece(body, 0)? } else { Piece::Sequence(Vec::new()) };
            grammar.rules.push(piece);
        }
        grammar.take_apart()?;
        Ok(grammar)
    }

    fn is_regular(&self, node: &Node) -> bool {
        match node {
            Node::Text(_) | Node::Class(..) | Node::Any => true,
            Node::Rule(id) => !self.recursive[*id],
            Node::Sequence(nodes) | Node::Either(nodes) => nodes.iter().all(|n| self.is_regular(n)),
            Node::Repeat(node, ..) => self.is_regular(node),
        }
    }

    /// A node inside a rule: what is regular in a row is one terminal.
    fn piece(&mut self, node: &Node, depth: usize) -> Result<Piece, String> {
        if self.is_regular(node) {
            let node = self.expanded(node, depth)?;
            return Ok(self.terminal(node));
        }
        Ok(match node {
            Node::Rule(id) => Piece::Rule(*id),
            Node::Sequence(nodes) => {
                let mut parts = Vec::new();
                let mut row = Vec::new();
                for node in nodes {
                    if self.is_regular(node) {
                        row.push(node.clone());
                        continue;
                    }
                    if !row.is_empty() {
                        parts.push(self.piece(&Node::Sequence(std::mem::take(&mut row)), depth + 1)?);
                    }
                    parts.push(self.piece(node, depth + 1)?);
                }
                if !row.is_empty() {
                    parts.push(self.piece(&Node::Sequence(row), depth + 1)?);
                }
                Piece::Sequence(parts)
            }
            Node::Either(nodes) => {
                Piece::Either(nodes.iter().map(|n| self.piece(n, depth + 1)).collect::<Result<_, _>>()?)
            }
            Node::Repeat(node, least, most) => Piece::Repeat(Box::new(self.piece(node, depth + 1)?), *least, *most),
            Node::Text(_) | Node::Class(..) | Node::Any => self.terminal(node.clone()),
        })
    }

    /// A regular node with the rules it calls put in.
    fn expanded(&mut self, node: &Node, depth: usize) -> Result<Node, String> {
        self.budget = self.budget.saturating_sub(1);
        if depth > DEEPEST || self.budget == 0 {
            return Err(TOO_LONG.to_owned());
        }
        let mut all = |nodes: &[Node]| nodes.iter().map(|n| self.expanded(n, depth + 1)).collect::<Result<Vec<_>, _>>();
        Ok(match node {
            Node::Class(ranges, _) if ranges.is_empty() => return Err("it has a class without characters".to_owned()),
            Node::Text(_) | Node::Class(..) | Node::Any => node.clone(),
            Node::Rule(id) => {
                let bodies = self.bodies;
                self.expanded(&bodies[*id], depth + 1)?
            }
            Node::Sequence(nodes) => Node::Sequence(all(nodes)?),
            Node::Either(nodes) => Node::Either(all(nodes)?),
            Node::Repeat(node, least, most) => Node::Repeat(Box::new(self.expanded(node, depth + 1)?), *least, *most),
        })
    }

    fn terminal(&mut self, node: Node) -> Piece {
        let mut regex = String::new();
        write_regex(&node, &mut regex);
        if regex.is_empty() {
            return Piece::Sequence(Vec::new());
        }
        let known = self.terminals.iter().position(|t| t.regex == regex);
        Piece::Terminal(known.unwrap_or_else(|| {
            let (first, empty) = (first(&node), may_be_empty(&node, &[]));
            self.terminals.push(Terminal { node, regex, first, empty });
            self.terminals.len() - 1
        }))
    }

    /// Takes terminals apart until none can be cut wrongly.
    fn take_apart(&mut self) -> Result<(), String> {
        let mut cuts = Cuts::new();
        for round in 0.. {
            let followers = self.followers();
            let mut apart = vec![false; self.terminals.len()];
            for (terminal, follower) in self.terminals.iter().zip(&followers) {
                let Some(follower) = follower else { continue };
                for (i, other) in self.terminals.iter().enumerate().filter(|(i, _)| followers[*i].is_some()) {
                    // What is compared is whether `other` swallows what should follow `terminal`.
                    apart[i] |= !apart[i]
                        && cuts.beyond((&terminal.regex, &terminal.node), (&other.regex, &other.node)).meets(*follower);
                }
            }
            if !apart.contains(&true) {
                return Ok(());
            }
            let mut parts = Vec::new();
            for (id, _) in apart.iter().enumerate().filter(|(_, apart)| **apart) {
                let node = self.terminals[id].node.clone();
                let part = if round < PATIENCE { self.parts(&node)? } else { self.characters(&node)? };
                parts.push((id, part));
            }
            self.rules.iter_mut().for_each(|rule| put(rule, &parts));
        }
        Ok(())
    }

    /// The parts of a terminal, as few as there can be.
    fn parts(&mut self, node: &Node) -> Result<Piece, String> {
        self.budget = self.budget.saturating_sub(1);
        if self.budget == 0 {
            return Err(TOO_LONG.to_owned());
        }
        Ok(match node {
            Node::Sequence(nodes) => match nodes.as_slice() {
                [node] => self.parts(node)?,
                // The end is where most go wrong.
                [head @ .., last] => {
                    let head = if let [one] = head { one.clone() } else { Node::Sequence(head.to_vec()) };
                    Piece::Sequence(vec![self.terminal(head), self.terminal(last.clone())])
                }
                [] => Piece::Sequence(Vec::new()),
            },
            Node::Either(nodes) => Piece::Either(nodes.iter().map(|n| self.terminal(n.clone())).collect()),
            Node::Repeat(inner, least, most) => {
                Piece::Repeat(Box::new(self.terminal((**inner).clone())), *least, *most)
            }
            Node::Text(_) | Node::Class(..) | Node::Any | Node::Rule(_) => self.characters(node)?,
        })
    }

    /// A terminal in characters.
    fn characters(&mut self, node: &Node) -> Result<Piece, String> {
        self.budget = self.budget.saturating_sub(1);
        if self.budget == 0 {
            return Err(TOO_LONG.to_owned());
        }
        let mut all = |nodes: &[Node]| nodes.iter().map(|n| self.characters(n)).collect::<Result<Vec<_>, _>>();
        Ok(match node {
            Node::Sequence(nodes) => Piece::Sequence(all(nodes)?),
            Node::Either(nodes) => Piece::Either(all(nodes)?),
            Node::Repeat(inner, least, most) => Piece::Repeat(Box::new(self.characters(inner)?), *least, *most),
            Node::Text(text) => Piece::Sequence(text.chars().map(|c| self.terminal(Node::Text(c.into()))).collect()),
            Node::Class(..) | Node::Any | Node::Rule(_) => self.terminal(node.clone()),
        })
    }

    /// By terminal: the bytes with which begins what can follow it; `None` where it is in no rule.
    fn followers(&self) -> Vec<Option<Bytes>> {
        let mut firsts = vec![Bytes::default(); self.bodies.len()];
        while {
            let next: Vec<Bytes> = self.rules[1..].iter().map(|rule| self.first(rule, &firsts)).collect();
            let grown = next != firsts;
            firsts = next;
            grown
        } {}
        let mut found = Followers { terminals: vec![None; self.terminals.len()], rules: vec![None; self.bodies.len()] };
        found.rules.iter_mut().zip(self.recursive).for_each(|(f, r)| *f = r.then_some(Bytes::default()));
        while {
            let before = found.rules.clone();
            self.follow(&self.rules[0], Bytes::default(), &firsts, &mut found);
            for (rule, after) in self.rules[1..].iter().zip(&before) {
                if let Some(after) = after {
                    self.follow(rule, *after, &firsts, &mut found);
                }
            }
            found.rules != before
        } {}
        found.terminals
    }

    fn follow(&self, piece: &Piece, after: Bytes, firsts: &[Bytes], found: &mut Followers) {
        let add = |to: &mut Option<Bytes>| *to = Some(to.unwrap_or_default().or(after));
        match piece {
            Piece::Terminal(id) => add(&mut found.terminals[*id]),
            Piece::Rule(id) => add(&mut found.rules[*id]),
            Piece::Sequence(pieces) => {
                let mut after = after;
                for piece in pieces.iter().rev() {
                    self.follow(piece, after, firsts, found);
                    let first = self.first(piece, firsts);
                    after = if self.may_be_empty(piece) { after.or(first) } else { first };
                }
            }
            Piece::Either(pieces) => pieces.iter().for_each(|p| self.follow(p, after, firsts, found)),
            Piece::Repeat(_, _, Some(0)) => {}
            Piece::Repeat(inner, _, most) => {
                let again = if *most == Some(1) { Bytes::default() } else { self.first(inner, firsts) };
                self.follow(inner, after.or(again), firsts, found);
            }
        }
    }

    fn first(&self, piece: &Piece, firsts: &[Bytes]) -> Bytes {
        let all = |pieces: &[Piece]| pieces.iter().map(|p| self.first(p, firsts)).fold(Bytes::default(), Bytes::or);
        match piece {
            Piece::Terminal(id) => self.terminals[*id].first,
            Piece::Rule(id) => firsts[*id],
            Piece::Sequence(pieces) => {
                let filled = pieces.iter().position(|p| !self.may_be_empty(p)).map_or(pieces.len(), |at| at + 1);
                all(&pieces[..filled])
            }
            Piece::Either(pieces) => all(pieces),
            Piece::Repeat(inner, ..) => self.first(inner, firsts),
        }
    }

    fn may_be_empty(&self, piece: &Piece) -> bool {
        match piece {
            Piece::Terminal(id) => self.terminals[*id].empty,
            Piece::Rule(id) => self.empty[*id],
            Piece::Sequence(pieces) => pieces.iter().all(|p| self.may_be_empty(p)),
            Piece::Either(pieces) => pieces.iter().any(|p| self.may_be_empty(p)),
            Piece::Repeat(inner, least, _) => *least == 0 || self.may_be_empty(inner),
        }
    }

    pub fn write(&self) -> Result<String, std::fmt::Error> {
        let mut lark = String::new();
        writeln!(lark, "start: {}", self.lark(&self.rules[0]))?;
        for (id, rule) in self.rules[1..].iter().enumerate().filter(|(id, _)| self.recursive[*id]) {
            writeln!(lark, "r{id}: {}", self.lark(rule))?;
        }
        for (id, used) in self.followers().iter().enumerate() {
            if used.is_some() {
                writeln!(lark, "T{id}: /{}/ & /(?s:.)+/", self.terminals[id].regex)?;
            }
        }
        Ok(lark)
    }

    fn lark(&self, piece: &Piece) -> String {
        let all = |pieces: &[Piece], with: &str| pieces.iter().map(|p| self.lark(p)).collect::<Vec<_>>().join(with);
        match piece {
            Piece::Terminal(id) if self.terminals[*id].empty => format!("T{id}?"),
            Piece::Terminal(id) => format!("T{id}"),
            Piece::Rule(id) => format!("r{id}"),
            Piece::Sequence(pieces) if pieces.is_empty() => "\"\"".to_owned(),
            Piece::Sequence(pieces) => format!("({})", all(pieces, " ")),
            Piece::Either(pieces) => format!("({})", all(pieces, " | ")),
            Piece::Repeat(inner, least, most) => {
                let inner = self.lark(inner);
                match (least, most) {
                    (_, Some(0)) => "\"\"".to_owned(),
                    (0, None) => format!("({inner})*"),
                    (1, None) => format!("({inner})+"),
                    (0, Some(1)) => format!("({inner})?"),
                    (least, None) => format!("({inner}){{{least},}}"),
                    (least, Some(most)) => format!("({inner}){{{least},{most}}}"),
                }
            }
        }
    }
}

/// Puts parts where their terminals are.
fn put(piece: &mut Piece, parts: &[(usize, Piece)]) {
    match piece {
        Piece::Terminal(id) => {
            if let Some((_, part)) = parts.iter().find(|(of, _)| of == id) {
                *piece = part.clone();
            }
        }
        Piece::Rule(_) => {}
        Piece::Sequence(pieces) | Piece::Either(pieces) => pieces.iter_mut().for_each(|p| put(p, parts)),
        Piece::Repeat(inner, ..) => put(inner, parts),
    }
}

/// The bytes with which begins what follows terminals and rules; `None` where they are not used.
struct Followers {
    terminals: Vec<Option<Bytes>>,
    rules: Vec<Option<Bytes>>,
}
