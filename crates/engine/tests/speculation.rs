//! Speculative decoding changes how many steps a text takes, never the text.

use akunu::{
    Activations, Draft, Engine, Error, GenerateOptions, LoadOptions, Request, SamplingOptions, Scheduler,
    SchedulerOptions, Speculation,
};
use akunu_testkit::fixtures;

fn engine() -> Engine {
    Engine::embedded(LoadOptions { threads: Some(2), ..Default::default() }).unwrap()
}

/// Tokens, and the steps they took.
fn generate(engine: &mut Engine, prompt: &[u32], options: GenerateOptions) -> (Vec<u32>, usize) {
    let (tokens, steps, _) = generate_in_branches(engine, prompt, options);
    (tokens, steps)
}

/// Tokens, the steps they took, and in how many of these there were branches.
fn generate_in_branches(engine: &mut Engine, prompt: &[u32], options: GenerateOptions) -> (Vec<u32>, usize, usize) {
    let mut sequence = engine.sequence();
    let mut generation = engine.generate(&mut sequence, prompt, options).unwrap();
    generation.by_ref().for_each(|p| drop(p.unwrap()));
    (generation.generated().to_vec(), generation.steps(), generation.branched())
}

/// A text that says everything three times.
fn repetitive() -> Vec<u32> {
    let once: Vec<u32> = (0..40).map(|i| (i * 97 + 11) % 4000).collect();
    [once.clone(), once.clone(), once].concat()
}

fn samplings() -> Vec<SamplingOptions> {
    let warm = SamplingOptions { temperature: 0.9, seed: 5, ..Default::default() };
    vec![
        SamplingOptions::default(),
        warm.clone(),
        SamplingOptions { repeat_penalty: 1.3, ..warm.clone() },
        SamplingOptions { mirostat: Some(Default::default()), ..warm },
    ]
}

fn options(sampling: &SamplingOptions) -> GenerateOptions {
    GenerateOptions::new().max_tokens(120).ignore_eos(true).sampling(sampling.clone())
}

#[test]
fn looked_up_drafts_leave_the_text_as_it_is() {
    let mut engine = engine();
    for sampling in samplings() {
        for prompt in [repetitive(), vec![1, 2, 3], (0..200).map(|i| i * 7 % 4000).collect()] {
            let (plain, _) = generate(&mut engine, &prompt, options(&sampling));
            for speculation in [Speculation::Ngram, Speculation::NgramAlways] {
                let drafting = options(&sampling).speculation(speculation);
                let (drafted, steps) = generate(&mut engine, &prompt, drafting);
                assert_eq!(drafted, plain, "{sampling:?}");
                assert!(steps <= plain.len(), "{steps}");
            }
        }
    }
}

#[test]
fn a_text_that_repeats_itself_takes_few_steps() {
    // Weights that nobody trained: greedy, the text says the same token over and over, as the oracle's does.
    let exact = LoadOptions { activations: Activations::F32, threads: Some(2), ..Default::default() };
    let mut engine = Engine::load(&fixtures::path("hf/gemma2"), exact).unwrap();
    let options = options(&SamplingOptions::default()).max_tokens(100);
    let (plain, plain_steps) = generate(&mut engine, &[9, 8, 7, 6], options.clone());
    let (drafted, steps) = generate(&mut engine, &[9, 8, 7, 6], options.speculation(Speculation::NgramAlways));
    assert_eq!(drafted, plain);
    let repeated = plain.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(repeated >= 80, "the text does not repeat itself: {plain:?}");
    assert!(plain_steps >= 100 && steps <= 60, "{steps} steps instead of {plain_steps}");
}

#[test]
fn texts_with_several_ways_to_go_on_are_tried_in_branches_and_stay_the_same() {
    let mut engine = engine();
    // Three tokens in any order: what was said before has gone on with each of them.
    let prompt: Vec<u32> = (0..48u32).map(|i| 300 + i * i * 7 / 5 % 3).collect();
    let logit_bias: Vec<(u32, f32)> = (300..303).map(|token| (token, 1e4)).collect();
    for sampling in samplings().into_iter().filter(|s| s.temperature > 0.0) {
        let logit_bias = logit_bias.clone();
        let sampling = SamplingOptions { temperature: 100.0, top_p: 1.0, min_p: 0.0, logit_bias, ..sampling };
        let options = options(&sampling).max_tokens(200);
        let (plain, _) = generate(&mut engine, &prompt, options.clone());
        assert!((300..303).all(|token| plain.contains(&token)), "{sampling:?}: {plain:?}");
        let options = options.speculation(Speculation::NgramAlways);
        let (drafted, _, branched) = generate_in_branches(&mut engine, &prompt, options);
        assert_eq!(drafted, plain, "{sampling:?}");
        assert!(branched > 0, "{sampling:?}: no step had branches");
    }
}

#[test]
fn a_stop_inside_accepted_drafts_ends_the_text_there() {
    let mut engine = engine();
    let sampling = SamplingOptions::default();
    let (plain, _) = generate(&mut engine, &repetitive(), options(&sampling));
    for at in [1, 5, 30, 90] {
        let stop = plain[at];
        let first = plain.iter().position(|t| *t == stop).unwrap();
        let options = options(&sampling).stop_token(stop).speculation(Speculation::NgramAlways);
        let mut sequence = engine.sequence();
        let mut generation = engine.generate(&mut sequence, &repetitive(), options).unwrap();
        generation.by_ref().for_each(|p| drop(p.unwrap()));
        assert_eq!(generation.generated(), &plain[..first]);
        // What was computed beyond the end is not in the sequence.
        assert!(sequence.len() <= repetitive().len() + first);
    }
}

#[test]
fn a_draft_model_leaves_the_text_as_it_is_and_is_mostly_right_about_itself() {
    let mut engine = engine();
    let mut all = 0;
    for sampling in samplings() {
        let (plain, _) = generate(&mut engine, &[5, 6, 7], options(&sampling));
        // The same model in another rounding: it agrees often, not always.
        let rounded = LoadOptions { activations: Activations::F32, ..Default::default() };
        let mut draft = Draft::new(Engine::embedded(rounded).unwrap());
        for round in 0..2 {
            let mut sequence = engine.sequence();
            let mut generation =
                engine.resume_drafted(&mut sequence, &[5, 6, 7], options(&sampling), &mut draft).unwrap();
            generation.by_ref().for_each(|p| drop(p.unwrap()));
            assert_eq!(generation.generated(), plain, "{sampling:?}, round {round}");
        }
        assert!(draft.accepted * 2 >= draft.drafted, "{} of {}", draft.accepted, draft.drafted);
        all += draft.drafted;
    }
    assert!(all > 0, "nothing was drafted");
}

#[test]
fn a_draft_model_of_another_vocabulary_is_refused() {
    let mut small = Engine::load(&fixtures::path("hf/mistral-swa"), LoadOptions::default()).unwrap();
    let mut draft = Draft::new(engine());
    let mut sequence = small.sequence();
    let refused = small.resume_drafted(&mut sequence, &[1], GenerateOptions::new(), &mut draft);
    assert!(matches!(refused, Err(Error::OtherVocabulary { .. })));
}

#[test]
fn drafts_in_a_batch_leave_everybody_as_they_are() {
    let load = || {
        let options = LoadOptions { sequences: 4, threads: Some(2), ..Default::default() };
        Engine::embedded(options).unwrap()
    };
    let mut scheduler = Scheduler::new(load(), SchedulerOptions::default());
    let mut expected = Vec::new();
    let mut single = engine();
    for (i, sampling) in samplings().iter().enumerate() {
        let prompt: Vec<u32> = repetitive().into_iter().skip(i * 3).collect();
        expected.push(generate(&mut single, &prompt, options(sampling)).0);
        let options = options(sampling).speculation(Speculation::NgramAlways);
        scheduler.submit(Request { tokens: prompt, options }).unwrap();
    }
    let mut got = vec![Vec::new(); 4];
    while scheduler.step(|id, event| {
        if let akunu::Event::Piece(piece) = event {
            got[id.0 as usize].push(piece.token);
        }
    }) {}
    assert_eq!(got, expected);
}
