//! What must not matter: chains, batches, forks, chunking and what else is in the cache.

use akunu::{Activations, DType, Engine, GenerateOptions, LoadOptions, Outputs, SamplingOptions, StepInput, argmax};
use akunu_testkit::fixtures;

const PROMPT: [u32; 9] = [0, 345, 12, 77, 902, 15, 1, 640, 33];

fn embedded(options: LoadOptions) -> Engine {
    Engine::embedded(options).unwrap()
}

fn single_steps(engine: &mut Engine, prompt: &[u32], n: usize) -> Vec<u32> {
    let mut sequence = engine.sequence();
    let mut tokens = vec![argmax(engine.prefill(&mut sequence, prompt).unwrap())];
    while tokens.len() < n {
        let fed = [tokens[tokens.len() - 1]];
        let part = StepInput { sequence: &mut sequence, tokens: &fed, outputs: Outputs::Last, prompt: false };
        engine.step(&mut [part]).unwrap();
        tokens.push(argmax(engine.logits_of(0)));
    }
    tokens
}

#[test]
fn a_chain_gives_the_tokens_of_single_steps() {
    let mut engine = embedded(LoadOptions::default());
    let alone = single_steps(&mut engine, &PROMPT, 41);
    let mut sequence = engine.sequence();
    let first = argmax(engine.prefill(&mut sequence, &PROMPT).unwrap());
    let mut chained = vec![first];
    for n in [1, 2, 37] {
        let last = chained[chained.len() - 1];
        chained.extend_from_slice(engine.greedy(&mut sequence, last, n).unwrap());
    }
    assert_eq!(chained, alone);
    assert_eq!(sequence.len(), PROMPT.len() + 40);
}

#[test]
fn sequences_in_one_batch_get_the_logits_they_get_alone() {
    let mut engine = embedded(LoadOptions { sequences: 4, ..LoadOptions::default() });
    let prompts: Vec<Vec<u32>> = (0..4).map(|i| (0..5 + 7 * i).map(|t| (t * 37 + i * 11) % 4096).collect()).collect();
    let alone: Vec<Vec<f32>> = prompts
        .iter()
        .map(|p| {
            let mut sequence = engine.sequence();
            engine.prefill(&mut sequence, p).unwrap().to_vec()
        })
        .collect();
    let mut sequences: Vec<_> = prompts.iter().map(|_| engine.sequence()).collect();
    let mut parts: Vec<_> = sequences
        .iter_mut()
        .zip(&prompts)
        .map(|(sequence, tokens)| StepInput { sequence, tokens, outputs: Outputs::Last, prompt: true })
        .collect();
    engine.step(&mut parts).unwrap();
    for (i, alone) in alone.iter().enumerate() {
        assert_eq!(engine.logits_of(i), alone, "sequence {i}");
    }
}

#[test]
fn long_sequences_decode_in_a_batch_as_they_do_alone() {
    let options = LoadOptions { sequences: 6, context: Some(1024), threads: Some(2), ..LoadOptions::default() };
    let mut engine = embedded(options);
    // Shorter than what is split among workers, just as long, and longer.
    let prompts = [30, 510, 511, 512, 700].map(|n| (0..n).map(|t| (t * 37 + n) % 4096).collect::<Vec<u32>>());
    let mut prepared: Vec<_> = Vec::new();
    for prompt in &prompts {
        let mut sequence = engine.sequence();
        engine.prefill(&mut sequence, prompt).unwrap();
        prepared.push(sequence);
    }
    let mut alone = Vec::new();
    for sequence in &prepared {
        let mut fork = sequence.fork();
        engine
            .step(&mut [StepInput { sequence: &mut fork, tokens: &[7], outputs: Outputs::Last, prompt: false }])
            .unwrap();
        alone.push(engine.logits_of(0).to_vec());
    }
    let part = |sequence| StepInput { sequence, tokens: &[7], outputs: Outputs::Last, prompt: false };
    engine.step(&mut prepared.iter_mut().map(part).collect::<Vec<_>>()).unwrap();
    for (i, alone) in alone.iter().enumerate() {
        assert_eq!(engine.logits_of(i), alone, "sequence {i}");
    }
}

#[test]
fn a_fork_continues_like_its_parent_and_leaves_it_alone() {
    let mut engine = embedded(LoadOptions { sequences: 3, ..LoadOptions::default() });
    let mut parent = engine.sequence();
    engine.prefill(&mut parent, &PROMPT).unwrap();
    let mut child = parent.fork();
    let other = engine.prefill(&mut child, &[5, 6, 7]).unwrap().to_vec();
    let after = engine.prefill(&mut parent, &[9]).unwrap().to_vec();
    let mut fresh = engine.sequence();
    let tokens: Vec<u32> = PROMPT.into_iter().chain([9]).collect();
    assert_eq!(engine.prefill(&mut fresh, &tokens).unwrap(), after);
    assert_ne!(other, after);
}

#[test]
fn a_truncated_sequence_forgets() {
    let mut engine = embedded(LoadOptions::default());
    let mut sequence = engine.sequence();
    let before = engine.prefill(&mut sequence, &PROMPT).unwrap().to_vec();
    engine.prefill(&mut sequence, &[3; 100]).unwrap();
    sequence.truncate(PROMPT.len() - 1).unwrap();
    assert_eq!(engine.prefill(&mut sequence, &PROMPT[PROMPT.len() - 1..]).unwrap(), before);
}

/// Sliding layers hold a window of blocks; a text eight times as long must still come out right.
#[test]
fn a_window_forgets_only_what_it_cannot_see() {
    let dir = fixtures::path("hf/mistral-swa");
    let tokens: Vec<u32> = (0..500).map(|i| (i * 31 + i / 7) % 512).collect();
    let run = |chunk| {
        let options =
            LoadOptions { chunk: Some(chunk), kv: DType::F32, activations: Activations::F32, ..LoadOptions::default() };
        let mut engine = Engine::load(&dir, options).unwrap();
        let mut sequence = engine.sequence();
        engine.prefill(&mut sequence, &tokens).unwrap().to_vec()
    };
    let whole = run(512);
    for chunk in [1, 7, 64] {
        assert_eq!(run(chunk), whole, "chunks of {chunk}");
    }
}

#[test]
fn a_full_context_says_how_many_tokens_are_too_many() {
    let mut engine = embedded(LoadOptions { context: Some(64), ..LoadOptions::default() });
    let mut sequence = engine.sequence();
    let error = engine.prefill(&mut sequence, &[1; 100]).unwrap_err().to_string();
    assert!(error.contains("36 too many"), "{error}");
    assert_eq!(sequence.len(), 0);
    let options = GenerateOptions { ignore_eos: true, ..Default::default() };
    let pieces: Vec<_> = engine.generate(&mut sequence, &PROMPT, options).unwrap().collect();
    // The prompt and all generated tokens but the last are in the context.
    assert_eq!(pieces.len(), 64 - PROMPT.len() + 1);
    assert!(pieces.iter().all(|p| p.is_ok()));
}

#[test]
fn tokens_outside_the_vocabulary_are_refused() {
    let mut engine = embedded(LoadOptions::default());
    let mut sequence = engine.sequence();
    assert!(engine.prefill(&mut sequence, &[4096]).is_err());
    assert!(engine.prefill(&mut sequence, &[]).is_err());
}

#[test]
fn one_seed_tells_one_story() {
    let mut engine = embedded(LoadOptions::default());
    let mut tell = |seed| {
        let sampling = SamplingOptions { temperature: 1.0, seed, ..Default::default() };
        let options = GenerateOptions { max_tokens: 40, sampling, ..Default::default() };
        engine.generate_text("Once upon a time", options).unwrap()
    };
    let first = tell(1);
    assert_eq!(first, tell(1));
    assert_ne!(first, tell(2));
}

#[test]
fn a_q8_0_cache_changes_little() {
    let mut logits = Vec::new();
    for kv in [DType::F32, DType::Q8_0] {
        let mut engine = embedded(LoadOptions { kv, ..LoadOptions::default() });
        let mut sequence = engine.sequence();
        logits.push(engine.prefill(&mut sequence, &[7; 100]).unwrap().to_vec());
    }
    let error = akunu_testkit::relative_error(&logits[1], &logits[0]);
    assert!(error > 0.0 && error < 0.03, "{error}");
}
