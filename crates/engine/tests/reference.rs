//! Every feature of the engine on the reference executor: nothing but the seam is between them, and what comes out is the
//! CPU's.

#[allow(dead_code)]
mod support;

use akunu::{
    Activations, DType, Device, Embedder, Engine, Event, GenerateOptions, Grammar, LoadOptions, Reading, Request,
    SamplingOptions, Scheduler, SchedulerOptions, Sequence, Speculation, Text,
};
use akunu_testkit::{TempDir, fixtures, golden, relative_error};
use akunu_text::Encode;
use std::collections::BTreeMap;

fn options(device: Device) -> LoadOptions {
    LoadOptions {
        device,
        activations: Activations::F32,
        kv: DType::F32,
        context: Some(256),
        sequences: 4,
        extra_positions: 256,
        threads: Some(2),
        ..LoadOptions::default()
    }
}

fn reference() -> Engine {
    Engine::embedded(options(Device::Reference)).unwrap()
}

fn cpu() -> Engine {
    Engine::embedded(options(Device::Cpu)).unwrap()
}

fn greedy(max_tokens: usize) -> GenerateOptions {
    GenerateOptions::new().max_tokens(max_tokens).ignore_eos(true)
}

/// Tokens, and the steps they took.
fn generate(
    engine: &mut Engine,
    sequence: &mut Sequence,
    tokens: &[u32],
    options: GenerateOptions,
) -> (Vec<u32>, usize) {
    let mut generation = engine.resume(sequence, tokens, options).unwrap();
    generation.by_ref().for_each(|piece| drop(piece.unwrap()));
    (generation.generated().to_vec(), generation.steps())
}

fn afresh(engine: &mut Engine, tokens: &[u32], options: GenerateOptions) -> Vec<u32> {
    let mut sequence = engine.sequence();
    generate(engine, &mut sequence, tokens, options).0
}

fn story(engine: &Engine) -> Vec<u32> {
    let tokenizer = engine.need_tokenizer().unwrap();
    tokenizer.encode("Once upon a time there was a cat", Encode { add_special: true, parse_special: false }).unwrap()
}

#[test]
fn greedy_and_drawn_texts_are_the_cpus() {
    let (mut reference, mut cpu) = (reference(), cpu());
    assert_eq!(reference.backend().info().to_string(), "reference/f32");
    let prompt = story(&cpu);
    let warm = SamplingOptions { temperature: 0.9, seed: 7, ..SamplingOptions::default() };
    // The last one is drawn by the host, from logits that are read back.
    let penalized = SamplingOptions { repeat_penalty: 1.2, ..warm.clone() };
    for sampling in [SamplingOptions::default(), warm, penalized] {
        let options = greedy(24).sampling(sampling.clone());
        let (ours, theirs) = (afresh(&mut reference, &prompt, options.clone()), afresh(&mut cpu, &prompt, options));
        assert_eq!(ours, theirs, "{sampling:?}");
    }
}

#[test]
fn logits_are_the_oracles() {
    for model in ["llama-untied", "qwen3", "gemma3"] {
        let dir = fixtures::path(&format!("hf/{model}"));
        let golden = golden::load(&dir.join("golden.safetensors"));
        let options = LoadOptions { round_constants: true, context: None, ..options(Device::Reference) };
        let mut engine = Engine::load(&dir, options).unwrap();
        let error = relative_error(&support::logits(&mut engine, &golden, 0), &golden.f32("logits.0"));
        assert!(error < 1e-4, "{model}: relative error {error:.1e}");
    }
}

#[test]
fn log_probabilities_come_with_tokens_that_the_backend_chose() {
    let mut engine = reference();
    let prompt = story(&engine);
    let mut sequence = engine.sequence();
    let options = GenerateOptions { logprobs: Some(3), ..greedy(5) };
    let pieces: Vec<_> = engine.generate(&mut sequence, &prompt, options).unwrap().map(Result::unwrap).collect();
    assert_eq!(pieces.len(), 5);
    for piece in pieces {
        let found = piece.logprobs.unwrap();
        assert!(found.chosen.is_finite() && found.chosen <= 0.0 && found.top[0].0 == piece.token, "{found:?}");
    }
}

#[test]
fn a_conversation_goes_on_where_it_stopped() {
    let mut engine = reference();
    let prompt = story(&engine);
    let mut sequence = engine.sequence();
    let (first, _) = generate(&mut engine, &mut sequence, &prompt, greedy(8));
    let next = [&prompt[..], &first, &[300, 301]].concat();
    let (kept, steps) = generate(&mut engine, &mut sequence, &next, greedy(8));
    assert!(steps <= 9, "{steps} steps");
    assert_eq!(kept, afresh(&mut engine, &next, greedy(8)));
}

#[test]
fn forks_share_what_came_before() {
    let mut engine = reference();
    let prompt = story(&engine);
    let mut sequence = engine.sequence();
    engine.prefill(&mut sequence, &prompt).unwrap();
    let mut fork = sequence.fork();
    for (sequence, token) in [(&mut sequence, 300), (&mut fork, 301)] {
        let next = [&prompt[..], &[token]].concat();
        let (continued, _) = generate(&mut engine, sequence, &next, greedy(8));
        assert_eq!(continued, afresh(&mut engine, &next, greedy(8)));
    }
}

#[test]
fn many_at_once_get_what_each_gets_alone_and_prefixes_are_cached() {
    let shared: Vec<u32> = (0..70).map(|i| (i * 37) % 4000).collect();
    let prompts: Vec<Vec<u32>> = (0..6).map(|i| [&shared[..], &[i + 5, i * 11]].concat()).collect();
    let mut engine = reference();
    let expected: Vec<_> = prompts.iter().map(|p| afresh(&mut engine, p, greedy(6))).collect();
    let mut scheduler = Scheduler::new(engine, SchedulerOptions { sequences: 3, ..SchedulerOptions::default() });
    let request = |tokens: &Vec<u32>| Request { tokens: tokens.clone(), options: greedy(6) };
    let ids: Vec<_> = prompts.iter().map(|p| scheduler.submit(request(p)).unwrap()).collect();
    let mut texts: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    let mut collect = |id, event| match event {
        Event::Piece(piece) => texts.entry(id).or_default().push(piece.token),
        Event::Finished(_) => {}
        Event::Failed(why) => panic!("{why}"),
    };
    while scheduler.step(&mut collect) {}
    for (id, expected) in ids.iter().zip(&expected) {
        assert_eq!(&texts[id], expected);
    }
    let metrics = scheduler.metrics();
    assert!(metrics.cached_tokens >= 3 * 64, "{metrics:?}");
    assert!(metrics.rows > 2 * metrics.steps, "they were not batched: {metrics:?}");
}

#[test]
fn sessions_outlive_their_engine() {
    let folder = TempDir::new();
    let path = folder.join("talk.session");
    let mut engine = reference();
    let text: Vec<u32> = (0..100).map(|i| (i * 31) % 4000).collect();
    let mut sequence = engine.sequence();
    engine.prefill(&mut sequence, &text[..99]).unwrap();
    engine.save_session(&path, &sequence, &text[..99], "a note").unwrap();
    let expected = generate(&mut engine, &mut sequence, &text, greedy(8));
    let mut engine = reference();
    let mut session = engine.load_session(&path).unwrap();
    assert_eq!(generate(&mut engine, &mut session.sequence, &text, greedy(8)), expected);
}

#[test]
fn a_context_shifts_as_on_the_cpu() {
    let shifted = |mut engine: Engine| {
        let text: Vec<u32> = (0..150).map(|i| (i * 31) % 4000).collect();
        let mut sequence = engine.sequence();
        engine.prefill(&mut sequence, &text).unwrap();
        engine.shift(&mut sequence, 4, 70).unwrap();
        assert_eq!(sequence.len(), 80);
        engine.prefill(&mut sequence, &[7]).unwrap().to_vec()
    };
    let error = relative_error(&shifted(reference()), &shifted(cpu()));
    assert!(error < 1e-4, "relative error {error:.1e}");
}

#[test]
fn drafts_are_verified_in_fewer_steps() {
    // Greedy, these weights that nobody trained say the same token over and over.
    let mut engine = Engine::load(&fixtures::path("hf/gemma2"), options(Device::Reference)).unwrap();
    let plain = afresh(&mut engine, &[9, 8, 7, 6], greedy(80));
    let mut sequence = engine.sequence();
    let drafting = greedy(80).speculation(Speculation::NgramAlways);
    let (drafted, steps) = generate(&mut engine, &mut sequence, &[9, 8, 7, 6], drafting);
    assert_eq!(drafted, plain);
    assert!(steps <= 50, "{steps} steps");
}

#[test]
fn a_grammar_holds() {
    let mut engine = reference();
    let prompt = story(&engine);
    let mut sequence = engine.sequence();
    let options = GenerateOptions::new().max_tokens(20).grammar(Grammar::Regex(" (happy|sad)\\.".into()));
    let text: String = engine.generate(&mut sequence, &prompt, options).unwrap().map(|p| p.unwrap().text).collect();
    assert!([" happy.", " sad."].contains(&text.as_str()), "{text:?}");
}

#[test]
fn texts_become_the_oracles_vectors() {
    let dir = fixtures::path("hf/bert");
    let golden = golden::load(&dir.join("golden.safetensors"));
    let options = LoadOptions { context: None, round_constants: true, ..options(Device::Reference) };
    let mut embedder = Embedder::load(&dir, options, Reading::Hidden).unwrap();
    let tokens = support::ids(&golden, 0);
    let mut hidden = Vec::new();
    let text = Text { second: tokens.len(), tokens };
    embedder.read(&[text], |_, values| hidden.extend_from_slice(values)).unwrap();
    let error = relative_error(&hidden, &golden.f32("hidden.0"));
    assert!(error < 1e-4, "relative error {error:.1e}");
}

#[test]
fn every_op_is_timed_under_its_kernels_name() {
    let mut engine = reference();
    let times = {
        let mut sequence = engine.sequence();
        let part =
            akunu::StepInput { sequence: &mut sequence, tokens: &[1], outputs: akunu::Outputs::Last, prompt: false };
        engine.time_ops(&mut [part]).unwrap()
    };
    let names: Vec<&str> = engine.last_bound().records.iter().map(|r| engine.backend().kernel_name(r.kernel)).collect();
    assert_eq!(times.len(), names.len());
    assert!(names.contains(&"matmul") && names.contains(&"attention"), "{names:?}");
}
