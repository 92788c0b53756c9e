//! The builder and the reference executor against HF's logits: no backend involved.

use akunu_arch::Model;
use akunu_dtype::DType;
use akunu_formats::ModelFile;
use akunu_plan::program::ActivationLayout;
use akunu_plan::reference::Reference;
use akunu_plan::{BuildOptions, Output, Program, RowVars, StepLayout, build};
use akunu_testkit::{Golden, cosine, fixtures, golden, relative_error};

fn options(rows: usize, int8: bool) -> BuildOptions {
    BuildOptions {
        max_rows: rows,
        max_outputs: rows,
        activations: if int8 { ActivationLayout::Q8 } else { ActivationLayout::F32 },
        may_round: false,
        kv: DType::F32,
        output: Output::Logits,
    }
}

/// Logits of every position, in one step, by the reference executor.
fn reference_logits(program: &Program, file: &ModelFile, ids: &[i32]) -> Vec<f32> {
    let layout = StepLayout {
        max_rows: ids.len(),
        max_outputs: ids.len(),
        groups: program.kv_groups.len(),
        sequences: 1,
        table_blocks: ids.len().div_ceil(akunu_plan::KV_BLOCK),
        max_chain: 1,
    };
    let mut reference = Reference::new(program, file, layout);
    let mut steps = reference.steps();
    steps.header_mut().rows = ids.len() as u32;
    steps.header_mut().outputs = ids.len() as u32;
    for (i, (row, id)) in steps.rows_mut().iter_mut().zip(ids).enumerate() {
        *row = RowVars { token: *id as u32, position: i as u32, sequence: 0, ..RowVars::default() };
    }
    steps.outputs_mut().iter_mut().enumerate().for_each(|(i, o)| *o = i as u32);
    for group in 0..program.kv_groups.len() {
        steps.table_mut(group, 0).iter_mut().enumerate().for_each(|(i, b)| *b = i as u32);
    }
    reference.run();
    reference.buffer(program.logits).to_vec()
}

#[test]
fn reference_executor_reproduces_hf_logits_of_every_family() {
    let mut failures = Vec::new();
    for dir in fixtures::models("hf") {
        let golden = golden::load(&dir.join("golden.safetensors"));
        // Encoders and speech models have other goldens.
        if !golden.has("greedy.0") {
            continue;
        }
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let read = |dir: &std::path::Path| -> Result<_, Box<dyn std::error::Error>> {
            let file = ModelFile::open(dir)?;
            let mut model = Model::read(&file)?;
            if fixtures::was_cast(dir) {
                model.round_constants(&file);
            }
            Ok((file, model))
        };
        let (file, mut model) = match read(&dir) {
            Ok(read) => read,
            Err(e) => {
                failures.push(format!("{name}: {e}"));
                continue;
            }
        };
        // The longer cases belong to the kernels: this executor is slow.
        for case in 0..2 {
            let ids = golden.i32(&format!("input_ids.{case}"));
            model.for_context(ids.len());
            let program = build(&model, &file, options(ids.len(), false)).unwrap();
            let all = reference_logits(&program, &file, &ids);
            let vocab = model.config.vocab;
            let positions = golden.i32(&format!("positions.{case}"));
            let picked: Vec<f32> =
                positions.iter().flat_map(|p| &all[*p as usize * vocab..(*p as usize + 1) * vocab]).copied().collect();
            let error = relative_error(&picked, &golden.f32(&format!("logits.{case}")));
            println!("{name} {case}: {error:.2e}");
            if error > 1e-4 {
                failures.push(format!("{name} {case}: relative error {error:.2e}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// All texts of a golden in one step, none seeing another: the result of every row, or of every text's first row.
fn reference_texts(model: &Model, file: &ModelFile, texts: &[Vec<i32>], output: Output) -> Vec<f32> {
    let rows: Vec<RowVars> = texts
        .iter()
        .enumerate()
        .flat_map(|(sequence, ids)| {
            ids.iter().enumerate().map(move |(position, id)| RowVars {
                token: *id as u32,
                position: position as u32,
                sequence: sequence as u32,
                length: ids.len() as u32,
                ..RowVars::default()
            })
        })
        .collect();
    let outputs: Vec<u32> =
        (0..rows.len()).filter(|r| output == Output::Hidden || rows[*r].position == 0).map(|r| r as u32).collect();
    let options = BuildOptions { max_outputs: outputs.len(), output, ..options(rows.len(), false) };
    let program = build(model, file, options).unwrap();
    assert!(program.kv_groups.is_empty(), "a text that is read whole keeps nothing");
    let layout = StepLayout {
        max_rows: rows.len(),
        max_outputs: outputs.len(),
        groups: 0,
        sequences: texts.len(),
        table_blocks: 0,
        max_chain: 0,
    };
    let mut reference = Reference::new(&program, file, layout);
    let mut steps = reference.steps();
    steps.header_mut().rows = rows.len() as u32;
    steps.header_mut().outputs = outputs.len() as u32;
    steps.rows_mut().copy_from_slice(&rows);
    steps.outputs_mut().copy_from_slice(&outputs);
    reference.run();
    reference.buffer(program.logits).to_vec()
}

fn encoder(golden: &Golden) -> bool {
    golden.has("hidden.0")
}

#[test]
fn reference_executor_reproduces_hf_hidden_states_of_every_encoder() {
    let mut seen = 0;
    for dir in fixtures::models("hf") {
        let golden = golden::load(&dir.join("golden.safetensors"));
        if !encoder(&golden) {
            continue;
        }
        seen += 1;
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = ModelFile::open(&dir).unwrap_or_else(|e| panic!("{e}"));
        let mut model = Model::read(&file).unwrap_or_else(|e| panic!("{e}"));
        if fixtures::was_cast(&dir) {
            model.round_constants(&file);
        }
        let texts: Vec<Vec<i32>> = (0..3).map(|case| golden.i32(&format!("input_ids.{case}"))).collect();
        let hidden = reference_texts(&model, &file, &texts, Output::Hidden);
        let means = reference_texts(&model, &file, &texts, Output::Mean);
        let width = model.config.embedding_width();
        let dim = model.config.dim;
        let mut from = 0;
        for (case, text) in texts.iter().enumerate() {
            let error = relative_error(&hidden[from..from + text.len() * dim], &golden.f32(&format!("hidden.{case}")));
            from += text.len() * dim;
            println!("{name} {case}: {error:.2e}");
            // Both compute in f32 or better from the same weights.
            assert!(error < 1e-5, "{name} {case}: relative error {error:.2e}");
            let key = if model.config.dense == [0; 2] { "mean_normed" } else { "embedding" };
            if golden.has(&format!("{key}.{case}")) && golden.has("mean_normed.0") {
                let cosine = cosine(&means[case * width..(case + 1) * width], &golden.f32(&format!("{key}.{case}")));
                println!("{name} {case}: cosine {cosine:.9}");
                assert!(cosine > 1.0 - 1e-9, "{name} {case}: cosine {cosine}");
            }
        }
    }
    assert!(seen >= 2, "encoders among the fixtures");
}

/// One step of a program of speech: over frames where there is input, else over tokens of a sequence with encoded audio.
fn speech_step<'a>(
    program: &'a Program,
    file: &'a ModelFile,
    positions: usize,
    (input, ids): (&[f32], &[i32]),
    before: Option<&Reference<'_>>,
) -> Reference<'a> {
    let rows = if input.is_empty() { ids.len() } else { positions };
    let layout = StepLayout {
        max_rows: rows,
        max_outputs: rows,
        groups: program.kv_groups.len(),
        sequences: 1,
        table_blocks: positions.div_ceil(akunu_plan::KV_BLOCK),
        max_chain: 1,
    };
    let mut reference = Reference::new(program, file, layout);
    before.into_iter().for_each(|before| reference.take_cache(before));
    reference.input_mut().copy_from_slice(input);
    let mut steps = reference.steps();
    steps.header_mut().rows = rows as u32;
    steps.header_mut().outputs = ids.len() as u32;
    for (i, row) in steps.rows_mut().iter_mut().enumerate() {
        let token = ids.get(i).map_or(0, |id| *id as u32);
        *row = RowVars { token, position: i as u32, length: positions as u32, ..RowVars::default() };
    }
    steps.outputs_mut().iter_mut().enumerate().for_each(|(i, o)| *o = i as u32);
    for group in 0..program.kv_groups.len() {
        steps.table_mut(group, 0).iter_mut().enumerate().for_each(|(i, b)| *b = i as u32);
    }
    reference.run();
    reference
}

#[test]
fn reference_executor_reproduces_hf_speech() {
    let Some(dir) = fixtures::shared("hf/whisper") else { return };
    let golden = golden::load(&dir.join("golden.safetensors"));
    let file = ModelFile::open(&dir).unwrap_or_else(|e| panic!("{e}"));
    let model = Model::read(&file).unwrap_or_else(|e| panic!("{e}"));
    let ids = golden.i32("decoder_ids");
    let positions = golden.shape("encoder")[0];
    let [bands, frames] = *golden.shape("mel") else { panic!("mel is not a matrix") };
    let program = |output: Output, rows: usize| {
        build(&model, &file, BuildOptions { output, ..options(rows, false) }).unwrap_or_else(|e| panic!("{e}"))
    };
    let (encoder, decoder) = (program(Output::Encoded, positions), program(Output::Logits, ids.len()));
    let timing = program(Output::Timing, ids.len());
    let mel = golden.f32("mel");
    let input: Vec<f32> = (0..frames * bands).map(|i| mel[i % bands * frames + i / bands]).collect();
    let encoded = speech_step(&encoder, &file, positions, (&input, &[]), None);
    let error = relative_error(encoded.buffer(encoder.logits), &golden.f32("encoder"));
    let decoded = speech_step(&decoder, &file, positions, (&[], &ids), Some(&encoded));
    let logits_error = relative_error(decoded.buffer(decoder.logits), &golden.f32("logits"));
    println!("encoder {error:.2e}, logits {logits_error:.2e}");
    assert!(error < 1e-5 && logits_error < 1e-5, "encoder {error:.2e}, logits {logits_error:.2e}");
    // No oracle gives these weights: they must be a distribution over the encoder's positions, for every row and head.
    let timed = speech_step(&timing, &file, positions, (&[], &ids), Some(&encoded));
    for weights in timed.buffer(timing.logits).chunks(positions) {
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5 && weights.iter().all(|w| *w >= 0.0));
    }
}
