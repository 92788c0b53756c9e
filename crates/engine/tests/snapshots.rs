//! What a model remembered while it was away.

use akunu::{
    DType, Engine, Event, GenerateOptions, LoadOptions, Miss, Request, Scheduler, SchedulerOptions, Service, Snapshot,
    Summary,
};
use akunu_testkit::fixtures;
use std::path::Path;

fn load(model: Option<&Path>, kv: DType, context: usize) -> Scheduler {
    let options = LoadOptions {
        kv,
        context: Some(context),
        sequences: 2,
        extra_positions: 1024,
        threads: Some(2),
        ..Default::default()
    };
    let engine = match model {
        Some(path) => Engine::load(path, options).unwrap(),
        None => Engine::embedded(options).unwrap(),
    };
    Scheduler::new(engine, SchedulerOptions { cache: 1024, ..Default::default() })
}

fn answer(scheduler: &mut Scheduler, tokens: &[u32]) -> (Vec<u32>, Summary) {
    let options = GenerateOptions::new().max_tokens(12).ignore_eos(true);
    scheduler.submit(Request { tokens: tokens.to_vec(), options }).unwrap();
    let (mut answer, mut summary) = (Vec::new(), None);
    while scheduler.step(|_, event| match event {
        Event::Piece(piece) => answer.push(piece.token),
        Event::Finished(end) => summary = Some(end),
        Event::Failed(why) => panic!("{why}"),
    }) {}
    (answer, summary.unwrap())
}

fn text(len: u32, seed: u32) -> Vec<u32> {
    (0..len).map(|i| (i * 31 + i / 7 + seed * 101) % 500).collect()
}

const ALL: u64 = u64::MAX;

#[test]
fn a_conversation_goes_on_as_if_its_model_had_stayed() {
    let swa = fixtures::path("hf/mistral-swa");
    for (model, kv) in [(None, DType::F16), (None, DType::Q8_0), (Some(swa.as_path()), DType::F16)] {
        let load = || load(model, kv, 512);
        let mut stayed = load();
        let first = text(200, 0);
        let (said, _) = answer(&mut stayed, &first);
        // One that shares its beginning, so that the tree has a fork.
        let other = [&first[..128], &text(80, 7)].concat();
        answer(&mut stayed, &other);
        let snapshot = stayed.snapshot(ALL);
        let second = [&first[..], &said, &text(30, 3)].concat();
        let (expected, summary) = answer(&mut stayed, &second);
        let mut back = load();
        assert_eq!(back.restore(&snapshot), snapshot.positions());
        let (got, restored) = answer(&mut back, &second);
        assert_eq!(got, expected);
        assert_eq!((restored.cached, restored.miss), (summary.cached, summary.miss));
        assert_eq!(restored.cached, 211);
        assert_eq!(answer(&mut back, &other).1.cached, 207);
    }
}

#[test]
fn what_was_used_last_is_kept_where_not_all_has_room() {
    let mut scheduler = load(None, DType::F16, 512);
    let (old, new) = (text(256, 1), text(256, 2));
    answer(&mut scheduler, &old);
    answer(&mut scheduler, &new);
    let all = scheduler.snapshot(ALL);
    let half = scheduler.snapshot(all.bytes() / 2);
    assert!(half.bytes() <= all.bytes() / 2 && half.bytes() > all.bytes() / 3, "{} of {}", half.bytes(), all.bytes());
    let mut back = load(None, DType::F16, 512);
    assert_eq!(back.restore(&half), half.positions());
    assert_eq!(answer(&mut back, &old).1.cached, 0);
    assert_eq!(answer(&mut back, &new).1.cached, 255);
    // The beginning of a text stays longer than its end.
    let three = scheduler.snapshot(all.bytes() / 3);
    let mut back = load(None, DType::F16, 512);
    back.restore(&three);
    let cached = answer(&mut back, &new).1.cached;
    assert!((64..255).contains(&cached), "{cached}");
    assert_eq!(scheduler.snapshot(0).positions(), 0);
}

#[test]
fn blocks_that_were_put_back_are_given_back_when_others_need_them() {
    let mut scheduler = load(None, DType::F16, 512);
    for seed in 0..4 {
        answer(&mut scheduler, &text(200, seed));
    }
    let snapshot = scheduler.snapshot(ALL);
    let mut back = load(None, DType::F16, 512);
    back.restore(&snapshot);
    assert_eq!(back.metrics().blocks_cached, scheduler.metrics().blocks_cached);
    assert_eq!(back.metrics().blocks_used, back.metrics().blocks_cached);
    // More texts than there are blocks: the oldest of what was put back go first.
    for seed in 10..14 {
        answer(&mut back, &text(200, seed));
    }
    let (answer, summary) = answer(&mut back, &text(200, 0));
    assert!(matches!(summary.miss, Some(Miss::Evicted { .. })), "{summary:?}");
    assert_eq!(answer.len(), 12);
}

#[test]
fn another_model_cache_or_context_takes_nothing() {
    let mut scheduler = load(None, DType::F16, 512);
    answer(&mut scheduler, &text(200, 0));
    let snapshot: Snapshot = scheduler.snapshot(ALL);
    let swa = fixtures::path("hf/mistral-swa");
    for (model, kv, context) in
        [(None, DType::Q8_0, 512), (None, DType::F16, 256), (Some(swa.as_path()), DType::F16, 512)]
    {
        assert_eq!(load(model, kv, context).restore(&snapshot), 0);
    }
    // What is in use is not overwritten.
    assert_eq!(scheduler.restore(&snapshot), 0);
}

#[test]
fn a_service_gives_its_scheduler_back() {
    let service = Service::run(load(None, DType::F16, 512)).unwrap();
    let options = GenerateOptions::new().max_tokens(4).ignore_eos(true);
    let reply = service.submit(Request { tokens: text(100, 0), options }).unwrap();
    assert_eq!(reply.filter_map(Result::ok).count(), 4);
    assert!(service.stop().unwrap().snapshot(ALL).positions() >= 103);
}
