//! Many at once: what one gets does not depend on the others, on memory pressure, or on what was cached.

use akunu::{
    Engine, Error, Event, Finish, GenerateOptions, LEAST_CHUNK, LoadOptions, Miss, Request, RequestId, SamplingOptions,
    Scheduler, SchedulerOptions, Service, Summary,
};
use akunu_testkit::fixtures;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Duration;

fn engine(sequences: usize, context: usize) -> Engine {
    let options =
        LoadOptions { sequences, context: Some(context), extra_positions: 512, threads: Some(2), ..Default::default() };
    Engine::embedded(options).unwrap()
}

/// Different lengths, some with a beginning in common.
fn prompt(i: u32) -> Vec<u32> {
    let len = 3 + i * 13 % 97;
    (0..len).map(|t| if t < 20 && i.is_multiple_of(3) { t + 5 } else { (t * 37 + i * 101) % 4000 }).collect()
}

fn options(i: u32) -> GenerateOptions {
    let sampling = match i % 4 {
        0 => SamplingOptions::default(),
        1 => SamplingOptions { temperature: 1.0, seed: u64::from(i), ..Default::default() },
        2 => SamplingOptions { temperature: 0.8, repeat_penalty: 1.2, seed: 3, ..Default::default() },
        _ => SamplingOptions { temperature: 1.5, mirostat: Some(Default::default()), ..Default::default() },
    };
    GenerateOptions { max_tokens: 24 + i as usize % 7, sampling, ignore_eos: i.is_multiple_of(2), ..Default::default() }
}

fn alone(engine: &mut Engine, tokens: &[u32], options: GenerateOptions) -> Vec<u32> {
    let mut sequence = engine.sequence();
    let mut generation = engine.generate(&mut sequence, tokens, options).unwrap();
    generation.by_ref().for_each(|p| drop(p.unwrap()));
    generation.generated().to_vec()
}

type Outcome = (Vec<u32>, Option<Summary>);

fn run(scheduler: &mut Scheduler) -> BTreeMap<RequestId, Outcome> {
    let mut all: BTreeMap<RequestId, Outcome> = BTreeMap::new();
    while scheduler.step(|id, event| collect(&mut all, id, event)) {}
    all
}

fn collect(all: &mut BTreeMap<RequestId, Outcome>, id: RequestId, event: Event) {
    let entry = all.entry(id).or_default();
    match event {
        Event::Piece(piece) => entry.0.push(piece.token),
        Event::Finished(summary) => entry.1 = Some(summary),
        Event::Failed(why) => panic!("{id:?}: {why}"),
    }
}

/// So many at once get what each gets alone.
fn at_once(count: u32) {
    let mut single = engine(1, 512);
    let expected: Vec<Vec<u32>> = (0..count).map(|i| alone(&mut single, &prompt(i), options(i))).collect();
    let sequences = count as usize;
    let mut scheduler = Scheduler::new(engine(sequences, 512), SchedulerOptions { sequences, ..Default::default() });
    let ids: Vec<RequestId> =
        (0..count).map(|i| scheduler.submit(Request { tokens: prompt(i), options: options(i) }).unwrap()).collect();
    let all = run(&mut scheduler);
    for (i, id) in ids.iter().enumerate() {
        let (tokens, summary) = &all[id];
        assert_eq!(tokens, &expected[i], "request {i}");
        assert_eq!(summary.as_ref().map(|s| s.generated), Some(tokens.len()));
    }
    let metrics = scheduler.metrics();
    assert_eq!((metrics.finished, metrics.running, metrics.waiting, metrics.preempted), (count.into(), 0, 0, 0));
    assert!(metrics.rows / metrics.steps >= u64::from(count) / 2, "they were not batched: {metrics:?}");
}

#[test]
fn sixteen_at_once_get_what_each_gets_alone() {
    at_once(16);
}

/// So many that each worker takes some of them through the whole model.
#[test]
fn forty_at_once_get_what_each_gets_alone() {
    at_once(40);
}

#[test]
fn under_memory_pressure_some_wait_and_nothing_changes() {
    let mut single = engine(1, 256);
    let options = |i| GenerateOptions { max_tokens: 150, ignore_eos: true, ..options(i) };
    let expected: Vec<Vec<u32>> = (0..8).map(|i| alone(&mut single, &prompt(i), options(i))).collect();
    // Room for two at full length, and a little.
    let mut scheduler = Scheduler::new(engine(2, 256), SchedulerOptions::default());
    let ids: Vec<RequestId> =
        (0..8).map(|i| scheduler.submit(Request { tokens: prompt(i), options: options(i) }).unwrap()).collect();
    let all = run(&mut scheduler);
    for (i, id) in ids.iter().enumerate() {
        assert_eq!(all[id].0, expected[i], "request {i}");
    }
    let metrics = scheduler.metrics();
    assert!(metrics.preempted > 0, "{metrics:?}");
    assert_eq!(metrics.finished, 8);
}

#[test]
fn contexts_shift_in_a_batch_as_they_do_alone() {
    let options = |i: u32| GenerateOptions {
        max_tokens: 250,
        ignore_eos: true,
        context_shift: Some(i as usize * 9),
        ..options(i)
    };
    let mut single = engine(1, 128);
    let expected: Vec<Vec<u32>> = (0..4).map(|i| alone(&mut single, &prompt(i), options(i))).collect();
    let mut scheduler = Scheduler::new(engine(4, 128), SchedulerOptions::default());
    let submit =
        |scheduler: &mut Scheduler, i| scheduler.submit(Request { tokens: prompt(i), options: options(i) }).unwrap();
    let ids: Vec<RequestId> = (0..4).map(|i| submit(&mut scheduler, i)).collect();
    let all = run(&mut scheduler);
    for (i, id) in ids.iter().enumerate() {
        assert_eq!(all[id].0.len(), 250, "request {i}");
        assert_eq!(all[id].0, expected[i], "request {i}");
    }
    // With too little memory they still come to their end: what was left of a text is computed again.
    let mut scheduler = Scheduler::new(engine(1, 128), SchedulerOptions { cache: 0, ..Default::default() });
    let ids: Vec<RequestId> = (0..12).map(|i| submit(&mut scheduler, i)).collect();
    let all = run(&mut scheduler);
    assert!(ids.iter().all(|id| all[id].0.len() == 250));
    assert!(scheduler.metrics().preempted > 0, "{:?}", scheduler.metrics());
}

#[test]
fn a_service_goes_on_with_what_another_one_wrote() {
    let dir = akunu_testkit::TempDir::new();
    let (path, tokens) = (dir.join("session"), prompt(7));
    let answer = |service: &Service| {
        let options = GenerateOptions::new().max_tokens(8);
        let mut reply = service.submit(Request { tokens: tokens.clone(), options }).unwrap();
        let chosen: Vec<u32> = reply.by_ref().map(|piece| piece.unwrap().token).collect();
        (chosen, reply.summary().unwrap().cached)
    };
    let start = || Service::start(engine(2, 512), SchedulerOptions::default()).unwrap();
    let first = start();
    let (expected, cached) = answer(&first);
    assert_eq!(cached, 0);
    first.save_session(&path, tokens.clone(), "a note".into()).unwrap();
    drop(first);
    let second = start();
    assert_eq!(second.load_session(&path).unwrap(), (tokens.clone(), "a note".into()));
    assert_eq!(answer(&second), (expected, tokens.len() - 1));
    let gone = second.load_session(&dir.join("gone")).unwrap_err();
    assert!(matches!(gone, Error::Format(_)), "{gone}");
}

#[test]
fn a_long_prompt_does_not_hold_up_those_who_decode() {
    let options = SchedulerOptions { chunk: Some(16), ..Default::default() };
    let mut scheduler = Scheduler::new(engine(2, 2048), options);
    let talk = GenerateOptions { max_tokens: 200, ignore_eos: true, ..Default::default() };
    let first = scheduler.submit(Request { tokens: vec![1, 2, 3], options: talk.clone() }).unwrap();
    let mut tokens = 0;
    for _ in 0..4 {
        scheduler.step(|_, _| tokens += 1);
    }
    assert_eq!(tokens, 4);
    let long = (0..1000).map(|i| i % 4000).collect();
    scheduler.submit(Request { tokens: long, options: talk }).unwrap();
    let mut steps = 0;
    let mut begun = false;
    while !begun {
        let mut got = 0;
        let rows = scheduler.metrics().rows;
        scheduler.step(|id, _| if id == first { got += 1 } else { begun = true });
        assert_eq!(got, 1, "a step without a token for who was there first");
        assert!(scheduler.metrics().rows - rows <= 17);
        steps += 1;
    }
    assert!(steps >= 1000 / 16, "{steps}");
}

/// A gap that no machine can keep: prompts are read in the smallest chunks while somebody decodes, and in the largest as soon
/// as nobody does. Rows are counted, so that no clock is asked.
#[test]
fn a_gap_that_cannot_be_kept_makes_the_smallest_chunks() {
    let options = SchedulerOptions { max_gap: Duration::ZERO, ..Default::default() };
    let mut scheduler = Scheduler::new(engine(4, 2048), options);
    let talk = GenerateOptions { max_tokens: 60, ignore_eos: true, ..Default::default() };
    let streams: Vec<RequestId> =
        (0..3).map(|i| scheduler.submit(Request { tokens: prompt(i), options: talk.clone() }).unwrap()).collect();
    let long = Request { tokens: (0..1900).map(|i| i % 4000).collect(), options: talk.clone().max_tokens(1) };
    while scheduler.metrics().generated_tokens < 3 {
        scheduler.step(|_, _| {});
    }
    scheduler.submit(long).unwrap();
    let (mut most_while_decoding, mut most_alone) = (0, 0);
    loop {
        let before = scheduler.metrics();
        let mut pieces = 0;
        let more =
            scheduler.step(|id, event| pieces += u64::from(streams.contains(&id) && matches!(event, Event::Piece(_))));
        let rows = scheduler.metrics().rows - before.rows;
        if pieces > 0 {
            assert_eq!(pieces, 3, "a stream waited");
            most_while_decoding = most_while_decoding.max(rows);
        } else {
            most_alone = most_alone.max(rows);
        }
        if !more {
            break;
        }
    }
    assert_eq!(most_while_decoding, 3 + LEAST_CHUNK as u64);
    assert!(most_alone > 10 * LEAST_CHUNK as u64, "{most_alone}");
}

#[test]
fn the_cache_counts_and_explains() {
    let mut scheduler = Scheduler::new(engine(2, 1024), SchedulerOptions::default());
    let turn = |tokens: Vec<u32>| Request { tokens, options: GenerateOptions::new().max_tokens(10).ignore_eos(true) };
    let first: Vec<u32> = (0..100).map(|i| i * 3 % 4000).collect();
    let id = scheduler.submit(turn(first.clone())).unwrap();
    let (answer, summary) = run(&mut scheduler).remove(&id).unwrap();
    assert_eq!(summary.map(|s| (s.cached, s.miss)), Some((0, Some(Miss::Empty))));
    // The second turn of a chat: the first one, its answer, and something new.
    let second: Vec<u32> = first.iter().chain(&answer).copied().chain([7, 8, 9]).collect();
    let before = scheduler.metrics().rows;
    let id = scheduler.submit(turn(second.clone())).unwrap();
    let (again, summary) = run(&mut scheduler).remove(&id).unwrap();
    // The answer's last token was never fed: it and the three new ones are computed, then nine of the ten answers.
    assert_eq!(summary.map(|s| (s.cached, s.miss)), Some((109, Some(Miss::New { at: 109 }))));
    assert_eq!(scheduler.metrics().rows - before, 4 + 9);
    // As one sequence that goes on after its first answer.
    let mut single = engine(1, 1024);
    let mut sequence = single.sequence();
    single.generate(&mut sequence, &first, turn(vec![]).options).unwrap().for_each(|p| drop(p.unwrap()));
    let mut generation = single.resume(&mut sequence, &second, turn(vec![]).options).unwrap();
    generation.by_ref().for_each(|p| drop(p.unwrap()));
    assert_eq!(again, generation.generated());
    assert_eq!(scheduler.metrics().cached_tokens, 109);
}

#[test]
fn a_sliding_window_is_cached_too() {
    let dir = fixtures::path("hf/mistral-swa");
    let load = |sequences, extra_positions| {
        let options = LoadOptions { sequences, extra_positions, context: Some(512), ..Default::default() };
        Engine::load(&dir, options).unwrap()
    };
    let first: Vec<u32> = (0..200).map(|i| (i * 31 + i / 7) % 512).collect();
    let second: Vec<u32> = first[..150].iter().copied().chain((0..60).map(|i| i * 7 % 512)).collect();
    let options = GenerateOptions::new().max_tokens(12).ignore_eos(true);
    let mut scheduler = Scheduler::new(load(2, 1024), SchedulerOptions::default());
    let mut single = load(1, 0);
    for (tokens, cached) in [(first, 0), (second, 150)] {
        let id = scheduler.submit(Request { tokens: tokens.clone(), options: options.clone() }).unwrap();
        let (got, summary) = run(&mut scheduler).remove(&id).unwrap();
        assert_eq!(summary.map(|s| s.cached), Some(cached));
        assert_eq!(got, alone(&mut single, &tokens, options.clone()));
    }
}

#[test]
fn a_cancelled_request_gives_its_blocks_back_at_once() {
    let mut scheduler = Scheduler::new(engine(2, 512), SchedulerOptions { cache: 0, ..Default::default() });
    let talk = GenerateOptions::new().ignore_eos(true);
    let gone = scheduler.submit(Request { tokens: prompt(4), options: talk.clone() }).unwrap();
    let stays = scheduler.submit(Request { tokens: prompt(5), options: talk.max_tokens(5) }).unwrap();
    scheduler.step(|_, _| {});
    assert!(scheduler.cancel(gone));
    assert!(!scheduler.cancel(gone));
    let mut finished = None;
    while scheduler.step(|id, event| {
        assert_eq!(id, stays);
        if let Event::Finished(summary) = event {
            finished = Some(summary.finish);
        }
    }) {}
    assert_eq!(finished, Some(Finish::Length));
    assert_eq!(scheduler.metrics().blocks_used, 0);
}

#[test]
fn what_cannot_run_is_refused_when_it_comes() {
    let mut scheduler = Scheduler::new(engine(1, 64), SchedulerOptions::default());
    let submit = |scheduler: &mut Scheduler, tokens| scheduler.submit(Request { tokens, ..Default::default() });
    assert!(matches!(submit(&mut scheduler, vec![]), Err(Error::EmptyPrompt)));
    assert!(matches!(submit(&mut scheduler, vec![4096]), Err(Error::Token { token: 4096, .. })));
    assert!(matches!(submit(&mut scheduler, vec![1; 65]), Err(Error::ContextFull { tokens: 65, context: 64 })));
    let id = submit(&mut scheduler, vec![1; 60]).unwrap();
    let (tokens, summary) = run(&mut scheduler).remove(&id).unwrap();
    assert!(tokens.len() <= 5);
    assert!(matches!(summary.map(|s| s.finish), Some(Finish::Context | Finish::Stop)));
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(out) => return out,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn replies_come_to_threads_and_to_async_code_alike() {
    let service = Service::start(engine(4, 512), SchedulerOptions::default()).unwrap();
    let options = GenerateOptions::new().max_tokens(20).ignore_eos(true);
    let mut single = engine(1, 512);
    let expected: Vec<Vec<u32>> = (0..4).map(|i| alone(&mut single, &prompt(i), options.clone())).collect();
    std::thread::scope(|scope| {
        for (i, expected) in expected.iter().enumerate() {
            let mut reply = service.submit(Request { tokens: prompt(i as u32), options: options.clone() }).unwrap();
            scope.spawn(move || {
                let mut tokens = Vec::new();
                if i % 2 == 0 {
                    reply.by_ref().for_each(|piece| tokens.push(piece.unwrap().token));
                } else {
                    let next = |reply: &mut akunu::Reply| {
                        block_on(std::future::poll_fn(|cx| futures_core::Stream::poll_next(Pin::new(reply), cx)))
                    };
                    while let Some(piece) = next(&mut reply) {
                        tokens.push(piece.unwrap().token);
                    }
                }
                assert_eq!(&tokens, expected);
                assert_eq!(reply.summary().map(|s| s.finish), Some(Finish::Length));
            });
        }
    });
    assert_eq!(service.metrics().generated_tokens, 80);
}

#[test]
fn a_client_that_leaves_is_cancelled_and_a_bad_request_hurts_nobody() {
    let service = Service::start(engine(4, 4096), SchedulerOptions::default()).unwrap();
    let endless = GenerateOptions::new().ignore_eos(true);
    let mut leaving = service.submit(Request { tokens: vec![5, 6], options: endless.clone() }).unwrap();
    assert!(leaving.next().is_some());
    let mut bad = service.submit(Request { tokens: vec![99_999], options: endless.clone() }).unwrap();
    assert!(matches!(bad.next(), Some(Err(Error::Token { .. }))));
    assert!(bad.next().is_none());
    drop(leaving);
    let reply = service.submit(Request { tokens: vec![7], options: endless.max_tokens(3) }).unwrap();
    assert_eq!(reply.filter(|p| p.is_ok()).count(), 3);
    assert_eq!((service.metrics().cancelled, service.metrics().running), (1, 0));
}

#[test]
fn a_reply_that_outlives_its_service_ends() {
    let service = Service::start(engine(2, 4096), SchedulerOptions::default()).unwrap();
    let endless = GenerateOptions::new().ignore_eos(true);
    let mut replies: Vec<_> =
        (0..4).map(|i| service.submit(Request { tokens: vec![5 + i], options: endless.clone() }).unwrap()).collect();
    assert!(replies[0].next().is_some());
    drop(service);
    for reply in &mut replies {
        assert!(matches!(reply.last(), Some(Err(Error::Stopped { .. }))));
    }
}
