//! The prefix cache: what was computed for one prompt is there for the next that begins the same way.
//!
//! A tree whose edges are blocks of tokens. A node holds the KV blocks of its tokens, one per layer group; the path from
//! the root spells the text before them. Tokens themselves are the keys, in order, so that nothing can collide and the
//! child that shares most with a text is a neighbour of where the text would stand. Only leaves may be partly filled.
//!
//! Nodes are forgotten least recently used first. Whoever uses a node uses its ancestors after it, so that a leaf is
//! always older than its path, and forgetting never leaves a hole.

use crate::kv::blocks::Pools;
use crate::kv::sequence::Sequence;
use akunu_plan::{KV_BLOCK, NO_BLOCK};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;

/// Why a prompt, or the rest of it, was not in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// Nothing was: there is nothing in the cache, or the cache is off.
    Empty,
    /// No text in the cache goes on as this one does from token `at` on.
    New {
        /// The first token that is new.
        at: usize,
    },
    /// It was there, and room was needed.
    Evicted {
        /// The first token that is gone.
        at: usize,
    },
    /// The tokens are there, but a sliding window no longer holds what comes before token `at`.
    Window {
        /// The token whose window would be needed.
        at: usize,
    },
}

impl Miss {
    /// The first token that must be read.
    pub fn at(self) -> Option<usize> {
        match self {
            Miss::Empty => None,
            Miss::New { at } | Miss::Evicted { at } | Miss::Window { at } => Some(at),
        }
    }
}

impl std::fmt::Display for Miss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Miss::Empty => write!(f, "nothing is cached"),
            Miss::New { at } => write!(f, "new from token {at} on"),
            Miss::Evicted { at } => write!(f, "evicted from token {at} on"),
            Miss::Window { at } => write!(f, "outside of the sliding window from token {at} on"),
        }
    }
}

pub(crate) struct Node {
    /// Up to `KV_BLOCK`; as many as that where there are children.
    pub tokens: Box<[u32]>,
    /// By group; `NO_BLOCK` where a window had left it.
    pub blocks: Vec<u32>,
    parent: usize,
    children: BTreeMap<Box<[u32]>, usize>,
    used: u64,
    /// Hash of the path, to know it again when it is gone.
    path: u64,
}

impl Node {
    /// `None`: the root.
    pub fn parent(&self) -> Option<usize> {
        (self.parent != ROOT).then_some(self.parent)
    }
}

/// How many paths are remembered after they are gone.
const REMEMBERED: usize = 4096;
const ROOT: usize = 0;

pub(crate) struct PrefixCache {
    pools: Pools,
    windows: Vec<Option<usize>>,
    /// By id; `None` where a node is gone. The first is the root.
    nodes: Vec<Option<Node>>,
    free: Vec<usize>,
    by_use: BTreeMap<u64, usize>,
    clock: u64,
    /// Most nodes.
    budget: usize,
    evicted: HashSet<u64>,
    evicted_order: VecDeque<u64>,
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn path_hash(parent: u64, tokens: &[u32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (parent, tokens).hash(&mut hasher);
    hasher.finish()
}

impl PrefixCache {
    /// A cache of up to `budget` blocks of positions.
    pub fn new(pools: Pools, windows: Vec<Option<usize>>, budget: usize) -> Self {
        let root = Node {
            tokens: Box::default(),
            blocks: Vec::new(),
            parent: ROOT,
            children: BTreeMap::new(),
            used: 0,
            path: 0,
        };
        Self {
            pools,
            windows,
            nodes: vec![Some(root)],
            free: Vec::new(),
            by_use: BTreeMap::new(),
            clock: 0,
            budget,
            evicted: HashSet::new(),
            evicted_order: VecDeque::new(),
        }
    }

    /// Blocks of positions held.
    pub fn len(&self) -> usize {
        self.by_use.len()
    }

    fn node(&self, id: usize) -> &Node {
        // Ids come from `by_use` and from children, which are removed with their node.
        self.nodes[id].as_ref().expect("an id of a node that is there")
    }

    fn node_mut(&mut self, id: usize) -> &mut Node {
        self.nodes[id].as_mut().expect("an id of a node that is there")
    }

    /// All nodes by id, most recently used first: parents before their children.
    pub fn recent(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.by_use.values().rev().map(|&id| (id, self.node(id)))
    }

    /// Adds a node that another cache had; `None` where there is no room for it.
    pub fn put_back(&mut self, parent: Option<usize>, tokens: &[u32], blocks: Vec<u32>) -> Option<usize> {
        (self.len() < self.budget).then(|| self.add(parent.unwrap_or(ROOT), tokens, blocks))
    }

    /// The child that shares most with `tokens`, and how much.
    fn nearest(&self, parent: usize, tokens: &[u32]) -> Option<(usize, usize)> {
        let children = &self.node(parent).children;
        let before = children.range::<[u32], _>((Bound::Unbounded, Bound::Included(tokens))).next_back();
        let after = children.range::<[u32], _>((Bound::Excluded(tokens), Bound::Unbounded)).next();
        let shared = [before, after].into_iter().flatten().map(|(key, id)| (common(key, tokens), *id));
        shared.filter(|s| s.0 > 0).max_by_key(|s| s.0).map(|(shared, id)| (id, shared))
    }

    /// A sequence with as much of `tokens` as is there, all but the last token at most, and why it is not more.
    pub fn attach(&mut self, tokens: &[u32], mut sequence: Sequence) -> (Sequence, Option<Miss>) {
        let most = tokens.len().saturating_sub(1);
        let (mut path, mut len, mut at) = (Vec::new(), 0, ROOT);
        while len < most {
            let block = &tokens[len..tokens.len().min(len + KV_BLOCK)];
            let Some((id, shared)) = self.nearest(at, block) else { break };
            path.push(id);
            len += shared;
            if shared < KV_BLOCK {
                break;
            }
            at = id;
        }
        len = len.min(most);
        let known = len;
        while len > 0 && !self.holds(&path, len) {
            // Down to whole blocks: more of a block that is missing does not help.
            len = (len - 1) / KV_BLOCK * KV_BLOCK;
        }
        path.truncate(len.div_ceil(KV_BLOCK));
        let miss = if len == most {
            None
        } else if self.len() == 0 && self.evicted.is_empty() {
            Some(Miss::Empty)
        } else if len < known {
            Some(Miss::Window { at: len })
        } else {
            let parent = path.last().filter(|_| len.is_multiple_of(KV_BLOCK)).map_or(0, |id| self.node(*id).path);
            let next = &tokens[len / KV_BLOCK * KV_BLOCK..tokens.len().min((len / KV_BLOCK + 1) * KV_BLOCK)];
            let gone = len.is_multiple_of(KV_BLOCK) && self.evicted.contains(&path_hash(parent, next));
            Some(if gone { Miss::Evicted { at: len } } else { Miss::New { at: len } })
        };
        let tables = self.tables(&path, len);
        sequence.adopt(tables, len);
        self.touch(&path);
        (sequence, miss)
    }

    /// Whether every block that a row at `len` sees is there.
    fn holds(&self, path: &[usize], len: usize) -> bool {
        let blocks = len.div_ceil(KV_BLOCK);
        (0..self.windows.len()).all(|group| {
            let first = self.first_seen(group, len);
            path[first.min(blocks)..blocks].iter().all(|id| self.node(*id).blocks[group] != NO_BLOCK)
        })
    }

    fn first_seen(&self, group: usize, len: usize) -> usize {
        self.windows[group].map_or(0, |w| (len + 1).saturating_sub(w)) / KV_BLOCK
    }

    fn tables(&self, path: &[usize], len: usize) -> Vec<Vec<u32>> {
        let table = |group| {
            let first = self.first_seen(group, len);
            let block = |(i, id): (usize, &usize)| if i < first { NO_BLOCK } else { self.node(*id).blocks[group] };
            path.iter().enumerate().map(block).collect()
        };
        (0..self.windows.len()).map(table).collect()
    }

    /// Marks a path as used, the root last.
    pub fn touch(&mut self, path: &[usize]) {
        for &id in path.iter().rev() {
            self.clock += 1;
            let now = self.clock;
            let before = std::mem::replace(&mut self.node_mut(id).used, now);
            self.by_use.remove(&before);
            self.by_use.insert(now, id);
        }
    }

    /// Remembers what `sequence` holds of `tokens`; of the last block only a full one, unless `partly`.
    pub fn insert(&mut self, tokens: &[u32], sequence: &Sequence, partly: bool) {
        if self.budget == 0 {
            return;
        }
        let len = sequence.len().min(tokens.len());
        let len = if partly { len } else { len / KV_BLOCK * KV_BLOCK };
        let (mut path, mut at) = (Vec::new(), ROOT);
        for (i, block) in tokens[..len].chunks(KV_BLOCK).enumerate() {
            let here = |group: usize| sequence.table(group).get(i).copied().unwrap_or(NO_BLOCK);
            match self.nearest(at, block) {
                Some((id, shared)) if shared == block.len() => self.fill_in(id, here),
                nearest => {
                    // A shorter leaf that this block begins with is replaced by it.
                    if let Some((id, shared)) = nearest.filter(|(id, s)| *s == self.node(*id).tokens.len()) {
                        debug_assert!(shared < KV_BLOCK && self.node(id).children.is_empty());
                        self.remove(id);
                    }
                    let blocks: Vec<u32> = (0..self.windows.len()).map(here).collect();
                    self.add(at, block, blocks);
                }
            }
            let Some((id, _)) = self.nearest(at, block) else { break };
            path.push(id);
            at = id;
        }
        self.touch(&path);
        while self.len() > self.budget && self.evict() {}
    }

    /// Gives a node the blocks that a window had left when it was made. A shorter part of a longer leaf gives none.
    fn fill_in(&mut self, id: usize, here: impl Fn(usize) -> u32) {
        let full = self.node(id).tokens.len() == KV_BLOCK;
        for group in 0..self.windows.len() {
            let block = here(group);
            if full && block != NO_BLOCK && self.node(id).blocks[group] == NO_BLOCK {
                self.pools.with(|pools| pools[group].share(block));
                self.node_mut(id).blocks[group] = block;
            }
        }
    }

    fn add(&mut self, parent: usize, tokens: &[u32], blocks: Vec<u32>) -> usize {
        self.pools.with(|pools| {
            for (pool, block) in pools.iter_mut().zip(&blocks).filter(|(_, b)| **b != NO_BLOCK) {
                pool.share(*block);
            }
        });
        self.clock += 1;
        let path = path_hash(self.node(parent).path, tokens);
        let tokens: Box<[u32]> = tokens.into();
        let node = Node { tokens: tokens.clone(), blocks, parent, children: BTreeMap::new(), used: self.clock, path };
        let id = self.free.pop().unwrap_or(self.nodes.len());
        if id == self.nodes.len() {
            self.nodes.push(None);
        }
        self.nodes[id] = Some(node);
        self.by_use.insert(self.clock, id);
        self.node_mut(parent).children.insert(tokens, id);
        id
    }

    fn remove(&mut self, id: usize) -> Option<u64> {
        let node = self.nodes[id].take()?;
        self.pools.with(|pools| {
            for (pool, block) in pools.iter_mut().zip(&node.blocks).filter(|(_, b)| **b != NO_BLOCK) {
                pool.release(*block);
            }
        });
        self.by_use.remove(&node.used);
        self.node_mut(node.parent).children.remove(&node.tokens);
        self.free.push(id);
        Some(node.path)
    }

    /// Forgets the block that was not used for longest; false where there is none.
    pub fn evict(&mut self) -> bool {
        let oldest = self.by_use.values().copied().find(|id| self.node(*id).children.is_empty());
        let Some(path) = oldest.and_then(|id| self.remove(id)) else { return false };
        if self.evicted.insert(path) {
            self.evicted_order.push_back(path);
        }
        if self.evicted_order.len() > REMEMBERED
            && let Some(old) = self.evicted_order.pop_front()
        {
            self.evicted.remove(&old);
        }
        true
    }
}

impl Drop for PrefixCache {
    fn drop(&mut self) {
        while self.evict() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rig {
        pools: Pools,
        windows: Vec<Option<usize>>,
        cache: PrefixCache,
    }

    impl Rig {
        fn new(windows: &[Option<usize>], budget: usize) -> Self {
            let pools = Pools::new(windows.iter().map(|_| 1000));
            let cache = PrefixCache::new(pools.clone(), windows.to_vec(), budget);
            Self { pools, windows: windows.to_vec(), cache }
        }

        fn empty(&self) -> Sequence {
            Sequence::new(self.pools.clone(), self.windows.clone())
        }

        /// A sequence that has computed `tokens`, chunk by chunk; remembered as it grows.
        fn compute(&mut self, tokens: &[u32]) -> Sequence {
            let mut sequence = self.empty();
            for chunk in tokens.chunks(32) {
                sequence.reserve(chunk.len(), &mut Vec::new()).unwrap();
                sequence.set_len(sequence.len() + chunk.len());
                self.cache.insert(tokens, &sequence, false);
            }
            self.cache.insert(tokens, &sequence, true);
            sequence
        }

        fn find(&mut self, tokens: &[u32]) -> (usize, Option<Miss>) {
            let (sequence, miss) = self.cache.attach(tokens, self.empty());
            (sequence.len(), miss)
        }

        fn free(&self) -> usize {
            self.pools.with(|p| p[0].free())
        }
    }

    fn text(len: u32, from: u32) -> Vec<u32> {
        (0..len).map(|i| if i < from { i } else { i + 10_000 }).collect()
    }

    #[test]
    fn what_two_texts_share_is_found_to_the_token() {
        let mut rig = Rig::new(&[None], 100);
        assert_eq!(rig.find(&text(300, 300)), (0, Some(Miss::Empty)));
        drop(rig.compute(&text(300, 300)));
        for shared in [1, 5, 63, 64, 65, 128, 200, 299] {
            let tokens = text(400, shared);
            assert_eq!(rig.find(&tokens), (shared as usize, Some(Miss::New { at: shared as usize })));
        }
        assert_eq!(rig.find(&text(400, 0)), (0, Some(Miss::New { at: 0 })));
        // The last token is always computed: its logits are wanted.
        assert_eq!(rig.find(&text(300, 300)), (299, None));
        assert_eq!(rig.find(&text(128, 128)), (127, None));
    }

    #[test]
    fn shared_blocks_are_stored_once_and_given_back() {
        let mut rig = Rig::new(&[None], 100);
        drop(rig.compute(&text(640, 640)));
        assert_eq!(rig.free(), 990);
        drop(rig.compute(&text(640, 640)));
        assert_eq!(rig.free(), 990);
        // A text that leaves the other after five blocks adds five.
        drop(rig.compute(&text(640, 320)));
        assert_eq!((rig.free(), rig.cache.len()), (985, 15));
        while rig.cache.evict() {}
        assert_eq!((rig.free(), rig.cache.len()), (1000, 0));
    }

    #[test]
    fn the_least_recently_used_goes_first_and_the_end_of_a_text_before_its_beginning() {
        let mut rig = Rig::new(&[None], 8);
        let (old, new) = (text(256, 256), text(256, 0));
        drop(rig.compute(&old));
        drop(rig.compute(&new));
        rig.find(&old);
        drop(rig.compute(&(50_000..50_128).collect::<Vec<_>>()));
        assert_eq!(rig.cache.len(), 8);
        assert_eq!(rig.find(&new), (128, Some(Miss::Evicted { at: 128 })));
        assert_eq!(rig.find(&old).0, 255);
    }

    #[test]
    fn a_longer_text_takes_the_place_of_its_beginning() {
        let mut rig = Rig::new(&[None], 100);
        drop(rig.compute(&text(100, 100)));
        drop(rig.compute(&text(120, 120)));
        assert_eq!(rig.cache.len(), 2);
        drop(rig.compute(&text(80, 80)));
        assert_eq!((rig.cache.len(), rig.find(&text(200, 120)).0), (2, 120));
    }

    #[test]
    fn a_window_is_found_where_its_blocks_are_still_there() {
        let mut rig = Rig::new(&[None, Some(100)], 100);
        let tokens = text(640, 640);
        let sequence = rig.compute(&tokens);
        drop(sequence);
        // Blocks were remembered as they were filled: any beginning will do.
        assert_eq!(rig.find(&text(700, 640)).0, 640);
        assert_eq!(rig.find(&text(700, 320)).0, 320);
        // Remembered only at the end, a window has but its last blocks.
        let mut rig = Rig::new(&[None, Some(100)], 100);
        let mut sequence = rig.empty();
        for _ in 0..10 {
            sequence.reserve(64, &mut Vec::new()).unwrap();
            sequence.set_len(sequence.len() + 64);
        }
        rig.cache.insert(&tokens, &sequence, true);
        assert_eq!(rig.find(&text(700, 640)).0, 640);
        assert_eq!(rig.find(&text(700, 320)), (0, Some(Miss::Window { at: 0 })));
    }
}
