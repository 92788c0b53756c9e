//! Two open-addressing tables, for token texts and for pairs of numbers, hashed with a seed drawn per process so that a
//! crafted vocabulary cannot force collisions.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::OnceLock;

/// The seed of every table in this process.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one("akunu") | 1)
}

/// 64x64 bit product folded to 64 bits: every input bit reaches every output bit.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ (bytes.len() as u64);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = chunk.iter().rev().fold(0u64, |acc, &b| (acc << 8) | u64::from(b));
        state = fold(state ^ word, MIX ^ seed);
    }
    let rest = chunks.remainder().iter().rev().fold(0u64, |acc, &b| (acc << 8) | u64::from(b));
    fold(state ^ rest, MIX ^ seed)
}

/// Texts laid end to end, found by number.
#[derive(Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Arena {
    pub fn with_capacity(count: usize) -> Self {
        Arena { bytes: Vec::with_capacity(count * 8), ends: Vec::with_capacity(count) }
    }

    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.range(index)]
    }

    /// Where a text is among [`Self::bytes`].
    #[inline]
    pub fn range(&self, index: usize) -> Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        start..self.ends[index]
    }

    /// All texts.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

const EMPTY: u32 = u32::MAX;

/// Text to id, over texts that live in an [`Arena`].
pub(crate) struct TextTable {
    /// `(high half of the hash, id)`; id is `EMPTY` in a free slot.
    slots: Vec<(u32, u32)>,
    mask: usize,
    seed: u64,
}

impl TextTable {
    pub fn with_capacity(count: usize) -> Self {
        let size = (count * 2).next_power_of_two().max(16);
        TextTable { slots: vec![(0, EMPTY); size], mask: size - 1, seed: seed() }
    }

    /// Adds `arena[id]`; where the text is already there, keeps the earlier id and returns it.
    pub fn insert(&mut self, arena: &Arena, id: u32) -> Option<u32> {
        let text = arena.get(id as usize);
        let hash = hash_bytes(self.seed, text);
        let mut slot = hash as usize & self.mask;
        loop {
            let (tag, found) = self.slots[slot];
            if found == EMPTY {
                self.slots[slot] = ((hash >> 32) as u32, id);
                return None;
            }
            if tag == (hash >> 32) as u32 && arena.get(found as usize) == text {
                return Some(found);
            }
            slot = (slot + 1) & self.mask;
        }
    }

    #[inline]
    pub fn get(&self, arena: &Arena, text: &[u8]) -> Option<u32> {
        let hash = hash_bytes(self.seed, text);
        let mut slot = hash as usize & self.mask;
        loop {
            let (tag, found) = self.slots[slot];
            if found == EMPTY {
                return None;
            }
            if tag == (hash >> 32) as u32 && arena.get(found as usize) == text {
                return Some(found);
            }
            slot = (slot + 1) & self.mask;
        }
    }
}

/// `(u32, u32)` to `(u32, u32)`.
pub(crate) struct PairTable {
    slots: Vec<([u32; 2], [u32; 2])>,
    count: usize,
    seed: u64,
}

impl PairTable {
    pub fn with_capacity(count: usize) -> Self {
        let size = (count + count / 2).next_power_of_two().max(16);
        PairTable { slots: vec![([EMPTY; 2], [0; 2]); size], count: 0, seed: seed() }
    }

    #[inline]
    fn home(&self, key: [u32; 2]) -> usize {
        let word = u64::from(key[0]) << 32 | u64::from(key[1]);
        fold(word ^ self.seed, MIX) as usize & (self.slots.len() - 1)
    }

    /// Sets the value of `key`, whose first half must not be `u32::MAX` (ids and states never are).
    pub fn insert(&mut self, key: [u32; 2], value: [u32; 2]) {
        if (self.count + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let mut slot = self.home(key);
        while self.slots[slot].0[0] != EMPTY && self.slots[slot].0 != key {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        if self.slots[slot].0[0] == EMPTY {
            self.count += 1;
        }
        self.slots[slot] = (key, value);
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![([EMPTY; 2], [0; 2]); size]);
        self.count = 0;
        for (key, value) in old {
            if key[0] != EMPTY {
                self.insert(key, value);
            }
        }
    }

    #[inline]
    pub fn get(&self, key: [u32; 2]) -> Option<[u32; 2]> {
        let mut slot = self.home(key);
        loop {
            let (found, value) = self.slots[slot];
            if found == key {
                return Some(value);
            }
            if found[0] == EMPTY {
                return None;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_table_finds_what_was_put_in_and_nothing_else() {
        let texts: Vec<String> = (0..5000).map(|i| "ab".repeat(i % 17) + &i.to_string()).collect();
        let mut arena = Arena::default();
        let mut table = TextTable::with_capacity(texts.len());
        for (id, text) in texts.iter().enumerate() {
            arena.push(text.as_bytes());
            assert_eq!(table.insert(&arena, id as u32), None);
        }
        for (id, text) in texts.iter().enumerate() {
            assert_eq!(table.get(&arena, text.as_bytes()), Some(id as u32));
        }
        assert_eq!(table.get(&arena, b"absent"), None);
        arena.push(texts[7].as_bytes());
        assert_eq!(table.insert(&arena, 5000), Some(7));
    }

    #[test]
    fn pair_table_grows_and_overwrites() {
        let mut table = PairTable::with_capacity(0);
        for i in 0..10_000u32 {
            table.insert([i, i * 7], [i, 1]);
        }
        table.insert([5, 35], [9, 9]);
        assert_eq!(table.get([5, 35]), Some([9, 9]));
        assert_eq!(table.get([9999, 9999 * 7]), Some([9999, 1]));
        assert_eq!(table.get([1, 1]), None);
    }
}
