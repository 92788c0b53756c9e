//! Reference-counted KV blocks, one pool per layer group.
//!
//! A block is free, or has one count for every sequence that reads it. Only a block with a count
//! of one may be written; a sequence copies a shared one first.

use std::sync::{Arc, Mutex, PoisonError};

/// The blocks of one layer group.
pub struct Pool {
    counts: Vec<u32>,
    free: Vec<u32>,
}

impl Pool {
    pub fn new(blocks: usize) -> Self {
        // Taken from the end: low blocks first, so that few pages are ever touched.
        Self { counts: vec![0; blocks], free: (0..blocks as u32).rev().collect() }
    }

    pub fn blocks(&self) -> usize {
        self.counts.len()
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    pub fn take(&mut self) -> Option<u32> {
        let block = self.free.pop()?;
        self.counts[block as usize] = 1;
        Some(block)
    }

    pub fn share(&mut self, block: u32) {
        self.counts[block as usize] += 1;
    }

    pub fn is_shared(&self, block: u32) -> bool {
        self.counts[block as usize] > 1
    }

    pub fn release(&mut self, block: u32) {
        let count = &mut self.counts[block as usize];
        *count -= 1;
        if *count == 0 {
            self.free.push(block);
        }
    }
}

/// The pools of an engine, shared with the sequences that hold blocks of them. Locked once per
/// block of positions, not per token.
#[derive(Clone)]
pub struct Pools(Arc<Mutex<Vec<Pool>>>);

impl Pools {
    pub fn new(blocks: impl IntoIterator<Item = usize>) -> Self {
        Self(Arc::new(Mutex::new(blocks.into_iter().map(Pool::new).collect())))
    }

    pub fn with<T>(&self, f: impl FnOnce(&mut [Pool]) -> T) -> T {
        // A panic elsewhere leaves the counts whole: every change is one statement.
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn same(&self, other: &Pools) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_free_again_when_its_last_reader_lets_go() {
        let mut pool = Pool::new(2);
        let block = pool.take().unwrap();
        pool.share(block);
        assert!(pool.is_shared(block));
        pool.release(block);
        assert_eq!((pool.is_shared(block), pool.free()), (false, 1));
        pool.release(block);
        assert_eq!(pool.free(), 2);
    }

    #[test]
    fn an_empty_pool_gives_nothing() {
        let mut pool = Pool::new(1);
        assert!(pool.take().is_some());
        assert_eq!(pool.take(), None);
    }
}
