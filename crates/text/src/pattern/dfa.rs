//! The automaton of a split pattern: syntax tree to threads to a full transition table, built once.

use std::collections::HashMap;

use super::parse::{Node, parse};
use super::scan::{FAR, Scan};
use super::set::{CharSet, ClassMap, MAX_SETS};
use crate::budget::Spent;
use crate::error::{Error, excerpt};

/// What a thread does next.
enum Inst {
    /// Consume a character of this set, go on at the next instruction.
    Set(usize),
    /// Go on where the next character is in the set, or at the end of the text where the flag says so.
    Ahead(usize, bool),
    /// Go on at both, preferring the first.
    Split(usize, usize),
    Jump(usize),
    Match,
}

const MAX_INSTRUCTIONS: usize = 16_384;
const MAX_STATES: usize = 8_192;
/// Threads looked at while states are made. Of the patterns known by name, jais-2 takes the most: 0.43 million.
const MAX_THREAD_STEPS: usize = 4 << 20;
const DEAD: u32 = 0;
const START: u32 = 1;
/// Set in a transition where the text before the character that is read is a match.
const MATCHED: u32 = 1 << 31;

/// A compiled split pattern.
pub(crate) struct Pattern {
    classes: ClassMap,
    /// `[state][class]`, the last class being the end of the text: the next state, and whether a match ends here.
    table: Vec<u32>,
    stride: usize,
}

impl Pattern {
    pub fn new(pattern: &str) -> Result<Self, Error> {
        Self::compile(pattern).map_err(|what| Error::UnsupportedPattern { what, pattern: excerpt(pattern) })
    }

    fn compile(pattern: &str) -> Result<Self, String> {
        let tree = parse(pattern)?;
        let mut program = Program::default();
        program.emit(&tree)?;
        program.insts.push(Inst::Match);
        let classes = ClassMap::new(&program.sets)?;
        let (table, stride) = program.determinize(&classes)?;
        Ok(Pattern { classes, table, stride })
    }

    /// The end of the match that starts at `start`, if there is one that is not empty.
    #[inline(always)] // A call would cost as much as a short word.
    pub fn match_at(&self, start: usize, scan: &mut Scan<'_>) -> Result<Option<usize>, Spent> {
        let text = scan.text;
        let near = &text.as_bytes()[..text.len().min(start + FAR)];
        let mut state = START;
        let mut at = start;
        let mut end = start;
        while let Some(&byte) = near.get(at) {
            let (class, width) = self.class(text, at, byte);
            let (next, matched) = self.next(state, class);
            if matched {
                end = at;
            }
            if next == DEAD {
                return Ok((end > start).then_some(end));
            }
            state = next;
            at += width;
        }
        self.match_far(scan, start, state, at, end)
    }

    /// Goes on where [`Self::match_at`] came to `at` in `state` and found the match that ends at `end`.
    #[inline(never)]
    fn match_far(
        &self,
        scan: &mut Scan<'_>,
        start: usize,
        mut state: u32,
        mut at: usize,
        mut end: usize,
    ) -> Result<Option<usize>, Spent> {
        let text = scan.text;
        let mut block = at / FAR;
        while let Some(&byte) = text.as_bytes().get(at) {
            if at / FAR != block {
                block = at / FAR;
                if scan.is_known_to_fail(state, block) {
                    break;
                }
            }
            let (class, width) = self.class(text, at, byte);
            let (next, matched) = self.next(state, class);
            if matched {
                end = at;
                scan.matched();
            }
            state = next;
            if state == DEAD {
                break;
            }
            at += width;
        }
        if at == text.len() && self.matches_at_end(state) {
            end = at;
            scan.matched();
        }
        scan.failed();
        scan.budget.spend(at - start)?;
        Ok((end > start).then_some(end))
    }

    /// The class of the character at `at`, whose first byte is `byte`, and its length.
    #[inline]
    fn class(&self, text: &str, at: usize, byte: u8) -> (u8, usize) {
        if byte < 128 {
            return (self.classes.class_of_ascii(byte), 1);
        }
        // Every position here is the start of a character.
        text[at..].chars().next().map_or((0, 1), |c| (self.classes.class_of(c), c.len_utf8()))
    }

    #[inline]
    fn next(&self, state: u32, class: u8) -> (u32, bool) {
        let entry = self.table[state as usize * self.stride + class as usize];
        (entry & !MATCHED, entry & MATCHED != 0)
    }

    fn matches_at_end(&self, state: u32) -> bool {
        self.table[state as usize * self.stride + self.stride - 1] & MATCHED != 0
    }
}

#[derive(Default)]
struct Program {
    insts: Vec<Inst>,
    sets: Vec<CharSet>,
}

impl Program {
    fn set(&mut self, set: &CharSet) -> Result<usize, String> {
        match self.sets.iter().position(|s| s == set) {
            Some(i) => Ok(i),
            None if self.sets.len() == MAX_SETS => Err(format!("more than {MAX_SETS} different character classes")),
            None => {
                self.sets.push(set.clone());
                Ok(self.sets.len() - 1)
            }
        }
    }

    fn push(&mut self, inst: Inst) -> Result<usize, String> {
        if self.insts.len() >= MAX_INSTRUCTIONS {
            return Err("a pattern this large".to_owned());
        }
        self.insts.push(inst);
        Ok(self.insts.len() - 1)
    }

    /// Appends the instructions of `node`, which continue at the instruction after the last of them.
    fn emit(&mut self, node: &Node) -> Result<(), String> {
        match node {
            Node::Set(set) => {
                let set = self.set(set)?;
                self.push(Inst::Set(set))?;
            }
            Node::Ahead(set, or_end) => {
                let set = self.set(set)?;
                self.push(Inst::Ahead(set, *or_end))?;
            }
            Node::Concat(parts) => {
                for part in parts {
                    self.emit(part)?;
                }
            }
            Node::Alternatives(branches) => {
                let mut jumps = Vec::new();
                for (i, branch) in branches.iter().enumerate() {
                    if i + 1 == branches.len() {
                        self.emit(branch)?;
                    } else {
                        let split = self.push(Inst::Split(self.insts.len() + 1, 0))?;
                        self.emit(branch)?;
                        jumps.push(self.push(Inst::Jump(0))?);
                        self.insts[split] = Inst::Split(split + 1, self.insts.len());
                    }
                }
                for jump in jumps {
                    self.insts[jump] = Inst::Jump(self.insts.len());
                }
            }
            Node::Repeat(inner, min, max) => {
                for _ in 0..*min {
                    let before = self.insts.len();
                    self.emit(inner)?;
                    if self.insts.len() == before {
                        break; // Nothing, however often.
                    }
                }
                match max {
                    None => {
                        let split = self.push(Inst::Split(0, 0))?;
                        self.emit(inner)?;
                        self.push(Inst::Jump(split))?;
                        self.insts[split] = Inst::Split(split + 1, self.insts.len());
                    }
                    Some(max) => {
                        let mut splits = Vec::new();
                        for _ in *min..*max {
                            splits.push(self.push(Inst::Split(0, 0))?);
                            self.emit(inner)?;
                        }
                        for split in splits {
                            self.insts[split] = Inst::Split(split + 1, self.insts.len());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Subset construction over ordered thread lists, so that earlier alternatives keep winning. A state is the list of
    /// threads before the next character is known; look-ahead is decided when it is.
    fn determinize(&self, classes: &ClassMap) -> Result<(Vec<u32>, usize), String> {
        let stride = classes.count() + 1;
        let mut numbers: HashMap<Vec<usize>, u32> = HashMap::from([(Vec::new(), DEAD), (vec![0], START)]);
        let mut states: Vec<Vec<usize>> = vec![Vec::new(), vec![0]];
        let mut table = Vec::new();
        let mut visited = vec![false; self.insts.len()];
        let mut done = 0;
        let mut steps = 0;
        while done < states.len() {
            for class in 0..stride {
                let next_class = (class + 1 < stride).then_some(class);
                let (threads, matched) = self.step(&states[done], next_class, classes, &mut visited, &mut steps);
                if steps > MAX_THREAD_STEPS {
                    return Err("a pattern this large".to_owned());
                }
                let number = match numbers.get(&threads) {
                    Some(&number) => number,
                    None => {
                        if states.len() >= MAX_STATES {
                            return Err("a pattern this large".to_owned());
                        }
                        let number = states.len() as u32;
                        numbers.insert(threads.clone(), number);
                        states.push(threads);
                        number
                    }
                };
                table.push(if matched { number | MATCHED } else { number });
            }
            done += 1;
        }
        Ok((table, stride))
    }

    /// The threads after reading a character of `class` (`None`: the end of the text), and whether a match ends before it.
    fn step(
        &self,
        from: &[usize],
        class: Option<usize>,
        classes: &ClassMap,
        visited: &mut [bool],
        steps: &mut usize,
    ) -> (Vec<usize>, bool) {
        visited.fill(false);
        *steps += visited.len() / 64;
        let mut next = Vec::new();
        let mut stack: Vec<usize> = from.iter().rev().copied().collect();
        while let Some(pc) = stack.pop() {
            *steps += 1;
            if std::mem::replace(&mut visited[pc], true) {
                continue;
            }
            match self.insts[pc] {
                Inst::Set(set) => {
                    if class.is_some_and(|class| classes.in_set(class, set)) {
                        next.push(pc + 1);
                    }
                }
                Inst::Ahead(set, or_end) => {
                    if class.map_or(or_end, |class| classes.in_set(class, set)) {
                        stack.push(pc + 1);
                    }
                }
                Inst::Split(first, second) => {
                    stack.push(second);
                    stack.push(first);
                }
                Inst::Jump(to) => stack.push(to),
                // Threads after this one are worse than the match that was found.
                Inst::Match => return (next, true),
            }
        }
        (next, false)
    }
}

#[cfg(test)]
mod tests {
    use akunu_limits::Limits;

    use super::*;
    use crate::budget::Budget;

    fn pieces<'t>(pattern: &str, text: &'t str) -> Vec<&'t str> {
        let pattern = Pattern::new(pattern).unwrap();
        let budget = Budget::new(text.len(), &Limits::default());
        let mut scan = Scan::new(text, &budget);
        let mut found = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let end = pattern
                .match_at(at, &mut scan)
                .unwrap()
                .unwrap_or_else(|| at + text[at..].chars().next().unwrap().len_utf8());
            found.push(&text[at..end]);
            at = end;
        }
        found
    }

    #[test]
    fn earlier_alternatives_and_longer_repeats_win() {
        for (pattern, text, expected) in [
            ("a|ab", "ab", vec!["a", "b"]),
            ("ab|a", "ab", vec!["ab"]),
            ("a?ab", "ab", vec!["ab"]),
            (r"\p{N}{1,3}", "12345", vec!["123", "45"]),
            (r"\s+(?!\S)|\s+", "   x", vec!["  ", " ", "x"]),
            (r"\s+(?!\S)|\s+", "x   ", vec!["x", "   "]),
            (r"\s*[\r\n]+|\s+", " \n \n  x", vec![" \n \n", "  ", "x"]),
            (r"a++a|b", "aab", vec!["a", "a", "b"]),
            (r"a?+ab", "aab", vec!["aab"]),
            (r"a?+ab", "ab", vec!["a", "b"]),
            (r"a{1,2}+a", "aaa", vec!["aaa"]),
            (r"a{1,2}+a", "aa", vec!["a", "a"]),
            (r"\s++$|\s", " \n", vec![" \n"]),
            (r"(?i:'s|'ll)|'", "'S'lL'x", vec!["'S", "'lL", "'", "x"]),
            (r"[A-Z]*[a-z]+|[A-Z]+", "ABcDEF", vec!["ABc", "DEF"]),
            (r"(?:ab)+c|a", "ababd", vec!["a", "b", "a", "b", "d"]),
            (r"(?=a)[a-z]+", "bac", vec!["b", "ac"]),
        ] {
            assert_eq!(pieces(pattern, text), expected, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn what_is_not_regular_or_too_large_is_refused_by_name() {
        for (pattern, what) in [
            (r"(a)\1", "\\1"),
            (r"\bfoo", "\\b"),
            (r"a+?", "lazy"),
            (r"(?<=a)b", "group"),
            (r"(?!ab)c", "look-ahead"),
            (r"(a", "parenthesis"),
            (r"a)", "parenthesis"),
            (r"[a", "bracket"),
            (r"a{2000}", "1024"),
            (r"((a{1000}){1000}){1000}", "large"),
            (r"\p{Nonsense}", "Nonsense"),
            (r"*", "here"),
        ] {
            let error = Pattern::new(pattern).err().unwrap_or_else(|| panic!("{pattern} was accepted")).to_string();
            assert!(error.contains(what), "{pattern}: {error}");
        }
        assert!(Pattern::new(&"(".repeat(5000)).is_err());
        assert!(Pattern::new(&format!("(?:{}){{900}}", "a".repeat(300))).is_err());
        // Exponentially many subsets.
        assert!(Pattern::new("[ab]*a[ab]{20}").is_err());
    }
}
