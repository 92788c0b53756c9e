//! Which rows of keys and values are prefetched.

use akunu_cpu::kernels::attention::keys::*;
use akunu_plan::steps::KV_BLOCK;

/// Every row that is seen is prefetched for once, and little else.
fn check<K: Keys>(row_bytes: usize) {
    for positions in (1..=SPAN).map(|end| 0..end).chain((0..SPAN).step_by(7).map(|start| start..SPAN)) {
        let mut blocks = [KeyBlock::NONE; SPAN_BLOCKS];
        for (i, block) in blocks.iter_mut().enumerate() {
            let [from, to] = [positions.start, positions.end].map(|at| at.saturating_sub(i * KV_BLOCK).min(KV_BLOCK));
            if from < to {
                *block = KeyBlock { keys: std::ptr::without_provenance((i + 1) << 20), from, to, whole: true };
            }
        }
        let rounds = Span::new(blocks, 0, row_bytes, K::STREAMS).rounds;
        let mut prefetched = std::collections::HashMap::new();
        for round in rounds.iter().filter(|round| round.bytes > 0) {
            for at in round.starts[..K::STREAMS].iter().flat_map(|place| (0..round.bytes).map(|at| place.addr() + at)) {
                *prefetched.entry(at).or_insert(0) += 1;
            }
        }
        let mut rows = 0;
        for block in &blocks {
            for row in block.seen() {
                let first = block.keys.addr() + row * row_bytes;
                assert!((first..first + row_bytes).all(|at| prefetched.get(&at) == Some(&1)), "{positions:?}: {row}");
                rows += 1;
            }
        }
        // Where the rows of a round do not divide among its streams, some that are not seen come with them.
        let most = rows + rounds.iter().filter(|round| round.bytes > 0).count() * (K::STREAMS - 1);
        assert!(prefetched.len() <= most * row_bytes, "{positions:?}: {} bytes", prefetched.len());
    }
}

#[test]
fn all_that_is_seen_is_prefetched() {
    check::<Half<32>>(64);
    check::<Half<64>>(128);
    check::<Blocks8>(34);
}
