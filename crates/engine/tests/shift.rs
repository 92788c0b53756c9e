//! Positions that go and positions that move, and conversations that outlive the program.

use akunu::{
    DType, Engine, GenerateOptions, LoadOptions, Outputs, Sequence, SessionError, StepInput, log_probabilities,
};
use akunu_testkit::{TempDir, fixtures};
use std::path::Path;

fn load(model: Option<&Path>, kv: DType, context: usize) -> Engine {
    let options = LoadOptions { kv, context: Some(context), sequences: 2, threads: Some(2), ..Default::default() };
    match model {
        Some(path) => Engine::load(path, options).unwrap(),
        None => Engine::embedded(options).unwrap(),
    }
}

/// A text as the model would write it; any ids where it has no tokenizer and so no language.
fn stories(engine: &mut Engine, n: usize) -> Vec<u32> {
    story(engine, n, 0)
}

fn story(engine: &mut Engine, n: usize, seed: u64) -> Vec<u32> {
    if engine.tokenizer().is_none() {
        return (0..n as u32).map(|i| (i * 31 + i / 7) % 512).collect();
    }
    let options = GenerateOptions::new().max_tokens(n).temperature(1.0).ignore_eos(true);
    let mut sequence = engine.sequence();
    let mut text = Vec::new();
    while text.len() < n {
        // Stories are shorter than that: one after the other.
        let options = options.clone().seed(seed + text.len() as u64).max_tokens(150);
        sequence.clear();
        let mut generation = engine.generate(&mut sequence, &[1, 403, 261], options).unwrap();
        generation.by_ref().for_each(|p| drop(p.unwrap()));
        text.extend_from_slice(generation.generated());
    }
    text.truncate(n);
    text
}

/// Negative log-likelihood of `tokens` after what the sequence holds; `last` is fed first.
fn surprise(engine: &mut Engine, sequence: &mut Sequence, last: u32, tokens: &[u32]) -> f64 {
    let fed: Vec<u32> = [last].iter().chain(&tokens[..tokens.len() - 1]).copied().collect();
    let mut sum = 0.0;
    for (fed, tokens) in fed.chunks(64).zip(tokens.chunks(64)) {
        engine
            .step(&mut [StepInput { sequence: &mut *sequence, tokens: fed, outputs: Outputs::All, prompt: true }])
            .unwrap();
        for (i, &token) in tokens.iter().enumerate() {
            sum -= f64::from(log_probabilities(engine.logits_of(i), token, 0).chosen);
        }
    }
    sum
}

const SCORED: usize = 200;

/// Perplexity of what follows, after a shift and after computing the shifted text afresh, over some texts.
fn after_shift(engine: &mut Engine, (keep, drop, len): (usize, usize, usize), texts: u64) -> (f64, f64) {
    let (mut shifted_sum, mut fresh_sum) = (0.0, 0.0);
    for i in 0..texts {
        let text = story(engine, len + SCORED + 1, 1000 * i);
        let mut shifted = engine.sequence();
        engine.prefill(&mut shifted, &text[..len]).unwrap();
        engine.shift(&mut shifted, keep, drop).unwrap();
        assert_eq!(shifted.len(), len - drop);
        let mut fresh = engine.sequence();
        let kept: Vec<u32> = text[..keep].iter().chain(&text[keep + drop..len]).copied().collect();
        engine.prefill(&mut fresh, &kept).unwrap();
        let (last, rest) = (text[len], &text[len + 1..]);
        shifted_sum += surprise(engine, &mut shifted, last, rest);
        fresh_sum += surprise(engine, &mut fresh, last, rest);
    }
    let mean = |sum: f64| (sum / (texts as usize * SCORED) as f64).exp();
    (mean(shifted_sum), mean(fresh_sum))
}

#[test]
fn after_a_shift_the_text_goes_on_as_if_computed_afresh() {
    // The bound that is promised is 2 %; a few texts tell less exactly.
    let others = [(0, 64, 200), (70, 129, 300), (1, 1, 65)].map(|case| (DType::F16, case, 3, 0.05));
    let cases = [
        (DType::F16, (4, 100, 250), 20, 0.02),
        (DType::F32, (4, 100, 250), 3, 0.05),
        (DType::Q8_0, (4, 100, 250), 3, 0.05),
    ];
    for (kv, case, texts, bound) in cases.into_iter().chain(others) {
        let mut engine = load(None, kv, 512);
        let (shifted, fresh) = after_shift(&mut engine, case, texts);
        assert!((shifted / fresh - 1.0).abs() < bound, "{kv} {case:?}: {shifted} and {fresh}");
    }
}

#[test]
fn sliding_windows_shift_too() {
    let taught = fixtures::shared("hf/stories-gemma3");
    for path in taught.into_iter().chain(["hf/gemma3", "hf/mistral-swa"].map(fixtures::path)) {
        let mut engine = load(Some(&path), DType::F16, 512);
        let (shifted, fresh) = after_shift(&mut engine, (4, 120, 280), 4);
        assert!((0.95..1.05).contains(&(shifted / fresh)), "{}: {shifted} and {fresh}", path.display());
        // Blocks come back, however often it shifts.
        let mut sequence = engine.sequence();
        for round in 0..12 {
            let more = vec![7; 500 - sequence.len()];
            engine.prefill(&mut sequence, &more).unwrap();
            engine.shift(&mut sequence, 10, 137 + round * 11).unwrap();
        }
        assert!(sequence.len() < 500);
    }
}

#[test]
fn a_shift_leaves_a_fork_alone() {
    let mut engine = load(None, DType::F32, 256);
    let text = stories(&mut engine, 151);
    let mut shifted = engine.sequence();
    engine.prefill(&mut shifted, &text[..150]).unwrap();
    let mut fork = shifted.fork();
    engine.shift(&mut shifted, 3, 70).unwrap();
    let after = engine.prefill(&mut fork, &text[150..]).unwrap().to_vec();
    let mut fresh = engine.sequence();
    assert_eq!(engine.prefill(&mut fresh, &text).unwrap(), after);
}

#[test]
fn a_generation_outlives_its_context_where_it_may() {
    let mut engine = load(None, DType::F16, 128);
    let text = stories(&mut engine, 60);
    let mut sequence = engine.sequence();
    let options = GenerateOptions { max_tokens: 500, ignore_eos: true, context_shift: Some(8), ..Default::default() };
    let pieces = engine.generate(&mut sequence, &text, options.clone()).unwrap().filter(|p| p.is_ok()).count();
    assert_eq!(pieces, 500);
    let mut sequence = engine.sequence();
    let options = GenerateOptions { context_shift: None, ..options };
    assert_eq!(engine.generate(&mut sequence, &text, options).unwrap().count(), 128 - 60 + 1);
}

#[test]
fn a_session_goes_on_after_a_restart() {
    for model in [None, Some(fixtures::path("hf/gemma3"))] {
        let folder = TempDir::new();
        let path = folder.join("talk.session");
        let options = GenerateOptions::new().max_tokens(20).ignore_eos(true);
        let mut engine = load(model.as_deref(), DType::F16, 512);
        let text = stories(&mut engine, 200);
        let mut sequence = engine.sequence();
        engine.prefill(&mut sequence, &text[..199]).unwrap();
        engine.save_session(&path, &sequence, &text[..199], "a note").unwrap();
        let continued = |engine: &mut Engine, sequence: &mut Sequence| {
            let mut generation = engine.resume(sequence, &text, options.clone()).unwrap();
            generation.by_ref().for_each(|p| drop(p.unwrap()));
            (generation.generated().to_vec(), generation.steps())
        };
        let expected = continued(&mut engine, &mut sequence);
        drop(engine);
        let mut engine = load(model.as_deref(), DType::F16, 512);
        let mut session = engine.load_session(&path).unwrap();
        assert_eq!((session.tokens.as_slice(), session.note.as_str()), (&text[..199], "a note"));
        assert_eq!(session.sequence.len(), 199);
        // The same tokens, and only the new one was fed before them.
        assert_eq!(continued(&mut engine, &mut session.sequence), expected);
    }
}

#[test]
fn a_session_of_another_model_or_a_damaged_one_is_refused() {
    let folder = TempDir::new();
    let path = folder.join("talk.session");
    let mut engine = load(None, DType::F16, 256);
    let text = stories(&mut engine, 70);
    let mut sequence = engine.sequence();
    engine.prefill(&mut sequence, &text).unwrap();
    engine.save_session(&path, &sequence, &text, "").unwrap();
    // What is no file stays what it is.
    assert!(engine.save_session(path.parent().unwrap(), &sequence, &text, "").is_err());
    let refused = |engine: &mut Engine, path: &Path| match engine.load_session(path) {
        Err(akunu::Error::Session { error, .. }) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken"),
    };
    let other = load(Some(&fixtures::path("hf/gemma3")), DType::F16, 256);
    for mut engine in [other, load(None, DType::Q8_0, 256)] {
        assert!(matches!(refused(&mut engine, &path), SessionError::OtherModel));
    }
    assert!(matches!(refused(&mut load(None, DType::F16, 64), &path), SessionError::TooLong { positions: 70, .. }));
    let bytes = std::fs::read(&path).unwrap();
    for len in [0, 7, 11, 40, 50, 68, 100, bytes.len() / 2, bytes.len() - 1] {
        let cut = folder.write("cut", &bytes[..len]);
        refused(&mut engine, &cut);
    }
    let longer = folder.write("longer", &[bytes.clone(), vec![0]].concat());
    assert!(matches!(refused(&mut engine, &longer), SessionError::Damaged(_)));
    // Any byte of the header or of the lengths.
    for at in 0..68 {
        let mut changed = bytes.clone();
        changed[at] ^= 0x41;
        let path = folder.write("changed", &changed);
        refused(&mut engine, &path);
    }
    // What was refused holds no blocks.
    let mut sequences: Vec<Sequence> = (0..1).map(|_| engine.sequence()).collect();
    engine.prefill(&mut sequences[0], &vec![1; 256]).unwrap();
    assert!(matches!(engine.load_session(Path::new("no such file")), Err(akunu::Error::Format(_))));
    // A file without its bytes that claims 2^31 tokens.
    let mut sparse = bytes[..44].to_vec();
    sparse.extend([0, 1 << 31, 0].map(u64::to_le_bytes).concat());
    let sparse = folder.write("sparse", &sparse);
    std::fs::File::options().write(true).open(&sparse).unwrap().set_len((1 << 33) + 100).unwrap();
    assert!(matches!(refused(&mut engine, &sparse), SessionError::TooManyTokens { .. }));
    #[cfg(unix)]
    {
        let fifo = folder.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let error = engine.load_session(&fifo).err().unwrap().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}
