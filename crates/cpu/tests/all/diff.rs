//! The CPU backend against the reference executor, op by op, for every family and level.

use akunu_arch::Model;
use akunu_cpu::{Cpu, Level, Memory, MemoryPlan, Options, Ready};
use akunu_dtype::{DType, q8, tiles};
use akunu_formats::ModelFile;
use akunu_plan::diff::{Stepper, diff};
use akunu_plan::op::OpKind;
use akunu_plan::program::{ActivationLayout, BufferId, Program};
use akunu_plan::reference::Reference;
use akunu_plan::{Addr, Backend, BuildOptions, KvPool, Output, Region, RowVars};
use akunu_plan::{StepLayout, StepVars, WeightFile, build};
use akunu_testkit::fixtures;
use std::sync::Arc;

const ROWS: usize = 11;
const OUTPUTS: usize = 3;

struct CpuStepper<'a> {
    cpu: Cpu,
    memory: Memory,
    ready: Ready,
    program: &'a Program,
}

impl Stepper for CpuStepper<'_> {
    fn run_op(&mut self, index: usize) {
        self.cpu.replay_one(&self.ready, &mut self.memory, index).unwrap();
    }

    fn read(&self, id: BufferId) -> Vec<f32> {
        let buffer = self.program.buffer(id);
        let floats = |at: usize, len| self.memory.floats(Addr::new(Region::ARENA, at), len).unwrap();
        let row = |r: usize| {
            let at = buffer.offset + r * buffer.stride();
            match buffer.layout {
                ActivationLayout::F32 => floats(at, buffer.width).to_vec(),
                ActivationLayout::Q8 => {
                    let q = &self.memory.bytes(Region::ARENA)[at..at + buffer.width];
                    let scales = floats(at + q8::scales_offset(buffer.width), buffer.width / q8::BLOCK);
                    q.iter().enumerate().map(|(i, q)| f32::from(*q as i8) * scales[i / q8::BLOCK]).collect()
                }
                ActivationLayout::Bf16 => {
                    let at = |i| buffer.offset + tiles::offset(r, i / 32 * 32, buffer.width) + i % 32 * 2;
                    let bytes = self.memory.bytes(Region::ARENA);
                    let number = |i| f32::from_bits(u32::from_le_bytes([0, 0, bytes[at(i)], bytes[at(i) + 1]]));
                    (0..buffer.width).map(number).collect()
                }
            }
        };
        (0..self.program.capacity(buffer.per)).flat_map(row).collect()
    }
}

struct FileView(Arc<ModelFile>, usize);

impl WeightFile for FileView {
    fn bytes(&self) -> &[u8] {
        self.0.bytes(self.1)
    }
}

/// Two sequences with their blocks out of order.
fn fill(mut steps: StepVars<'_>, groups: usize) {
    steps.header_mut().rows = ROWS as u32;
    steps.header_mut().outputs = OUTPUTS as u32;
    for (i, row) in steps.rows_mut().iter_mut().enumerate() {
        let sequence = u32::from(i >= 6);
        let (token, position) = ((i * 37 % 500) as u32, i as u32 - 6 * sequence);
        let length = if i >= 6 { ROWS as u32 - 6 } else { 6 };
        *row = RowVars { token, position, sequence, length, segment: sequence, ..RowVars::default() };
    }
    steps.outputs_mut().copy_from_slice(&[0, 5, 10]);
    for group in 0..groups {
        steps.table_mut(group, 0).copy_from_slice(&[3, 1]);
        steps.table_mut(group, 1).copy_from_slice(&[2, 0]);
    }
}

#[test]
fn every_op_of_every_family_agrees_with_the_reference_executor() {
    let mut models: Vec<_> =
        fixtures::models("hf").into_iter().filter(|p| p.starts_with(fixtures::path("hf"))).collect();
    models.extend(fixtures::models("gguf"));
    models.extend(fixtures::models("mlx"));
    let mut failures = Vec::new();
    for path in models {
        let file = Arc::new(ModelFile::open(&path).unwrap());
        let model = Model::read(&file).unwrap();
        // Rows of speech need encoded audio first.
        if model.encoder.is_some() {
            continue;
        }
        let outputs: &[Output] = match model.descriptor.causal {
            false => &[Output::Mean],
            // One decoder embeds too: those that do are as others.
            true if path.ends_with("qwen3") => &[Output::Logits, Output::Mean],
            true => &[Output::Logits],
        };
        let forms = [ActivationLayout::F32, ActivationLayout::Q8, ActivationLayout::Bf16];
        for (&output, activations) in outputs.iter().flat_map(|o| forms.map(|form| (o, form))) {
            let options = BuildOptions {
                max_rows: ROWS,
                max_outputs: OUTPUTS,
                activations,
                may_round: activations == ActivationLayout::Bf16,
                kv: DType::F32,
                output,
            };
            let mut program = build(&model, &file, options).unwrap();
            if activations == ActivationLayout::Bf16 {
                // Logits that are close may change places.
                program.ops.retain(|op| !matches!(op.kind, OpKind::Sample | OpKind::Advance));
            }
            let layout = StepLayout {
                max_rows: ROWS,
                max_outputs: OUTPUTS,
                groups: program.kv_groups.len(),
                sequences: 2,
                table_blocks: 2,
                max_chain: 1,
            };
            let fits = |level: &Level| activations != ActivationLayout::Bf16 || level.has_tiles();
            for level in Level::available().filter(fits) {
                let mut reference = Reference::new(&program, &*file, layout);
                fill(reference.steps(), program.kv_groups.len());
                let cpu = Cpu::new(Options { threads: Some(2), level: Some(level), ..Options::default() }).unwrap();
                let bound = cpu.bind(&program).unwrap();
                let kv: Vec<_> =
                    program.kv_groups.iter().map(|g| KvPool { block_bytes: g.block_bytes, blocks: 4 }).collect();
                let files =
                    (0..file.files()).map(|i| Arc::new(FileView(file.clone(), i)) as Arc<dyn WeightFile>).collect();
                let mut memory = Memory::new(MemoryPlan {
                    programs: &[&bound],
                    steps: layout,
                    kv: &kv,
                    files,
                    copy: false,
                    arena: 0,
                    row_groups: 1,
                })
                .unwrap();
                fill(memory.step_vars(), program.kv_groups.len());
                let ready = cpu.ready(bound, ROWS, OUTPUTS, &memory).unwrap();
                let mut backend = CpuStepper { cpu, memory, ready, program: &program };
                // Int8 rounding can fall on the other side of a half; f32 differs by summation order only.
                let tolerance = if activations == ActivationLayout::F32 { 2e-5 } else { 3e-2 };
                if let Some(d) = diff(&program, &mut backend, &mut reference, (ROWS, OUTPUTS), tolerance) {
                    failures.push(format!("{}, {activations:?}, {level:?}: {d}", path.display()));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
