//! Shares of work, and shards that workers leave to whoever comes first.

use akunu_cpu::lane::{Lane, MOST_PARTS, Split, untaken};
use std::sync::atomic::AtomicU64;

#[test]
fn shares_cover_everything_once_and_cut_at_the_grain() {
    for count in 1..7 {
        for total in 0..70 {
            for grain in [1, 3, 16, 32] {
                let mut next = 0;
                for index in 0..count {
                    let share = Lane { index, count }.share(total, grain);
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
fn what_lanes_own_and_the_parts_they_leave_are_everything_once() {
    let mut with_parts = 0;
    for lanes in 1..6 {
        for total in (0..9000).step_by(111) {
            for (grain, bytes) in [(1, 5000), (3, 1100), (16, 1200), (32, 576), (256, 576)] {
                let split = Split::new(lanes, total, grain, bytes);
                let own = (0..lanes).map(|lane| split.own(lane));
                let mut all: Vec<_> = own.chain((0..split.parts()).map(|i| split.part(i))).collect();
                all.retain(|columns| !columns.is_empty());
                all.sort_by_key(|columns| columns.start);
                assert!(all.iter().all(|columns| columns.start.is_multiple_of(grain)));
                let end = all.iter().fold(0, |at, columns| {
                    assert_eq!(columns.start, at);
                    columns.end
                });
                assert_eq!(end, total);
                assert!(split.parts() <= MOST_PARTS * lanes && (lanes > 1 || split.parts() == 0));
                with_parts += usize::from(split.parts() > 0);
            }
        }
    }
    assert!(with_parts > 500);
}

#[test]
fn every_part_is_taken_once_in_every_step() {
    for (lanes, parts) in [(1, 0), (1, 3), (2, 2), (2, 5), (3, 1), (5, 16)] {
        let asked = AtomicU64::new(0);
        for step in 0..7 {
            let mut taken = vec![0; parts];
            let mut all: Vec<_> = (0..lanes).map(|_| untaken(&asked, lanes, parts)).collect();
            // Lanes ask by turns, some of them more often.
            let mut busy = true;
            while busy {
                busy = false;
                for (lane, untaken) in all.iter_mut().enumerate() {
                    let times = 1 + (lane + step) % 3;
                    busy |= untaken.take(times).inspect(|&part| taken[part] += 1).count() == times;
                }
            }
            assert_eq!(taken, vec![1; parts], "{lanes} lanes, {parts} parts, step {step}");
        }
    }
}
