//! A prefix cache outside of its engine: what was remembered stays while the model is gone, and goes back into the KV cache
//! when the same model is loaded again.

use super::prefix::PrefixCache;
use crate::Engine;
use akunu_plan::NO_BLOCK;
use std::collections::HashMap;

/// What a [`Scheduler`](crate::Scheduler) remembered of finished texts, in host memory.
pub struct Snapshot {
    /// Of the engine: the same weights, and the same layout of the KV cache.
    fingerprint: [u8; 32],
    context: usize,
    /// Most recently used first, so that every node comes after its parent.
    nodes: Vec<Kept>,
    bytes: u64,
}

/// A node of the prefix cache.
struct Kept {
    /// Its parent's place among the nodes; `None`: the root.
    parent: Option<usize>,
    tokens: Box<[u32]>,
    /// By KV group; `None` where a window had left it.
    blocks: Vec<Option<Box<[u8]>>>,
}

impl Snapshot {
    /// Copies up to `most` bytes of what was used last.
    pub(crate) fn take(engine: &Engine, fingerprint: [u8; 32], cache: &PrefixCache, most: u64) -> Snapshot {
        let mut snapshot = Snapshot { fingerprint, context: engine.context(), nodes: Vec::new(), bytes: 0 };
        let mut places = HashMap::new();
        for (id, node) in cache.recent() {
            let parent = match node.parent() {
                None => None,
                Some(id) => match places.get(&id) {
                    Some(&place) => Some(place),
                    // Nobody would find it.
                    None => continue,
                },
            };
            let there = node.blocks.iter().enumerate().filter(|(_, block)| **block != NO_BLOCK);
            let stored: usize = there.map(|(group, _)| engine.block_bytes(group)).sum();
            let bytes = snapshot.bytes + (stored + size_of_val(&*node.tokens)) as u64;
            if bytes > most {
                break;
            }
            let read = |(group, &block): (usize, &u32)| (block != NO_BLOCK).then(|| engine.read_block(group, block));
            places.insert(id, snapshot.nodes.len());
            snapshot.bytes = bytes;
            snapshot.nodes.push(Kept {
                parent,
                tokens: node.tokens.clone(),
                blocks: node.blocks.iter().enumerate().map(read).collect(),
            });
        }
        snapshot
    }

    /// Puts it back into an empty cache as far as there is room; how many positions that were. Nothing where the engine is
    /// another one.
    pub(crate) fn restore(&self, engine: &mut Engine, fingerprint: [u8; 32], cache: &mut PrefixCache) -> usize {
        if self.fingerprint != fingerprint || self.context != engine.context() || cache.len() > 0 {
            return 0;
        }
        let (mut ids, mut positions) = (Vec::with_capacity(self.nodes.len()), 0);
        for node in &self.nodes {
            // Holds the blocks until the cache does.
            let mut sequence = engine.sequence();
            let stored = node.blocks.iter().enumerate();
            let blocks = stored.map(|(group, stored)| engine.push_block(&mut sequence, group, stored.as_deref()));
            let Some(blocks) = blocks.collect::<Option<Vec<u32>>>() else { break };
            let Some(id) = cache.put_back(node.parent.map(|place| ids[place]), &node.tokens, blocks) else { break };
            ids.push(id);
            positions += node.tokens.len();
        }
        // As they were used: parents after their children.
        cache.touch(&ids);
        positions
    }

    /// Bytes of host memory that it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Positions of all texts together; a beginning that they share counts once.
    pub fn positions(&self) -> usize {
        self.nodes.iter().map(|node| node.tokens.len()).sum()
    }
}
