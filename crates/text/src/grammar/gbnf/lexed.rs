//! A grammar with a lexer: rules over terminals, which are as long as they can be and as short as they must be.

use super::cut::{Bytes, Cuts, first, is_single};
use super::{DEEPEST, Node, callers, may_be_empty, write_regex};
use std::collections::HashMap;
use std::fmt::Write;

/// Nodes and bytes of literals that are written, at most: what a grammar expands to can be much longer than itself.
const LONGEST: usize = 1 << 18;
/// After so many rounds, or where terminals cannot be compared, they are taken apart into characters at once.
const PATIENCE: usize = 32;

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
    /// By regular expression.
    known: HashMap<String, usize>,
    /// Nodes that may still be written.
    budget: usize,
}

const TOO_LONG: &str = "it is too deep or too long when its rules are put in";

impl<'a> Lexed<'a> {
    pub fn new(bodies: &'a [Node], recursive: &'a [bool], empty: &'a [bool], root: usize) -> Result<Self, String> {
        let (rules, terminals, known) = (Vec::new(), Vec::new(), HashMap::new());
        let mut grammar = Self { bodies, recursive, empty, rules, terminals, known, budget: LONGEST };
        let start = grammar.piece(&Node::Rule(root), 0)?;
        grammar.rules.push(start);
        for (id, body) in bodies.iter().enumerate() {
            let piece = if recursive[id] { grammar.piece(body, 0)? } else { Piece::Sequence(Vec::new()) };
            grammar.rules.push(piece);
        }
        grammar.take_apart()?;
        Ok(grammar)
    }

    fn spend(&mut self, nodes: usize) -> Result<(), String> {
        self.budget = self.budget.saturating_sub(nodes);
        if self.budget == 0 { Err(TOO_LONG.to_owned()) } else { Ok(()) }
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
        self.spend(match node {
            Node::Text(text) => text.len().max(1),
            Node::Class(ranges, _) => 1 + ranges.len(),
            _ => 1,
        })?;
        if depth > DEEPEST {
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
        if let Some(known) = self.known.get(&regex) {
            return Piece::Terminal(*known);
        }
        let (first, empty) = (first(&node), may_be_empty(&node, &[]));
        self.known.insert(regex.clone(), self.terminals.len());
        self.terminals.push(Terminal { node, regex, first, empty });
        Piece::Terminal(self.terminals.len() - 1)
    }

    /// Takes terminals apart until none can be cut wrongly.
    fn take_apart(&mut self) -> Result<(), String> {
        let mut cuts = Cuts::new();
        for round in 0..=PATIENCE {
            let followers = self.followers();
            let used = followers.iter().enumerate().filter_map(|(id, follower)| Some((id, (*follower)?)));
            let used: Vec<(usize, Bytes)> = used.collect();
            let compared: Vec<_> = used.iter().map(|(id, follower)| (&self.terminals[*id].node, *follower)).collect();
            let at_once = round == PATIENCE || cuts.is_tired();
            // What is not known is taken to swallow what should follow another.
            let swallowing = if at_once { None } else { cuts.swallowing(&compared) };
            let swallowing = swallowing.unwrap_or_else(|| vec![true; used.len()]);
            let apart = used.iter().zip(swallowing).filter(|(_, swallows)| *swallows).map(|((id, _), _)| *id);
            let apart: Vec<usize> = apart.filter(|id| !is_single(&self.terminals[*id].node)).collect();
            if apart.is_empty() {
                return Ok(());
            }
            let mut parts = vec![None; self.terminals.len()];
            for id in apart {
                let node = self.terminals[id].node.clone();
                self.spend(1 + self.terminals[id].regex.len() / 8)?;
                parts[id] = Some(if at_once { self.characters(&node)? } else { self.parts(&node)? });
            }
            self.rules.iter_mut().for_each(|rule| put(rule, &parts));
        }
        Ok(())
    }

    /// The parts of a terminal, as few as there can be.
    fn parts(&mut self, node: &Node) -> Result<Piece, String> {
        self.spend(1)?;
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
        self.spend(1)?;
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
        let calls: Vec<Vec<usize>> = self.rules[1..].iter().map(calls).collect();
        let callers = callers(&calls);
        let mut firsts = vec![Bytes::default(); self.bodies.len()];
        let mut open: Vec<usize> = (0..self.bodies.len()).collect();
        while let Some(id) = open.pop() {
            let first = self.first(&self.rules[id + 1], &firsts);
            if first != firsts[id] {
                firsts[id] = first;
                open.extend(&callers[id]);
            }
        }
        let mut found = Followers { terminals: vec![None; self.terminals.len()], rules: vec![None; self.bodies.len()] };
        found.rules.iter_mut().zip(self.recursive).for_each(|(f, r)| *f = r.then_some(Bytes::default()));
        self.follow(&self.rules[0], Bytes::default(), &firsts, &mut found);
        let mut open: Vec<usize> = (0..self.bodies.len()).filter(|id| self.recursive[*id]).collect();
        while let Some(id) = open.pop() {
            let before: Vec<_> = calls[id].iter().map(|called| found.rules[*called]).collect();
            self.follow(&self.rules[id + 1], found.rules[id].unwrap_or_default(), &firsts, &mut found);
            let changed = calls[id].iter().zip(before).filter(|(called, before)| found.rules[**called] != *before);
            open.extend(changed.map(|(called, _)| *called));
        }
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

/// The rules that a piece calls.
fn calls(piece: &Piece) -> Vec<usize> {
    fn add(piece: &Piece, out: &mut Vec<usize>) {
        match piece {
            Piece::Rule(id) => out.push(*id),
            Piece::Terminal(_) => {}
            Piece::Sequence(pieces) | Piece::Either(pieces) => pieces.iter().for_each(|p| add(p, out)),
            Piece::Repeat(inner, ..) => add(inner, out),
        }
    }
    let mut out = Vec::new();
    add(piece, &mut out);
    out.sort_unstable();
    out.dedup();
    out
}

/// Puts parts where their terminals are.
fn put(piece: &mut Piece, parts: &[Option<Piece>]) {
    match piece {
        Piece::Terminal(id) => {
            if let Some(Some(part)) = parts.get(*id) {
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
