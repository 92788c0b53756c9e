//! Programs as data: fusion keeps their meaning, the verifier refuses broken ones, bytes come back.

use akunu_arch::Model;
use akunu_dtype::DType;
use akunu_formats::ModelFile;
use akunu_plan::op::{OpKind, Params, slots};
use akunu_plan::program::{ActivationLayout, Arg, BufferId, Program};
use akunu_plan::reference::Reference;
use akunu_plan::serial::SerialError;
use akunu_plan::verify::verify;
use akunu_plan::{Bound, BuildOptions, Output, RowVars, StepLayout, StepVars, build, null};
use akunu_testkit::{fixtures, relative_error};

const IDS: [u32; 7] = [3, 200, 17, 511, 90, 4, 60];

fn options(int8: bool) -> BuildOptions {
    BuildOptions {
        max_rows: IDS.len(),
        max_outputs: 2,
        activations: if int8 { ActivationLayout::Q8 } else { ActivationLayout::F32 },
        may_round: false,
        kv: DType::F16,
        output: Output::Logits,
    }
}

fn open(name: &str) -> (ModelFile, Model) {
    let file = ModelFile::open(&fixtures::path(name)).unwrap();
    let model = Model::read(&file).unwrap();
    (file, model)
}

fn layout(program: &Program) -> StepLayout {
    StepLayout {
        max_rows: IDS.len(),
        max_outputs: 2,
        groups: program.kv_groups.len(),
        sequences: 2,
        table_blocks: 2,
        max_chain: 4,
    }
}

/// Two sequences in one step, logits of the last row of each.
fn fill(steps: &mut StepVars<'_>, groups: usize) {
    steps.header_mut().rows = IDS.len() as u32;
    steps.header_mut().outputs = 2;
    for (i, (row, token)) in steps.rows_mut().iter_mut().zip(IDS).enumerate() {
        let sequence = u32::from(i >= 4);
        *row = RowVars { token, position: i as u32 - 4 * sequence, sequence, ..RowVars::default() };
    }
    steps.outputs_mut().copy_from_slice(&[3, 6]);
    for group in 0..groups {
        steps.table_mut(group, 0).copy_from_slice(&[2, 0]);
        steps.table_mut(group, 1).copy_from_slice(&[1, 3]);
    }
}

fn logits(program: &Program, file: &ModelFile) -> Vec<f32> {
    let mut reference = Reference::new(program, file, layout(program));
    fill(&mut reference.steps(), program.kv_groups.len());
    reference.run();
    reference.buffer(program.logits).to_vec()
}

#[test]
fn fusion_keeps_the_meaning() {
    for name in ["hf/gemma2", "hf/olmo2", "hf/granite", "hf/starcoder2", "hf/phi3"] {
        let (file, model) = open(name);
        let plain = akunu_plan::build::plain(&model, &file, options(false)).unwrap();
        let fused = build(&model, &file, options(false)).unwrap();
        assert!(fused.ops.len() < plain.ops.len(), "{name}");
        // The two sum in the same order; only the place of one rounding differs.
        let error = relative_error(&logits(&fused, &file), &logits(&plain, &file));
        assert!(error < 1e-6, "{name}: {error:.1e}");
    }
}

/// With many rows, products finish the heads they make; that changes nothing but what bf16 rounds.
#[test]
fn products_of_tiles_finish_their_heads() {
    let mut finished = 0;
    for name in ["hf/qwen2", "hf/qwen3", "hf/gemma3", "hf/llama-untied", "hf/olmo2", "gguf/stories-llama-Q4_0.gguf"] {
        let (file, model) = open(name);
        let plain = akunu_plan::build::plain(&model, &file, options(false)).unwrap();
        let tiles = build(
            &model,
            &file,
            BuildOptions { activations: ActivationLayout::Bf16, may_round: true, ..options(false) },
        )
        .unwrap();
        let count = |kind| tiles.ops.iter().filter(|op| op.kind == kind).count();
        let (products, alone) = (count(OpKind::MatMulHeads), count(OpKind::HeadNormRopeKvWrite));
        assert_eq!(products + 3 * alone, 3 * model.config.layers.len(), "{name}");
        finished += products;
        let error = relative_error(&logits(&tiles, &file), &logits(&plain, &file));
        assert!(error < 0.03, "{name}: {error:.1e}");
        // Keys and values go to different places of a cache: nothing waits for either but attention.
        let bound = null::bind(&tiles).unwrap();
        for three in bound.records.windows(3).filter(|w| w.iter().all(|r| r.kind() == Some(OpKind::MatMulHeads))) {
            let waits = three.iter().map(|r| r.flags & akunu_plan::record::BARRIER != 0).collect::<Vec<_>>();
            assert_eq!(waits, [true, false, false], "{name}");
        }
    }
    assert!(finished > 0, "none of the families has such heads");
}

#[test]
fn int8_activations_appear_only_before_quantized_weights_and_without_extra_ops() {
    let (file, model) = open("gguf/stories-llama-Q4_0.gguf");
    let program = build(&model, &file, options(true)).unwrap();
    let quantize = program.ops.iter().filter(|op| op.kind == OpKind::Convert).count();
    assert_eq!(quantize, 0, "every producer writes int8 itself");
    let layers = model.config.layers.len();
    // norm, q, k, v, heads, attention, out, norm, gate·up, down
    let per_layer = program.ops.iter().filter(|op| op.layer.is_some()).count();
    assert_eq!(per_layer, 10 * layers);
    let (file, model) = open("hf/qwen3");
    let program = build(&model, &file, options(true)).unwrap();
    assert!(program.buffers.iter().all(|b| b.layout == ActivationLayout::F32), "float weights take float activations");
}

#[test]
fn the_memory_plan_reuses_what_is_dead() {
    let (file, model) = open("hf/gemma3");
    let program = build(&model, &file, options(false)).unwrap();
    let all: usize = program.buffers.iter().map(|b| b.bytes(program.capacity(b.per))).sum();
    assert!(program.arena_bytes * 5 < all, "{} of {all}", program.arena_bytes);
}

#[test]
fn the_verifier_refuses_broken_programs() {
    let (file, model) = open("hf/qwen3");
    let good = build(&model, &file, options(false)).unwrap();
    let at = |kind| good.ops.iter().position(|op| op.kind == kind).unwrap();
    type Break = (&'static str, Box<dyn Fn(&mut Program)>);
    let (norm, matmul, heads) = (at(OpKind::Norm), at(OpKind::MatMul), at(OpKind::HeadNormRopeKvWrite));
    let table: Vec<Break> = vec![
        ("missing operand", Box::new(move |p| p.ops[norm].args[slots::norm::WEIGHT] = Arg::None)),
        ("operand of another kind", Box::new(move |p| p.ops[norm].args[slots::norm::X] = Arg::Kv(0))),
        ("operand beyond the slots", Box::new(move |p| p.ops[norm].args[7] = Arg::Kv(0))),
        ("buffer that is not there", Box::new(move |p| p.ops[norm].args[slots::norm::X] = Arg::Buffer(BufferId(9999)))),
        ("read before written", Box::new(move |p| p.ops.swap(norm, matmul))),
        (
            "wrong width",
            Box::new(move |p| {
                if let Params::Norm(n) = &mut p.ops[norm].params {
                    n.dim += 1
                }
            }),
        ),
        (
            "wrong weight shape",
            Box::new(move |p| {
                if let Params::MatMul(m) = &mut p.ops[matmul].params {
                    m.k += 32
                }
            }),
        ),
        ("parameters of another op", Box::new(move |p| p.ops[norm].params = p.ops[matmul].params)),
        (
            "heads that do not divide",
            Box::new(move |p| {
                if let Params::Heads(h) = &mut p.ops[heads].params {
                    h.kv_heads = 3
                }
            }),
        ),
        ("arena too small", Box::new(|p| p.arena_bytes = 64)),
        ("buffers on top of each other", Box::new(|p| p.buffers.iter_mut().for_each(|b| b.offset = 0))),
    ];
    for (what, break_it) in table {
        let mut program = good.clone();
        break_it(&mut program);
        assert!(verify(&program).is_err(), "accepted: {what}");
    }
    assert_eq!(verify(&good), Ok(()));
}

#[test]
fn a_bound_program_comes_back_from_its_bytes() {
    let (file, model) = open("hf/gemma2");
    let bound = null::bind(&build(&model, &file, options(true)).unwrap()).unwrap();
    let bytes = bound.to_bytes();
    assert_eq!(Bound::from_bytes(&bytes), Ok(bound));
    for cut in [0, 7, 47, 48, bytes.len() - 1] {
        assert!(Bound::from_bytes(&bytes[..cut]).is_err(), "{cut} bytes");
    }
    let mut huge = bytes.clone();
    huge[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(Bound::from_bytes(&huge), Err(SerialError::Length { .. })));
}

#[test]
fn records_wait_only_for_what_they_need() {
    let (file, model) = open("hf/qwen3");
    let bound = null::bind(&build(&model, &file, options(false)).unwrap()).unwrap();
    use akunu_plan::record::BARRIER;
    let products: Vec<_> = bound.records.iter().filter(|r| r.kind() == Some(OpKind::MatMul)).take(3).collect();
    let waits: Vec<_> = products.iter().map(|r| r.flags & BARRIER != 0).collect();
    assert_eq!(waits, [true, false, false], "q waits for the norm; k and v start with it");
    for (index, record) in bound.records.iter().enumerate() {
        assert!(record.after as usize <= index);
    }
}

#[test]
fn the_null_backend_counts_steps_and_moves_rows() {
    let (file, model) = open("hf/qwen3");
    let program = build(&model, &file, options(false)).unwrap();
    let bound = null::bind(&program).unwrap();
    let mut words = vec![0; layout(&program).bytes() / 4];
    let mut steps = StepVars::new(&mut words);
    *steps.header_mut() = layout(&program).header();
    fill(&mut steps, program.kv_groups.len());
    null::replay(&bound, &mut steps, 3);
    assert_eq!(steps.header().emitted_steps, 3);
    assert_eq!((steps.rows()[3].position, steps.rows()[6].position), (6, 5));
    assert_eq!(steps.into_emitted(), [0; 6]);
}
