//! The builder and the reference executor against HF's logits: no backend involved.

use akunu_arch::Model;
use akunu_dtype::DType;
use akunu_formats::ModelFile;
use akunu_plan::reference::Reference;
use akunu_plan::{BuildOptions, Program, RowVars, StepLayout, build};
use akunu_testkit::{fixtures, golden, relative_error};

fn options(rows: usize, int8: bool) -> BuildOptions {
    BuildOptions { max_rows: rows, max_outputs: rows, int8_activations: int8, kv: DType::F32 }
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
        *row = RowVars { token: *id as u32, position: i as u32, sequence: 0, reserved: 0 };
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
    for dir in fixtures::all("hf") {
        let golden = golden::load(&dir.join("golden.safetensors"));
        // Encoders and speech models have other goldens.
        if !golden.has("greedy.0") {
            continue;
        }
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let read = |dir: &std::path::Path| -> Result<_, Box<dyn std::error::Error>> {
            let file = ModelFile::open(dir)?;
            let mut model = Model::read(&file)?;
            model.round_constants(&file);
            Ok((file, model))
        };
        let (file, model) = match read(&dir) {
            Ok(read) => read,
            Err(e) => {
                failures.push(format!("{name}: {e}"));
                continue;
            }
        };
        // The longer cases belong to the kernels: this executor is slow.
        for case in 0..2 {
            let ids = golden.i32(&format!("input_ids.{case}"));
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
