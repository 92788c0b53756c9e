//! A model of speech against HF's encoder and logits, and sequences that share encoded audio.

#[path = "support/stepwise.rs"]
mod stepwise;
#[allow(dead_code)]
mod support;

use akunu::{Activations, DType, Engine, Error, LoadOptions, Outputs, StepInput};
use akunu_convert::convert;
use akunu_hub::Hub;
use akunu_testkit::{Golden, TempDir, fixtures, golden, relative_error};
use std::path::PathBuf;
use support::*;

/// The small model of the repository, and the larger beside it.
fn models() -> Vec<(PathBuf, Golden)> {
    let dirs = [Some(fixtures::path("hf/whisper-short")), fixtures::shared("hf/whisper")];
    let golden = |dir: PathBuf| (dir.clone(), golden::load(&dir.join("golden.safetensors")));
    dirs.into_iter().flatten().map(golden).collect()
}

/// Frames `[frames][bands]` of a golden's `mel`.
fn frames(golden: &Golden) -> Vec<f32> {
    let [bands, frames] = *golden.shape("mel") else { panic!("mel is not a matrix") };
    let mel = golden.f32("mel");
    (0..frames * bands).map(|i| mel[i % bands * frames + i / bands]).collect()
}

/// Tolerances as for text: 1e-4 with an f32 KV cache, 2e-3 with f16.
#[test]
fn hf_speech_gives_the_oracles_encoder_and_logits() {
    for (dir, golden) in models() {
        let tokens: Vec<u32> = golden.i32("decoder_ids").iter().map(|t| *t as u32).collect();
        let settings = ways().into_iter().flat_map(|way| [(way, DType::F32, 1e-4), (way, DType::F16, 2e-3)]);
        for (way, kv, tolerance) in settings {
            let what = format!("{}, {way:?}, KV {kv}", name(&dir));
            let mut engine = Engine::load(&dir, LoadOptions { kv, ..options(way, Activations::F32) }).unwrap();
            let mut sequence = engine.sequence();
            engine.encode(&mut sequence, &frames(&golden)).unwrap();
            let encoded = engine.encoded(&frames(&golden)).unwrap();
            let error = relative_error(&encoded, &golden.f32("encoder"));
            assert!(error < tolerance, "{what}: encoder off by {error:.1e}");
            let mut logits = Vec::new();
            engine.logits_in(&mut sequence, &tokens, |_, row| logits.extend_from_slice(row)).unwrap();
            let error = relative_error(&logits, &golden.f32("logits"));
            assert!(error < tolerance, "{what}: logits off by {error:.1e}");
        }
    }
}

#[test]
fn chains_of_real_models_choose_what_is_chosen_token_by_token() {
    for name in ["whisper-tiny", "whisper-base.en"] {
        let fetched = Hub::from_environment().and_then(|hub| hub.path(name)).ok();
        let what = format!("{name} (cargo xtask models fetch {name})");
        let Some(model) = fixtures::needed(fetched, fixtures::Source::Fetched, &what) else { continue };
        for recording in fixtures::all("audio/speech") {
            for timestamps in [true, false] {
                stepwise::compare(&model, LoadOptions::default(), &recording, "en", timestamps);
            }
        }
    }
}

#[test]
fn forks_share_encoded_audio_and_a_batch_of_them_gives_what_each_gives_alone() {
    let (dir, golden) = models().swap_remove(0);
    let mut engine = Engine::load(&dir, LoadOptions { sequences: 8, ..LoadOptions::default() }).unwrap();
    let mut encoded = engine.sequence();
    engine.encode(&mut encoded, &frames(&golden)).unwrap();
    let texts: [[u32; 3]; 4] = [[1, 2, 3], [4, 5, 6], [1, 2, 7], [9, 9, 9]];
    let alone: Vec<Vec<f32>> =
        texts.iter().map(|text| engine.prefill(&mut encoded.fork(), text).unwrap().to_vec()).collect();
    let mut forks: Vec<_> = texts.iter().map(|_| encoded.fork()).collect();
    let mut parts: Vec<StepInput<'_>> = forks
        .iter_mut()
        .zip(&texts)
        .map(|(sequence, text)| StepInput { sequence, tokens: text, outputs: Outputs::Last, prompt: true })
        .collect();
    engine.step(&mut parts).unwrap();
    for (i, alone) in alone.iter().enumerate() {
        assert!(relative_error(engine.logits_of(i), alone) < 1e-5, "text {i}");
    }
    // Another recording does not change what the first sequences share.
    let mut other = engine.sequence();
    engine.encode(&mut other, &vec![0.5; 80 * 50]).unwrap();
    let again = engine.prefill(&mut encoded.fork(), &texts[0]).unwrap().to_vec();
    assert_eq!(again, alone[0]);
    assert!(relative_error(engine.prefill(&mut other, &texts[0]).unwrap(), &alone[0]) > 1e-3);
}

#[test]
fn what_cannot_be_encoded_is_an_error() {
    let mut engine = Engine::embedded(LoadOptions::default()).unwrap();
    let mut sequence = engine.sequence();
    assert!(matches!(engine.encode(&mut sequence, &[]), Err(Error::NoAudioEncoder)));
    let (dir, _) = models().swap_remove(0);
    let mut engine = Engine::load(&dir, LoadOptions::default()).unwrap();
    let mut sequence = engine.sequence();
    assert!(matches!(engine.prefill(&mut sequence, &[1]), Err(Error::NoAudio)));
    assert!(matches!(engine.encode(&mut sequence, &[0.0; 81]), Err(Error::Frames { .. })));
    assert!(matches!(engine.encode(&mut sequence, &vec![0.0; 80 * 121]), Err(Error::Frames { .. })));
    engine.encode(&mut sequence, &[]).unwrap();
    engine.prefill(&mut sequence, &[1]).unwrap();
    assert!(matches!(engine.encode(&mut sequence, &[]), Err(Error::Frames { .. })), "it has words already");
}

#[test]
fn heads_that_time_words_look_at_all_positions() {
    let (dir, golden) = models().swap_remove(0);
    let mut engine = Engine::load(&dir, LoadOptions::default()).unwrap();
    let mut sequence = engine.sequence();
    engine.encode(&mut sequence, &frames(&golden)).unwrap();
    let positions = engine.encoder_positions();
    let rows = engine.timing(&mut sequence, &[1, 2, 3]).unwrap();
    assert_eq!(rows.len(), 3);
    for weights in rows.iter().flat_map(|row| row.chunks(positions)) {
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-4);
    }
}

#[test]
fn a_model_of_speech_converted_to_gguf_gives_the_oracles_encoder_and_logits() {
    for (dir, golden) in models() {
        let out = TempDir::new();
        let path = out.join("speech.gguf");
        convert(&dir, &path, "f32", Default::default(), &mut |_, _| {}).unwrap();
        let load = |path| {
            let options = LoadOptions { kv: DType::F32, activations: Activations::F32, ..LoadOptions::default() };
            Engine::load(path, options).unwrap()
        };
        let (mut engine, original) = (load(&path), load(&dir));
        assert_eq!(engine.model().config.timing_heads, original.model().config.timing_heads);
        let encoded = engine.encoded(&frames(&golden)).unwrap();
        // The oracle's tolerance where prompts may be rounded to bf16.
        let error = relative_error(&encoded, &golden.f32("encoder"));
        assert!(error < 2e-3, "{}: encoder off by {error:.1e}", name(&dir));
    }
}
