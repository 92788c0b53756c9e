//! What a model needs before it is loaded, and whether the machine has it.

use crate::Error;
use akunu_formats::ModelFile;
use akunu_plan::backend::Backend;
use akunu_plan::program::KvGroup;
use akunu_plan::{KV_BLOCK, Program};

/// Bytes that a loaded model needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Read from the file.
    pub weights: u64,
    /// The KV cache, at the context it was asked for.
    pub kv: u64,
    /// Activations, logits, constants and step variables.
    pub scratch: u64,
}

impl Needs {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.kv).saturating_add(self.scratch)
    }
}

/// What a model needs at any context.
#[derive(Clone, Debug)]
pub struct Footprint {
    weights: u64,
    scratch: u64,
    groups: Vec<KvGroup>,
    /// Positions of a sequence that a window is written ahead by.
    ahead: usize,
    sequences: usize,
    extra: usize,
}

impl Footprint {
    /// Of programs for a backend, whose KV cache has room for so many sequences and `extra` positions more.
    pub(crate) fn new(
        file: &ModelFile,
        programs: &[&Program],
        backend: &dyn Backend,
        ahead: usize,
        (sequences, extra): (usize, usize),
    ) -> Footprint {
        let bytes = |t: &akunu_formats::Tensor| (t.data.len + t.scales.len + t.biases.len) as u64;
        let files: u64 = (0..file.files()).map(|i| file.bytes(i).len() as u64).sum();
        let constants = programs.first().map_or(0, |p| p.constants.len() * 4);
        Footprint {
            weights: file.tensors().iter().map(bytes).sum(),
            scratch: (backend.arena_bytes(programs, files) + constants) as u64,
            groups: programs.first().map_or(&[][..], |p| &p.kv_groups).to_vec(),
            ahead,
            sequences,
            extra,
        }
    }

    /// By KV group: the blocks that sequences of up to `context` positions need.
    pub(crate) fn blocks(&self, context: usize) -> Vec<usize> {
        let blocks = |group: &KvGroup| {
            // Two recordings: the next one is encoded while the one before it is still held.
            if let Some(positions) = group.encoded {
                return 2 * positions.div_ceil(KV_BLOCK);
            }
            // A window's blocks, those of the chunk being written, and the partly seen ones at both ends.
            let positions = group.window.map_or(context, |w| context.min(w + self.ahead + KV_BLOCK));
            let each = positions.div_ceil(KV_BLOCK).saturating_add(1);
            each.saturating_mul(self.sequences).saturating_add(self.extra / KV_BLOCK)
        };
        self.groups.iter().map(blocks).collect()
    }

    /// What it needs with this context.
    pub fn needs(&self, context: usize) -> Needs {
        let blocks = self.blocks(context);
        let kv = |(group, blocks): (&KvGroup, &usize)| (group.block_bytes as u64).saturating_mul(*blocks as u64);
        let kv = self.groups.iter().zip(&blocks).map(kv).fold(0, u64::saturating_add);
        Needs { weights: self.weights, kv, scratch: self.scratch }
    }

    /// The longest context that fits into `available` bytes, up to `most`; 0 where none does.
    pub fn longest(&self, available: u64, most: usize) -> usize {
        let fits = |context| self.needs(context).total() <= available;
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }

    /// The numbers, where `context` does not fit into `available` bytes.
    pub(crate) fn check(&self, context: usize, available: Option<u64>) -> Result<(), Error> {
        let needs = self.needs(context);
        match available {
            Some(available) if needs.total() > available => {
                let longest = self.longest(available, context) / KV_BLOCK * KV_BLOCK;
                Err(Error::DoesNotFit { needs, context, available, longest })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(window: Option<usize>, block_bytes: usize) -> KvGroup {
        KvGroup { window, layers: 1, block_bytes, encoded: None }
    }

    fn footprint() -> Footprint {
        Footprint {
            weights: 1000,
            scratch: 100,
            groups: vec![group(None, 64), group(Some(100), 32)],
            ahead: 64,
            sequences: 2,
            extra: 0,
        }
    }

    #[test]
    fn needs_grow_with_the_context_but_not_for_windows() {
        let f = footprint();
        assert_eq!(f.blocks(640), [22, 2 * 5]);
        assert_eq!(f.needs(640), Needs { weights: 1000, kv: 22 * 64 + 10 * 32, scratch: 100 });
        assert_eq!(f.needs(6400).kv - f.needs(640).kv, 2 * 90 * 64);
        assert!(f.needs(usize::MAX / 2).total() > 1 << 40);
    }

    #[test]
    fn the_longest_context_is_the_last_that_fits() {
        let f = footprint();
        assert_eq!(f.longest(1000, 100_000), 0, "the weights alone fill it");
        assert!((1..100_000).contains(&f.longest(3000, 100_000)));
        for available in [0, 1000, 2000, 3000, 10_000] {
            let longest = f.longest(available, 100_000);
            assert!(longest == 0 || f.needs(longest).total() <= available);
            assert!(longest == 100_000 || f.needs(longest + 1).total() > available);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_numbers() {
        let f = footprint();
        assert!(f.check(640, None).is_ok());
        assert!(f.check(640, Some(u64::MAX)).is_ok());
        let refused = f.check(100_000, Some(20_000)).unwrap_err().to_string();
        assert!(refused.contains("--context") && refused.contains("KV cache"), "{refused}");
        let refused = f.check(64, Some(500)).unwrap_err().to_string();
        assert!(refused.contains("smaller model"), "{refused}");
    }
}
