//! The text of a window token by token, with rules that look at all of it: what chains of tokens must come to, bit by bit.

use akunu::speech::{Decoding, Event, Silence, TranscribeOptions, Transcriber, Vocabulary};
use akunu::{Engine, LoadOptions, Outputs, StepInput, argmax};
use akunu_audio::Features;
use akunu_plan::rules::log_sum;
use std::ops::ControlFlow;
use std::path::Path;

/// The likeliest text of the first window of a recording as a transcriber gives it, against the same of steps of one token.
/// How many tokens it has.
pub fn compare(model: &Path, options: LoadOptions, recording: &Path, language: &str, timestamps: bool) -> usize {
    let mut transcriber = Transcriber::load(model, options.clone()).unwrap();
    let decoding = Decoding { beams: 1, temperatures: vec![0.0], no_speech: 1.0, ..Decoding::default() };
    let asked = TranscribeOptions {
        language: Some(language.into()),
        decoding,
        timestamps,
        silence: Silence::Keep,
        ..TranscribeOptions::default()
    };
    let open = |bands| Features::open(recording, bands, |_| {}).unwrap();
    let mut features = open(transcriber.bands());
    let first_window = |event: Event<'_>| match event {
        Event::Progress(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let found = transcriber.transcribe(&mut features, &asked, first_window).unwrap().segments;

    let vocabulary = transcriber.vocabulary();
    let mut engine = Engine::load(model, options).unwrap();
    let (most, bands) = engine.frames();
    let frames = open(bands).window(0, most).unwrap();
    let (tokens, mean) = text(&mut engine, vocabulary, &frames, language, timestamps);
    let what = format!("{}, {}", model.display(), recording.display());
    assert_eq!(found[0].log_probability, mean, "{what}");
    let said: Vec<u32> = found.iter().flat_map(|s| &s.tokens).copied().collect();
    // What comes after the last pair of timestamps belongs to the next window.
    assert!(tokens.starts_with(&said), "{what}: {said:?}, token by token {tokens:?}");
    tokens.len()
}

/// The likeliest tokens, and the mean of their log-probabilities and the end's.
fn text(engine: &mut Engine, v: &Vocabulary, frames: &[f32], language: &str, timestamps: bool) -> (Vec<u32>, f32) {
    let mut sequence = engine.sequence();
    engine.encode(&mut sequence, frames).unwrap();
    let mut next = vec![v.start];
    if v.multilingual {
        next.extend([v.language(language).unwrap(), v.transcribe]);
    }
    if !timestamps {
        next.push(v.no_timestamps);
    }
    let (mut tokens, mut sum, mut prompt) = (Vec::new(), 0.0, true);
    while tokens.len() < engine.context() / 2 {
        let part = StepInput { sequence: &mut sequence, tokens: &next, outputs: Outputs::Last, prompt };
        engine.step(&mut [part]).unwrap();
        let mut logits = engine.logits_of(0).to_vec();
        obey(&mut logits, v, &tokens, timestamps);
        let token = argmax(&logits);
        sum += logits[token as usize] - log_sum(&logits);
        if token == v.end {
            break;
        }
        tokens.push(token);
        (next, prompt) = (vec![token], false);
    }
    let mean = sum / (tokens.len() + 1) as f32;
    (tokens, mean)
}

/// Makes what may not follow `sampled` impossible.
fn obey(logits: &mut [f32], v: &Vocabulary, sampled: &[u32], timestamps: bool) {
    const NEVER: f32 = f32::NEG_INFINITY;
    let first = v.first_timestamp as usize;
    v.unspoken().unwrap().into_iter().chain([v.no_timestamps]).for_each(|token| logits[token as usize] = NEVER);
    if sampled.is_empty() {
        v.encode(" ").unwrap().into_iter().chain([v.end]).for_each(|token| logits[token as usize] = NEVER);
    }
    if !timestamps {
        return logits[first..].fill(NEVER);
    }
    // Timestamps come in pairs, but for one before the end.
    let last = sampled.last().is_some_and(|t| v.is_timestamp(*t));
    let before = sampled.len() < 2 || v.is_timestamp(sampled[sampled.len() - 2]);
    match (last, before) {
        (true, true) => logits[first..].fill(NEVER),
        (true, false) => logits[..v.end as usize].fill(NEVER),
        _ => {}
    }
    // They never go back, and a segment is never empty.
    if let Some(latest) = sampled.iter().rev().find(|t| v.is_timestamp(**t)) {
        let allowed = if last && !before { *latest } else { latest + 1 };
        logits[first..allowed as usize].fill(NEVER);
    }
    // The first is at most one second.
    if sampled.is_empty() {
        logits[..first].fill(NEVER);
        logits[first + 51..].fill(NEVER);
    }
    // All timestamps together likelier than any word: it is time for one.
    let likeliest = logits[..first].iter().copied().fold(NEVER, f32::max);
    if log_sum(&logits[first..]) > likeliest {
        logits[..first].fill(NEVER);
    }
}
