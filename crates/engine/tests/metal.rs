//! Whole models through the Metal backend's dispatch table, on the emulator: the oracles' logits, the CPU's tokens, and the
//! promises of batches, chains and chunks.

#[allow(dead_code)]
mod support;

use akunu::{
    Activations, DType, Device, Embedder, Engine, LoadOptions, Outputs, OwnBackend, Reading, Sequence, StepInput, Text,
};
use akunu_metal::Metal;
use akunu_metal::chip::{CHIPS, Chip};
use akunu_metal_emulator::EmulatedGpu;
use akunu_testkit::{Golden, fixtures, golden, relative_error};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::contexts;

fn options(activations: Activations) -> LoadOptions {
    LoadOptions {
        activations,
        context: Some(256),
        sequences: 4,
        threads: Some(1),
        round_constants: true,
        ..LoadOptions::default()
    }
}

/// The chip of most tests: it has all that chips have.
fn chip() -> Chip {
    CHIPS.iter().find(|chip| chip.name == "M4 Pro").unwrap().clone()
}

/// On the emulator, as on a chip.
fn metal_on(chip: Chip, options: LoadOptions) -> LoadOptions {
    let open = move || Box::new(Metal::new(Box::new(EmulatedGpu::fast(chip.clone())))) as Box<_>;
    LoadOptions { backend: Some(OwnBackend(Arc::new(open))), ..options }
}

fn metal(options: LoadOptions) -> LoadOptions {
    metal_on(chip(), options)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn ids(golden: &Golden, case: usize) -> Vec<u32> {
    golden.i32(&format!("input_ids.{case}")).iter().map(|id| *id as u32).collect()
}

/// Decoders with goldens of HF or of their dequantized weights.
fn decoders(folder: &str) -> impl Iterator<Item = (PathBuf, Golden)> {
    fixtures::models(folder).into_iter().filter_map(|path| {
        let golden = match path.is_dir() {
            true => path.join("golden.safetensors"),
            false => path.with_extension("golden.safetensors"),
        };
        let golden = golden.exists().then(|| golden::load(&golden))?;
        let of_text = golden.has("logits.0") && golden.has("input_ids.0");
        of_text.then_some((path, golden))
    })
}

/// Our logits of a golden's case at the positions that it has, as far as the first `most` tokens go, and the golden's.
fn logits(engine: &mut Engine, golden: &Golden, case: usize, most: usize) -> (Vec<f32>, Vec<f32>) {
    let mut ids = ids(golden, case);
    ids.truncate(most);
    let vocab = engine.vocab();
    let theirs = golden.f32(&format!("logits.{case}"));
    let positions = format!("positions.{case}");
    let positions: Vec<usize> = match golden.has(&positions) {
        true => golden.i32(&positions).iter().map(|p| *p as usize).collect(),
        false => (0..theirs.len() / vocab).collect(),
    };
    let (mut ours, mut wanted) = (Vec::new(), Vec::new());
    engine
        .logits(&ids, |position, logits| {
            if let Some(at) = positions.iter().position(|p| *p == position) {
                ours.extend_from_slice(logits);
                wanted.extend_from_slice(&theirs[at * vocab..][..vocab]);
            }
        })
        .unwrap();
    (ours, wanted)
}

#[test]
fn every_decoder_gives_the_oracles_logits() {
    let mut failed = Vec::new();
    let mut checked = 0;
    for (path, golden) in decoders("hf") {
        for (activations, kv, tolerance) in
            [(Activations::F32, DType::F32, 1e-4), (Activations::Int8, DType::F16, 2e-3)]
        {
            // More than a tile of rows, where there are tiles.
            let case = if activations == Activations::Int8 && golden.has("logits.2") { 2 } else { 0 };
            let options = as_the_oracle(&path, &golden, case, LoadOptions { kv, ..options(activations) });
            let mut engine = match Engine::load(&path, metal(options)) {
                Ok(engine) => engine,
                Err(error) => {
                    failed.push(format!("{}: {error}", name(&path)));
                    continue;
                }
            };
            let (ours, theirs) = logits(&mut engine, &golden, case, 41);
            assert!(!ours.is_empty(), "{}: nothing is compared", name(&path));
            checked += 1;
            let error = relative_error(&ours, &theirs);
            if error.is_nan() || error > tolerance {
                failed.push(format!("{}, {activations:?}: relative error {error:.1e}", name(&path)));
            }
        }
    }
    assert!(failed.is_empty(), "{} fail:\n{}", failed.len(), failed.join("\n"));
    assert!(checked >= 20, "{checked} were checked");
}

/// As a golden's oracle was loaded for a case: which constants it rounded, and the ropes of its context.
fn as_the_oracle(path: &Path, golden: &Golden, case: usize, options: LoadOptions) -> LoadOptions {
    let of_case = contexts(path, golden).into_iter().find(|(_, cases)| cases.contains(&case));
    let context = of_case.and_then(|(context, _)| context).or(options.context);
    LoadOptions { context, round_constants: path.is_dir() && fixtures::was_cast(path), ..options }
}

/// The likeliest tokens after a prompt, as one chain.
fn chain(engine: &mut Engine, prompt: &[u32], n: usize) -> Vec<u32> {
    let mut sequence = engine.sequence();
    chain_in(engine, &mut sequence, prompt, n)
}

fn chain_in(engine: &mut Engine, sequence: &mut Sequence, prompt: &[u32], n: usize) -> Vec<u32> {
    let logits = engine.prefill(sequence, prompt).unwrap();
    let first = akunu::argmax(logits);
    let mut tokens = vec![first];
    tokens.extend_from_slice(engine.greedy(sequence, first, n).unwrap());
    tokens
}

/// The models that tell stories: what they say is real text, whose best tokens are far from the next best.
fn stories() -> Vec<PathBuf> {
    let mut found = vec![fixtures::path("gguf/stories-llama-Q4_0.gguf")];
    let names = ["hf/stories-qwen3", "hf/stories-gemma3"];
    found.extend(names.iter().filter_map(|name| fixtures::shared(name)));
    found
}

#[test]
fn stories_are_the_cpus_and_chains_are_steps() {
    for path in stories() {
        let options = LoadOptions { kv: DType::F16, ..options(Activations::F32) };
        let mut cpu = Engine::load(&path, LoadOptions { device: Device::Cpu, ..options.clone() }).unwrap();
        let mut ours = Engine::load(&path, metal(options)).unwrap();
        let prompt: Vec<u32> = vec![1, 403, 407, 261, 378];
        let mut whole = ours.sequence();
        let told = chain_in(&mut ours, &mut whole, &prompt, 16);
        assert_eq!(told, chain(&mut cpu, &prompt, 16), "{}", name(&path));
        // One step at a time, and what comes after: to the bit.
        let mut single = ours.sequence();
        ours.prefill(&mut single, &prompt).unwrap();
        for pair in told.windows(2) {
            assert_eq!(ours.greedy(&mut single, pair[0], 1).unwrap(), &pair[1..]);
        }
        let last = |engine: &mut Engine, sequence: &mut Sequence| {
            let part = StepInput { sequence, tokens: &told[16..], outputs: Outputs::Last, prompt: false };
            engine.step(&mut [part]).unwrap();
            engine.logits_of(0).to_vec()
        };
        assert_eq!(last(&mut ours, &mut whole), last(&mut ours, &mut single), "{}", name(&path));
    }
}

#[test]
fn a_batch_gives_each_sequence_what_it_gets_alone() {
    for path in ["hf/llama-untied", "hf/gemma3", "hf/qwen3"].map(fixtures::path) {
        let mut engine = Engine::load(&path, metal(options(Activations::Int8))).unwrap();
        let prompts: [&[u32]; 3] = [&[3, 17, 90, 200], &[7; 40], &[5]];
        let next = [11u32, 12, 13];
        let mut alone = Vec::new();
        for (prompt, next) in prompts.iter().zip(&next) {
            let mut sequence = engine.sequence();
            engine.prefill(&mut sequence, prompt).unwrap();
            let tokens = std::slice::from_ref(next);
            let part = StepInput { sequence: &mut sequence, tokens, outputs: Outputs::Last, prompt: false };
            engine.step(&mut [part]).unwrap();
            alone.push(engine.logits_of(0).to_vec());
        }
        let mut sequences: Vec<Sequence> = prompts.iter().map(|_| engine.sequence()).collect();
        // Their prompts in one step, too.
        let parts = sequences.iter_mut().zip(prompts);
        let mut parts: Vec<StepInput<'_>> = parts
            .map(|(sequence, tokens)| StepInput { sequence, tokens, outputs: Outputs::None, prompt: true })
            .collect();
        engine.step(&mut parts).unwrap();
        let parts = sequences.iter_mut().zip(next.chunks(1));
        let mut parts: Vec<StepInput<'_>> = parts
            .map(|(sequence, tokens)| StepInput { sequence, tokens, outputs: Outputs::Last, prompt: false })
            .collect();
        engine.step(&mut parts).unwrap();
        for (output, alone) in alone.iter().enumerate() {
            assert!(engine.logits_of(output) == alone, "{}, sequence {output}", name(&path));
        }
    }
}

#[test]
fn chunks_of_a_prompt_may_be_of_any_size() {
    for name in ["hf/gemma3", "hf/qwen3"] {
        let path = fixtures::path(name);
        let run = |prompt: usize, chunk: usize| {
            let prompt: Vec<u32> = (0..prompt as u32).map(|i| 3 + i * 7 % 400).collect();
            let options = LoadOptions { chunk: Some(chunk), ..options(Activations::Int8) };
            let mut engine = Engine::load(&path, metal(options)).unwrap();
            let mut sequence = engine.sequence();
            engine.prefill(&mut sequence, &prompt).unwrap().to_vec()
        };
        for (prompt, chunk) in [(9, 1), (70, 7), (70, 64)] {
            assert!(run(prompt, chunk) == run(prompt, 128), "{name}: {prompt} tokens in chunks of {chunk}");
        }
    }
}

/// With every access of every thread compared with those of the others.
#[test]
fn whole_models_have_no_races() {
    let path = fixtures::path("hf/gemma3");
    for activations in [Activations::F32, Activations::Int8] {
        let open = || Box::new(Metal::new(Box::new(EmulatedGpu::new(chip())))) as Box<_>;
        let options = LoadOptions { backend: Some(OwnBackend(Arc::new(open))), ..options(activations) };
        let mut engine = Engine::load(&path, options).unwrap();
        assert_eq!(chain(&mut engine, &[3, 17, 90, 200, 5, 6, 7, 8, 9], 2).len(), 3);
    }
}

#[test]
fn every_format_of_file_gives_the_oracles_logits() {
    let mut failed = Vec::new();
    let mut checked = 0;
    for (path, golden) in decoders("gguf").chain(decoders("mlx")) {
        let exact = LoadOptions { kv: DType::F32, ..options(Activations::F32) };
        let exact = as_the_oracle(&path, &golden, 0, exact);
        let mut cpu = Engine::load(&path, LoadOptions { device: Device::Cpu, ..exact.clone() }).unwrap();
        let mut engine = Engine::load(&path, metal(exact)).unwrap();
        let ((ours, theirs), (cpu, _)) = (logits(&mut engine, &golden, 0, 12), logits(&mut cpu, &golden, 0, 12));
        assert!(!ours.is_empty(), "{}: nothing is compared", name(&path));
        checked += 1;
        // MLX's goldens were computed in 16 bits: there the CPU is the judge.
        let judge = if path.is_dir() { &cpu } else { &theirs };
        let error = relative_error(&ours, judge);
        if error.is_nan() || error > 1e-4 {
            failed.push(format!("{}: relative error {error:.1e}", name(&path)));
        }
    }
    assert!(failed.is_empty(), "{} fail:\n{}", failed.len(), failed.join("\n"));
    assert!(checked >= 8, "{checked} were checked");
}

#[test]
fn without_matrices_of_simd_groups_a_prompt_gives_the_same() {
    let path = fixtures::path("hf/qwen3");
    let golden = golden::load(&path.join("golden.safetensors"));
    let old = Chip { family: 6, matrices: false, ..chip() };
    let mut engine = Engine::load(&path, metal_on(old, options(Activations::Int8))).unwrap();
    let (ours, theirs) = logits(&mut engine, &golden, 2, 41);
    let error = relative_error(&ours, &theirs);
    assert!(!ours.is_empty() && error < 2e-3, "relative error {error:.1e}");
}

#[test]
fn encoders_give_the_cpus_vectors() {
    for name in ["hf/bert", "hf/modernbert"] {
        let path = fixtures::path(name);
        let vectors = |options: LoadOptions| {
            let mut embedder = Embedder::load(&path, options, Reading::Hidden).unwrap();
            let texts: Vec<Text> =
                [5, 70, 1].map(|n| (0..n).map(|i| 5 + i * 3 % 90).collect::<Vec<u32>>().into()).into();
            let mut found = Vec::new();
            embedder.read(&texts, |_, vector| found.extend_from_slice(vector)).unwrap();
            found
        };
        let options = LoadOptions { context: None, ..options(Activations::F32) };
        let cpu = vectors(LoadOptions { device: Device::Cpu, ..options.clone() });
        for activations in [Activations::F32, Activations::Int8] {
            let error = relative_error(&vectors(metal(LoadOptions { activations, ..options.clone() })), &cpu);
            assert!(error < 2e-3, "{name}, {activations:?}: relative error {error:.1e}");
        }
    }
}

/// Frames `[frames][bands]` of a golden's `mel`.
fn frames(golden: &Golden) -> Vec<f32> {
    let [bands, frames] = *golden.shape("mel") else { panic!("mel is not a matrix") };
    let mel = golden.f32("mel");
    (0..frames * bands).map(|i| mel[i % bands * frames + i / bands]).collect()
}

#[test]
fn speech_gives_the_oracles_encoder_and_logits() {
    let path = fixtures::path("hf/whisper-short");
    let golden = golden::load(&path.join("golden.safetensors"));
    let tokens: Vec<u32> = golden.i32("decoder_ids").iter().map(|id| *id as u32).collect();
    for (activations, kv, tolerance) in [(Activations::F32, DType::F32, 1e-4), (Activations::Int8, DType::F16, 2e-3)] {
        let options = metal(LoadOptions { kv, context: None, ..options(activations) });
        let mut engine = Engine::load(&path, options).unwrap();
        let mut sequence = engine.sequence();
        engine.encode(&mut sequence, &frames(&golden)).unwrap();
        let encoded = engine.encoded(&frames(&golden)).unwrap();
        let error = relative_error(&encoded, &golden.f32("encoder"));
        assert!(error < tolerance, "{activations:?}: encoder off by {error:.1e}");
        let mut logits = Vec::new();
        engine.logits_in(&mut sequence, &tokens, |_, row| logits.extend_from_slice(row)).unwrap();
        let error = relative_error(&logits, &golden.f32("logits"));
        assert!(error < tolerance, "{activations:?}: logits off by {error:.1e}");
        let positions = engine.encoder_positions();
        for weights in engine.timing(&mut sequence, &[1, 2, 3]).unwrap().iter().flat_map(|row| row.chunks(positions)) {
            assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-4);
        }
    }
}
