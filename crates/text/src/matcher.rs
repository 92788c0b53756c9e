//! Finding any of many fixed texts (Aho and Corasick's automaton), leftmost and longest first.
//!
//! The automaton reads a text backwards: at each position it then knows the longest match that starts there, and one pass
//! is enough. Forwards, a match is sure only after whatever longer one may still come, and what was read for that would
//! be read again for the next match.

use std::ops::Range;

use akunu_limits::{Limits, over};

use crate::error::Error;
use crate::hash::PairTable;

const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;
/// So many bytes of a text are read backwards at a time: what was found in them takes memory.
const PART: usize = 1 << 20;

pub(crate) struct Matcher {
    /// `[state, byte]` to `[state, _]`.
    edges: PairTable,
    states: Vec<State>,
    /// `[byte]`: whether some text ends with it.
    ends: [bool; 256],
    lengths: Vec<u32>,
    /// The length of the longest text.
    deepest: usize,
}

#[derive(Clone, Copy)]
struct State {
    depth: u32,
    /// The state of the longest proper prefix that is an end of some text.
    fallback: u32,
    /// The longest text that starts here, or `NONE`.
    found: u32,
}

impl Matcher {
    /// Of equal texts the first counts; empty ones are never found.
    pub fn new<'a>(texts: impl ExactSizeIterator<Item = &'a [u8]> + Clone, limits: &Limits) -> Result<Self, Error> {
        let total: usize = texts.clone().map(<[u8]>::len).sum();
        // Every byte of every text is a state, and those have 32 bits.
        if total as u64 > limits.added_token_bytes.min((u32::MAX >> 1).into()) {
            return Err(Error::AddedTokens { bytes: total, over: over!(limits, added_token_bytes) });
        }
        let mut edges = PairTable::with_capacity(total);
        let mut states = vec![State { depth: 0, fallback: ROOT, found: NONE }];
        let mut ends = [false; 256];
        let mut lengths = Vec::with_capacity(texts.len());
        let mut links: Vec<(u32, u8, u32)> = Vec::with_capacity(total);
        for (number, text) in texts.enumerate() {
            lengths.push(text.len() as u32);
            let mut state = ROOT;
            for &byte in text.iter().rev() {
                state = match edges.get([state, u32::from(byte)]) {
                    Some([child, _]) => child,
                    None => {
                        let child = states.len() as u32;
                        let depth = states[state as usize].depth + 1;
                        states.push(State { depth, fallback: ROOT, found: NONE });
                        edges.insert([state, u32::from(byte)], [child, 0]);
                        links.push((state, byte, child));
                        child
                    }
                };
            }
            if let Some(&last) = text.last() {
                ends[last as usize] = true;
                if states[state as usize].found == NONE {
                    states[state as usize].found = number as u32;
                }
            }
        }
        // Shallow states first: a fallback is shallower than the state it serves.
        links.sort_by_key(|&(_, _, child)| states[child as usize].depth);
        for (parent, byte, child) in links {
            let mut fallback = ROOT;
            if parent != ROOT {
                let mut from = states[parent as usize].fallback;
                loop {
                    if let Some([to, _]) = edges.get([from, u32::from(byte)]) {
                        fallback = to;
                        break;
                    }
                    if from == ROOT {
                        break;
                    }
                    from = states[from as usize].fallback;
                }
            }
            states[child as usize].fallback = fallback;
            if states[child as usize].found == NONE {
                states[child as usize].found = states[fallback as usize].found;
            }
        }
        let deepest = lengths.iter().max().map_or(0, |&length| length as usize);
        Ok(Matcher { edges, states, ends, lengths, deepest })
    }

    /// The matches in `text` from left to right: their starts, their ends and the numbers of their texts.
    pub fn matches<'m>(&'m self, text: &'m [u8]) -> impl Iterator<Item = (usize, usize, usize)> + 'm {
        // Without texts there is nothing to read for.
        let mut read = if self.deepest == 0 { text.len() } else { 0 };
        let mut longest = Vec::new();
        let mut from = 0;
        std::iter::from_fn(move || {
            loop {
                while let Some((start, number)) = longest.pop() {
                    if start >= from {
                        from = start + self.lengths[number as usize] as usize;
                        return Some((start, from, number as usize));
                    }
                }
                if read == text.len() {
                    return None;
                }
                let part = read..text.len().min(read + PART);
                read = part.end;
                longest = self.longest(text, part);
            }
        })
    }

    /// The positions in `part` of `text` where texts start, last first, each with the longest.
    fn longest(&self, text: &[u8], part: Range<usize>) -> Vec<(usize, u32)> {
        let mut found = Vec::new();
        let mut state = ROOT;
        // What starts in the part may end after it.
        let mut at = text.len().min(part.end + self.deepest);
        loop {
            if state == ROOT {
                let last = text[part.start..at].iter().rposition(|&b| self.ends[b as usize]);
                let Some(last) = last else { return found };
                at = part.start + last + 1;
            }
            if at == part.start {
                return found;
            }
            at -= 1;
            loop {
                if let Some([to, _]) = self.edges.get([state, u32::from(text[at])]) {
                    state = to;
                    break;
                }
                if state == ROOT {
                    break;
                }
                state = self.states[state as usize].fallback;
            }
            let number = self.states[state as usize].found;
            if number != NONE && at < part.end {
                found.push((at, number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(texts: &[&str], text: &str) -> Vec<String> {
        let matcher = Matcher::new(texts.iter().map(|t| t.as_bytes()), &Limits::default()).unwrap();
        let shown = |(start, end, number): (usize, usize, usize)| {
            assert_eq!(&text[start..end], texts[number]);
            format!("{start}:{}", texts[number])
        };
        matcher.matches(text.as_bytes()).map(shown).collect()
    }

    #[test]
    fn leftmost_then_longest() {
        assert_eq!(all(&["a", "ab", "abcd"], "abcxabcd"), ["0:ab", "4:abcd"]);
        assert_eq!(all(&["bcd", "abx", "c"], "abcd"), ["1:bcd"]);
        assert_eq!(all(&["he", "she", "hers"], "ushers"), ["1:she"]);
        assert_eq!(all(&["b", "abc"], "abd abc"), ["1:b", "4:abc"]);
        assert_eq!(all(&["aaa", "a"], "aaaaa"), ["0:aaa", "3:a", "4:a"]);
        assert_eq!(all(&["", "x"], "axa"), ["1:x"]);
        assert_eq!(all(&["abcde", "cdx", "bcdy"], "abcdx"), ["2:cdx"]);
        assert!(all(&[], "abc").is_empty());
    }

    #[test]
    fn matches_reach_across_parts() {
        let matcher = Matcher::new([&b"ab"[..], b"abcabc", b"c"].into_iter(), &Limits::default()).unwrap();
        let text = "abc".repeat(PART);
        let found: Vec<usize> = matcher.matches(text.as_bytes()).map(|(start, ..)| start).collect();
        let expected: Vec<usize> = (0..text.len()).step_by(6).collect();
        assert!(found == expected, "{} of {}", found.len(), expected.len());
    }

    #[test]
    fn agrees_with_a_plain_search() {
        let texts = ["ab", "ba", "abab", "bb", "aabb", "babb"];
        for n in 0..4096u32 {
            let text: String = (0..12).map(|i| if n >> i & 1 == 1 { 'a' } else { 'b' }).collect();
            let mut expected = Vec::new();
            let mut at = 0;
            while at < text.len() {
                match texts.iter().filter(|t| text[at..].starts_with(**t)).max_by_key(|t| t.len()) {
                    Some(t) => {
                        expected.push(format!("{at}:{t}"));
                        at += t.len();
                    }
                    None => at += 1,
                }
            }
            assert_eq!(all(&texts, &text), expected, "{text}");
        }
    }
}
