//! Merging symbols into tokens, best pair first: the loop shared by byte-pair encoding and SentencePiece.
//!
//! Words of ordinary length are merged by repeated search. Long runs without a break (a megabyte of one letter) go
//! through a queue of buckets, one bucket per rank: pairs of equal rank come in order of position, so a bucket is a
//! sorted list and the whole costs little more than one pass.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

/// Which neighbours may become one token, and how good that is.
pub(crate) trait Pairs {
    /// The rank (lower is better) and the id of the token that `left` and `right` make. `span` is their place in the
    /// text, for rules that look at the text; it is empty where the caller gave no positions.
    fn pair(&self, left: u32, right: u32, span: Range<usize>) -> Option<[u32; 2]>;
}

/// No rank, no symbol.
const NONE: u32 = u32::MAX;
/// Up to this many symbols the quadratic search is faster than any queue.
const SHORT: usize = 40;

/// The symbols of a word, and the space in which they are merged.
#[derive(Default)]
pub(crate) struct Symbols {
    /// Token ids, or ids of the caller's own outside the vocabulary.
    pub ids: Vec<u32>,
    /// Where each symbol starts in the text; empty where the rule needs no text.
    pub starts: Vec<u32>,
    /// Of the pair that begins at each symbol: `[rank, merged id]`.
    pairs: Vec<[u32; 2]>,
}

impl Symbols {
    pub fn clear(&mut self) {
        self.ids.clear();
        self.starts.clear();
    }

    /// Merges until no pair is left. `end` is the length of the text that `starts` points into.
    pub fn merge(&mut self, rule: &impl Pairs, end: usize) {
        match self.ids.len() {
            0 | 1 => {}
            n if n <= SHORT => self.merge_short(rule, end),
            _ => self.merge_long(rule, end),
        }
    }

    fn span(&self, left: usize, after: usize, end: usize) -> Range<usize> {
        if self.starts.is_empty() {
            0..0
        } else {
            self.starts[left] as usize..self.starts.get(after).map_or(end, |&s| s as usize)
        }
    }

    fn lookup(&self, rule: &impl Pairs, left: usize, right: usize, after: usize, end: usize) -> [u32; 2] {
        rule.pair(self.ids[left], self.ids[right], self.span(left, after, end)).unwrap_or([NONE, 0])
    }

    fn merge_short(&mut self, rule: &impl Pairs, end: usize) {
        let n = self.ids.len();
        self.pairs.clear();
        for i in 0..n - 1 {
            let pair = self.lookup(rule, i, i + 1, i + 2, end);
            self.pairs.push(pair);
        }
        loop {
            let mut best = NONE;
            let mut at = 0;
            for (i, pair) in self.pairs.iter().enumerate() {
                if pair[0] < best {
                    (best, at) = (pair[0], i);
                }
            }
            if best == NONE {
                return;
            }
            self.ids[at] = self.pairs[at][1];
            self.ids.remove(at + 1);
            self.pairs.remove(at);
            if !self.starts.is_empty() {
                self.starts.remove(at + 1);
            }
            if at < self.pairs.len() {
                self.pairs[at] = self.lookup(rule, at, at + 1, at + 2, end);
            }
            if at > 0 {
                self.pairs[at - 1] = self.lookup(rule, at - 1, at, at + 1, end);
            }
        }
    }

    fn merge_long(&mut self, rule: &impl Pairs, end: usize) {
        let n = self.ids.len();
        let mut prev: Vec<u32> = (0..n as u32).map(|i| i.wrapping_sub(1)).collect();
        let mut next: Vec<u32> = (1..=n as u32).collect();
        let after = |next: &[u32], i: usize| if i < n { next[i] as usize } else { n };
        let mut queue = Queue::default();
        self.pairs.clear();
        self.pairs.resize(n, [NONE, 0]);
        for i in 0..n - 1 {
            self.pairs[i] = self.lookup(rule, i, i + 1, i + 2, end);
            queue.push(self.pairs[i][0], i as u32);
        }
        while let Some((rank, at)) = queue.pop() {
            let left = at as usize;
            if self.pairs[left][0] != rank {
                continue; // The pair that was queued is gone.
            }
            let right = next[left] as usize;
            let following = next[right] as usize;
            self.ids[left] = self.pairs[left][1];
            self.ids[right] = NONE;
            self.pairs[right] = [NONE, 0];
            next[left] = following as u32;
            self.pairs[left] = [NONE, 0];
            if following < n {
                prev[following] = at;
                let past = after(&next, following);
                self.pairs[left] = self.lookup(rule, left, following, past, end);
                queue.push(self.pairs[left][0], at);
            }
            if prev[left] != NONE {
                let before = prev[left] as usize;
                self.pairs[before] = self.lookup(rule, before, left, following, end);
                queue.push(self.pairs[before][0], before as u32);
            }
        }
        // A merged-away symbol keeps its place until here so that positions stay comparable.
        let mut kept = 0;
        let mut at = 0;
        while at < n {
            self.ids[kept] = self.ids[at];
            if !self.starts.is_empty() {
                self.starts[kept] = self.starts[at];
            }
            kept += 1;
            at = next[at] as usize;
        }
        self.ids.truncate(kept);
        self.starts.truncate(kept);
        if n > 1 << 16 {
            // One huge word must not hold its memory for the rest of the text.
            self.ids.shrink_to_fit();
            self.pairs = Vec::new();
        }
    }
}

/// Positions ordered by rank, then by position.
#[derive(Default)]
struct Queue {
    ranks: BinaryHeap<Reverse<u32>>,
    buckets: HashMap<u32, Bucket>,
    /// The last rank pushed to and its bucket's positions are often wanted again: uniform text has few ranks.
    current: Option<(u32, Bucket)>,
}

/// Positions of one rank. What comes before the first pop is a list, sorted when it is opened; what comes later, a heap.
#[derive(Default)]
struct Bucket {
    list: Vec<u32>,
    taken: usize,
    opened: bool,
    late: BinaryHeap<Reverse<u32>>,
}

impl Bucket {
    fn push(&mut self, position: u32) {
        if self.opened { self.late.push(Reverse(position)) } else { self.list.push(position) }
    }

    fn is_empty(&self) -> bool {
        self.taken == self.list.len() && self.late.is_empty()
    }

    fn pop(&mut self) -> Option<u32> {
        if !self.opened {
            self.opened = true;
            self.list.sort_unstable();
        }
        match (self.list.get(self.taken), self.late.peek()) {
            (Some(&first), Some(&Reverse(late))) if late < first => self.late.pop().map(|p| p.0),
            (Some(&first), _) => {
                self.taken += 1;
                Some(first)
            }
            (None, _) => self.late.pop().map(|p| p.0),
        }
    }
}

impl Queue {
    fn push(&mut self, rank: u32, position: u32) {
        if rank == NONE {
            return;
        }
        if let Some((open, bucket)) = &mut self.current
            && *open == rank
        {
            bucket.push(position);
            return;
        }
        let bucket = self.buckets.entry(rank).or_insert_with(|| {
            self.ranks.push(Reverse(rank));
            Bucket::default()
        });
        bucket.push(position);
    }

    fn pop(&mut self) -> Option<(u32, u32)> {
        loop {
            let best = self.ranks.peek().map(|r| r.0);
            if let Some((rank, mut bucket)) = self.current.take() {
                if bucket.is_empty() {
                    // Dropped: a later push of this rank makes a new bucket.
                } else if best.is_some_and(|best| best < rank) {
                    self.ranks.push(Reverse(rank));
                    self.buckets.insert(rank, bucket);
                } else {
                    let position = bucket.pop();
                    self.current = Some((rank, bucket));
                    return position.map(|p| (rank, p));
                }
            }
            let Reverse(rank) = self.ranks.pop()?;
            let bucket = self.buckets.remove(&rank)?;
            self.current = Some((rank, bucket));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank and result of a pair by arithmetic: any rule will do to compare the two loops.
    struct Rule(u32);

    impl Pairs for Rule {
        fn pair(&self, left: u32, right: u32, _: Range<usize>) -> Option<[u32; 2]> {
            let mix = left.wrapping_mul(31).wrapping_add(right).wrapping_mul(self.0 | 1) >> 3;
            (!mix.is_multiple_of(3) && left < 500 && right < 500)
                .then_some([mix % 7, (left * 7 + right * 13 + 1) % 600])
        }
    }

    #[test]
    fn long_and_short_loops_agree() {
        for seed in 0..400u32 {
            let n = 2 + (seed as usize % 39);
            let ids: Vec<u32> = (0..n as u32).map(|i| (i * i * seed + i) % 5).collect();
            let mut short = Symbols { ids: ids.clone(), ..Default::default() };
            let mut long = Symbols { ids, ..Default::default() };
            short.merge_short(&Rule(seed), 0);
            long.merge_long(&Rule(seed), 0);
            assert_eq!(short.ids, long.ids, "seed {seed}");
        }
    }
}
