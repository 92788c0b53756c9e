//! Which rows of keys and values are prefetched.

use akunu_cpu::kernels::attention::keys::*;
use akunu_plan::steps::KV_BLOCK;

/// Every row that is seen is asked for once, and little else.
fn check<K: Keys>(row_bytes: usize) {
    for places in (1..=SPAN).map(|end| 0..end).chain((0..SPAN).step_by(7).map(|start| start..SPAN)) {
        let mut blocks = [Block::NONE; SPAN_BLOCKS];
        for (i, block) in blocks.iter_mut().enumerate() {
            let [from, to] = [places.start, places.end].map(|at| at.saturating_sub(i * KV_BLOCK).min(KV_BLOCK));
            if from < to {
                *block = Block { keys: std::ptr::without_provenance((i + 1) << 20), from, to, whole: true };
            }
        }
        let rounds = Span::new(blocks, 0, row_bytes, K::PLACES).rounds;
        let mut asked = std::collections::HashMap::new();
        for round in rounds.iter().filter(|round| round.bytes > 0) {
            for at in round.places[..K::PLACES].iter().flat_map(|place| (0..round.bytes).map(|at| place.addr() + at)) {
                *asked.entry(at).or_insert(0) += 1;
            }
        }
        let mut rows = 0;
        for block in &blocks {
            for row in block.seen() {
                let first = block.keys.addr() + row * row_bytes;
                assert!((first..first + row_bytes).all(|at| asked.get(&at) == Some(&1)), "{places:?}: {row}");
                rows += 1;
            }
        }
        // Where the rows of a round do not divide among its places, some that are not seen come with them.
        let most = rows + rounds.iter().filter(|round| round.bytes > 0).count() * (K::PLACES - 1);
        assert!(asked.len() <= most * row_bytes, "{places:?}: {} bytes", asked.len());
    }
}

#[test]
fn all_that_is_seen_is_asked_for() {
    check::<Half<32>>(64);
    check::<Half<64>>(128);
    check::<Blocks8>(34);
}
