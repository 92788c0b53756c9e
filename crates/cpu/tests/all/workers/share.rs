//! Shares of work, and shards that are stolen.

use akunu_cpu::share::{MAX_SHARDS, Share, Split, steal};
use std::sync::atomic::AtomicU64;

#[test]
fn shares_cover_everything_once_and_cut_at_the_grain() {
    for count in 1..7 {
        for total in 0..70 {
            for grain in [1, 3, 16, 32] {
                let mut next = 0;
                for index in 0..count {
                    let share = Share { index, count }.of(total, grain);
                    assert_eq!(share.start, next);
                    assert!(share.start.is_multiple_of(grain) || share.start == total);
                    next = share.end;
                }
                assert_eq!(next, total);
            }
        }
    }
}

#[test]
fn own_columns_and_shards_are_everything_once() {
    let mut with_shards = 0;
    for shares in 1..6 {
        for total in (0..9000).step_by(111) {
            for (grain, bytes) in [(1, 5000), (3, 1100), (16, 1200), (32, 576), (256, 576)] {
                let split = Split::new(shares, total, grain, bytes);
                let own = (0..shares).map(|share| split.own(share));
                let mut all: Vec<_> = own.chain((0..split.shards()).map(|i| split.shard(i))).collect();
                all.retain(|columns| !columns.is_empty());
                all.sort_by_key(|columns| columns.start);
                assert!(all.iter().all(|columns| columns.start.is_multiple_of(grain)));
                let end = all.iter().fold(0, |at, columns| {
                    assert_eq!(columns.start, at);
                    columns.end
                });
                assert_eq!(end, total);
                assert!(split.shards() <= MAX_SHARDS * shares && (shares > 1 || split.shards() == 0));
                with_shards += usize::from(split.shards() > 0);
            }
        }
    }
    assert!(with_shards > 500);
}

#[test]
fn every_shard_is_stolen_once_in_every_step() {
    for (shares, shards) in [(1, 0), (1, 3), (2, 2), (2, 5), (3, 1), (5, 16)] {
        let steals = AtomicU64::new(0);
        for step in 0..7 {
            let mut taken = vec![0; shards];
            let mut all: Vec<_> = (0..shares).map(|_| steal(&steals, shares, shards)).collect();
            // Shares steal interleaved, some of them more often.
            let mut busy = true;
            while busy {
                busy = false;
                for (share, steal) in all.iter_mut().enumerate() {
                    let times = 1 + (share + step) % 3;
                    busy |= steal.take(times).inspect(|&shard| taken[shard] += 1).count() == times;
                }
            }
            assert_eq!(taken, vec![1; shards], "{shares} shares, {shards} shards, step {step}");
        }
    }
}
