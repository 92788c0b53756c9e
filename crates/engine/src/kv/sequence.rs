//! A sequence: which KV blocks hold its positions.

use crate::Error;
use crate::kv::blocks::Pools;
use akunu_plan::{KV_BLOCK, NO_BLOCK};

/// A block to be copied before it is written: group, from, to.
pub type Copy = (usize, u32, u32);

/// A conversation's place in the KV cache of one engine.
///
/// Forking copies nothing; the blocks return to the engine when the last sequence drops them.
pub struct Sequence {
    pools: Pools,
    /// By group: the block of every `KV_BLOCK` positions; `NO_BLOCK` where the window has left it.
    tables: Vec<Vec<u32>>,
    windows: Vec<Option<usize>>,
    /// The group that an encoder fills, all at once.
    encoded: Option<usize>,
    len: usize,
}

impl Sequence {
    pub(crate) fn new(pools: Pools, windows: Vec<Option<usize>>) -> Self {
        Self { tables: vec![Vec::new(); windows.len()], pools, windows, encoded: None, len: 0 }
    }

    /// The same, with a group that an encoder fills.
    pub(crate) fn with_encoder(mut self, encoded: Option<usize>) -> Self {
        self.encoded = encoded;
        self
    }

    /// Positions stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no position.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Another sequence with the same past, sharing its blocks.
    pub fn fork(&self) -> Sequence {
        self.pools.with(|pools| {
            for (pool, table) in pools.iter_mut().zip(&self.tables) {
                table.iter().filter(|b| **b != NO_BLOCK).for_each(|b| pool.share(*b));
            }
        });
        Sequence {
            pools: self.pools.clone(),
            tables: self.tables.clone(),
            windows: self.windows.clone(),
            encoded: self.encoded,
            len: self.len,
        }
    }

    /// Forgets everything after the first `len` positions. Positions that a window has left are
    /// gone for good: `None` where they would be needed, and the sequence stays as it was.
    pub fn truncate(&mut self, len: usize) -> Option<()> {
        if len > self.len {
            return None;
        }
        // The next row, at `len`, sees back to `len - window + 1`.
        let encoded = self.encoded;
        for (group, (table, window)) in self.tables.iter().zip(&self.windows).enumerate() {
            if Some(group) == encoded {
                continue;
            }
            let first = window.map_or(0, |w| (len + 1).saturating_sub(w)) / KV_BLOCK;
            let needed = first.min(table.len())..len.div_ceil(KV_BLOCK).min(table.len());
            if table[needed].contains(&NO_BLOCK) {
                return None;
            }
        }
        self.pools.with(|pools| {
            for (group, (pool, table)) in pools.iter_mut().zip(&mut self.tables).enumerate() {
                if Some(group) == encoded {
                    continue;
                }
                for block in table.drain(len.div_ceil(KV_BLOCK).min(table.len())..) {
                    if block != NO_BLOCK {
                        pool.release(block);
                    }
                }
            }
        });
        self.len = len;
        Some(())
    }

    /// Begins with the blocks of others, for `len` positions.
    pub(crate) fn adopt(&mut self, tables: Vec<Vec<u32>>, len: usize) {
        self.pools.with(|pools| {
            for (pool, table) in pools.iter_mut().zip(&tables) {
                table.iter().filter(|b| **b != NO_BLOCK).for_each(|b| pool.share(*b));
            }
        });
        self.release_all();
        (self.tables, self.len) = (tables, len);
    }

    pub(crate) fn groups(&self) -> usize {
        self.tables.len()
    }

    pub(crate) fn table_mut(&mut self, group: usize) -> &mut Vec<u32> {
        &mut self.tables[group]
    }

    /// One more block at the end of a group's table, or a gap; `None` where there is none left.
    pub(crate) fn push_block(&mut self, group: usize, there: bool) -> Option<u32> {
        let block = if there { self.pools.with(|pools| pools[group].take())? } else { NO_BLOCK };
        self.tables[group].push(block);
        Some(block)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.release_all();
    }

    fn release_all(&mut self) {
        self.pools.with(|pools| {
            for (pool, table) in pools.iter_mut().zip(&mut self.tables) {
                table.drain(..).filter(|b| *b != NO_BLOCK).for_each(|b| pool.release(b));
            }
        });
        self.len = 0;
    }

    pub(crate) fn belongs_to(&self, pools: &Pools) -> bool {
        self.pools.same(pools)
    }

    pub(crate) fn table(&self, group: usize) -> &[u32] {
        &self.tables[group]
    }

    pub(crate) fn set_len(&mut self, len: usize) {
        self.len = len;
    }

    /// Makes room to write positions `len..len + rows`: releases what no window sees any more,
    /// takes new blocks, and names the shared block that must be copied first.
    pub(crate) fn reserve(&mut self, rows: usize, copies: &mut Vec<Copy>) -> Result<(), Error> {
        let end = (self.len + rows).div_ceil(KV_BLOCK);
        let written = self.len / KV_BLOCK;
        let Sequence { pools, tables, windows, encoded, len } = self;
        pools.with(|pools| {
            for (group, ((pool, table), window)) in pools.iter_mut().zip(tables).zip(windows).enumerate() {
                if Some(group) == *encoded {
                    continue;
                }
                if let Some(window) = *window {
                    let unseen = (*len + 1).saturating_sub(window) / KV_BLOCK;
                    for block in table.iter_mut().take(unseen).rev().take_while(|b| **b != NO_BLOCK) {
                        pool.release(std::mem::replace(block, NO_BLOCK));
                    }
                }
                if let Some(block) = table.get_mut(written).filter(|b| **b != NO_BLOCK && pool.is_shared(**b)) {
                    let own = pool.take().ok_or(Error::KvFull { blocks: pool.blocks() })?;
                    copies.push((group, *block, own));
                    pool.release(std::mem::replace(block, own));
                }
                while table.len() < end {
                    table.push(pool.take().ok_or(Error::KvFull { blocks: pool.blocks() })?);
                }
            }
            Ok(())
        })
    }
}

impl Sequence {
    /// Takes new blocks for what an encoder is about to write; what it wrote before is let go.
    pub(crate) fn reserve_encoded(&mut self, blocks: usize) -> Result<(), Error> {
        let Some(group) = self.encoded else { return Ok(()) };
        let table = &mut self.tables[group];
        self.pools.with(|pools| {
            let pool = &mut pools[group];
            table.drain(..).for_each(|block| pool.release(block));
            for _ in 0..blocks {
                table.push(pool.take().ok_or(Error::KvFull { blocks: pool.blocks() })?);
            }
            Ok(())
        })
    }

    /// Whether an encoder has filled its group.
    pub(crate) fn has_encoded(&self) -> bool {
        self.encoded.is_some_and(|group| !self.tables[group].is_empty())
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        self.release_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(pools: &Pools) -> Vec<usize> {
        pools.with(|p| p.iter().map(|p| p.free()).collect())
    }

    #[test]
    fn a_window_bounds_the_blocks_a_sequence_holds() {
        let pools = Pools::new([100, 4]);
        let mut sequence = Sequence::new(pools.clone(), vec![None, Some(100)]);
        for _ in 0..100 {
            sequence.reserve(KV_BLOCK, &mut Vec::new()).unwrap();
            sequence.set_len(sequence.len() + KV_BLOCK);
        }
        assert_eq!(free(&pools)[0], 0);
        drop(sequence);
        assert_eq!(free(&pools), [100, 4]);
    }

    #[test]
    fn a_fork_shares_until_it_writes() {
        let pools = Pools::new([8]);
        let mut first = Sequence::new(pools.clone(), vec![None]);
        first.reserve(100, &mut Vec::new()).unwrap();
        first.set_len(100);
        let mut second = first.fork();
        assert_eq!(free(&pools), [6]);
        let mut copies = Vec::new();
        second.reserve(1, &mut copies).unwrap();
        assert_eq!(copies.len(), 1);
        assert_eq!(first.table(0)[0], second.table(0)[0]);
        assert_ne!(first.table(0)[1], second.table(0)[1]);
        drop(first);
        drop(second);
        assert_eq!(free(&pools), [8]);
    }

    #[test]
    fn truncation_releases_blocks_and_refuses_what_the_window_dropped() {
        let pools = Pools::new([16, 16]);
        let mut sequence = Sequence::new(pools.clone(), vec![None, Some(64)]);
        for _ in 0..8 {
            sequence.reserve(KV_BLOCK, &mut Vec::new()).unwrap();
            sequence.set_len(sequence.len() + KV_BLOCK);
        }
        assert_eq!(sequence.truncate(100), None);
        assert_eq!(sequence.len(), 8 * KV_BLOCK);
        assert_eq!(sequence.truncate(8 * KV_BLOCK - 1), Some(()));
        assert_eq!(sequence.truncate(9999), None);
    }

    #[test]
    fn encoded_audio_is_shared_by_forks_and_outlives_truncation() {
        let pools = Pools::new([8, 6]);
        let mut first = Sequence::new(pools.clone(), vec![None, None]).with_encoder(Some(1));
        assert!(!first.has_encoded());
        first.reserve_encoded(3).unwrap();
        first.reserve(10, &mut Vec::new()).unwrap();
        first.set_len(10);
        let mut second = first.fork();
        assert_eq!(second.truncate(0), Some(()));
        assert_eq!(second.table(1), first.table(1));
        assert_eq!(free(&pools), [7, 3]);
        second.reserve_encoded(3).unwrap();
        assert_eq!(free(&pools), [7, 0]);
        assert!(second.reserve_encoded(4).is_err());
        drop(second);
        drop(first);
        assert_eq!(free(&pools), [8, 6]);
    }

    #[test]
    fn an_exhausted_pool_is_an_error() {
        let mut sequence = Sequence::new(Pools::new([1]), vec![None]);
        assert!(matches!(sequence.reserve(65, &mut Vec::new()), Err(Error::KvFull { blocks: 1 })));
    }
}
