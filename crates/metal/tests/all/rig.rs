//! Programs of a few ops, on the emulator and on the reference executor.

use akunu_metal::chip::{CHIPS, Chip};
use akunu_metal::{Gpu, LoadedModel, Metal};
use akunu_metal_emulator::EmulatedGpu;
use akunu_plan::KvPool;
use akunu_plan::backend::*;
use akunu_plan::program::*;
use akunu_plan::record::Addr;
use akunu_plan::reference::{Bytes, Reference};
use akunu_plan::steps::RowVars;
pub use akunu_testkit::rig::*;
use std::sync::Arc;

/// The chip of most tests: it has all that chips have.
pub fn chip() -> Chip {
    CHIPS.iter().find(|chip| chip.name == "M4 Pro").unwrap().clone()
}

/// The GPU that tests run on: the emulator, or with `AKUNU_METAL=device` this machine's own, whatever chip was asked for.
pub fn gpu(chip: &Chip) -> Box<dyn Gpu> {
    if std::env::var_os("AKUNU_METAL").is_some_and(|which| which == "device") {
        return akunu_metal::open().unwrap_or_else(|error| panic!("AKUNU_METAL=device: {error}"));
    }
    Box::new(EmulatedGpu::new(chip.clone()))
}

/// The bytes of a rig's weights.
pub struct Weights(Vec<u8>);

impl Bytes for Weights {
    fn bytes(&self, addr: Addr, len: usize) -> &[u8] {
        &self.0[addr.offset()..][..len]
    }
}

/// A rig that is ready: weights at addresses that a GPU can read.
pub struct Case {
    pub program: Program,
    weights: Weights,
    rig: Rig,
}

impl Case {
    pub fn new(rig: Rig) -> Self {
        let program = rig.program.clone();
        Self { program, weights: Weights(rig.file.clone()), rig }
    }

    /// Loaded on a chip, in memory full of NaN.
    pub fn start(&self, chip: &Chip) -> Running<'_> {
        let metal = Metal::new(gpu(chip));
        let bound = metal.bind(&self.program).unwrap_or_else(|error| panic!("{error}"));
        let blocks = self.rig.layout.sequences * self.rig.layout.table_blocks;
        let pool = |g: &KvGroup| KvPool { block_bytes: g.block_bytes, blocks };
        let plan = LoadPlan {
            programs: vec![BoundProgram { program: Arc::new(self.program.clone()), bound }],
            steps: self.rig.layout,
            kv: self.program.kv_groups.iter().map(pool).collect(),
            files: vec![Arc::new(self.weights.0.clone())],
        };
        let mut loaded = metal.load_model(plan).unwrap_or_else(|error| panic!("{error}"));
        loaded.arena_mut().fill(0xFF);
        let reference = Reference::new(&self.program, &self.weights, self.rig.layout);
        let mut running = Running { program: &self.program, loaded, reference };
        running.rows(&vec![RowVars::default(); self.program.max_rows]);
        let outputs: Vec<u32> = (0..self.program.max_outputs as u32).collect();
        running.outputs(&outputs);
        running
    }
}

/// A program on both executors.
pub struct Running<'c> {
    program: &'c Program,
    pub loaded: LoadedModel,
    pub reference: Reference<'c>,
}

impl Running<'_> {
    pub fn rows(&mut self, rows: &[RowVars]) {
        for mut vars in [self.loaded.steps(), self.reference.steps()] {
            vars.header_mut().rows = rows.len() as u32;
            vars.rows_mut().copy_from_slice(rows);
        }
    }

    pub fn outputs(&mut self, outputs: &[u32]) {
        for mut vars in [self.loaded.steps(), self.reference.steps()] {
            vars.header_mut().outputs = outputs.len() as u32;
            vars.outputs_mut().copy_from_slice(outputs);
        }
    }

    /// Fills rows of a buffer from `[rows][width]`.
    pub fn set(&mut self, id: BufferId, values: &[f32]) {
        let buffer = self.program.buffer(id);
        for (row, values) in values.chunks(buffer.width).enumerate() {
            let at = buffer.offset + row * buffer.stride();
            self.loaded.arena_mut()[at..at + 4 * values.len()].copy_from_slice(bytemuck::cast_slice(values));
        }
        self.reference.buffer_mut(id)[..values.len()].copy_from_slice(values);
    }

    /// Fills the KV cache of a group.
    pub fn set_kv(&mut self, group: usize, bytes: &[u8]) {
        self.loaded.kv_write(group, 0, bytes);
        self.reference.kv_mut(group)[..bytes.len()].copy_from_slice(bytes);
    }

    /// One step on both.
    pub fn run(&mut self) {
        self.loaded.submit(0, 1, Want::All).unwrap_or_else(|error| panic!("{error}"));
        self.reference.run();
    }

    /// Rows of a buffer, `[rows][width]`, of the emulator.
    pub fn got(&mut self, id: BufferId, rows: usize) -> Vec<f32> {
        let buffer = self.program.buffer(id);
        let mut values = Vec::new();
        for row in 0..rows {
            let at = buffer.offset + row * buffer.stride();
            let bytes = &self.loaded.arena_mut()[at..at + 4 * buffer.width];
            values.extend_from_slice(bytemuck::cast_slice::<u8, f32>(bytes));
        }
        values
    }

    /// The same of the reference executor.
    pub fn want(&self, id: BufferId, rows: usize) -> Vec<f32> {
        self.reference.buffer(id)[..rows * self.program.buffer(id).width].to_vec()
    }
}

/// Failures of a table of cases, told all at once.
#[derive(Default)]
pub struct Failures {
    failed: Vec<String>,
    checked: usize,
}

impl Failures {
    /// `got` is within `tolerance` of `want`: of the largest value in it, NaN is not.
    pub fn compare(&mut self, case: &str, got: &[f32], want: &[f32], tolerance: f32) {
        self.checked += 1;
        let size = want.iter().filter(|v| v.is_finite()).fold(0.0f32, |m, v| m.max(v.abs()));
        let near = |i: usize| got[i] == want[i] || (got[i] - want[i]).abs() <= tolerance * size;
        if let Some(i) = (0..want.len()).find(|&i| i >= got.len() || !near(i)) {
            let got = got.get(i);
            self.failed.push(format!("{case}: [{i}] is {got:?}, want {} ± {}", want[i], tolerance * size));
        }
    }

    pub fn check(&mut self, case: &str, holds: bool, what: &str) {
        self.checked += 1;
        if !holds {
            self.failed.push(format!("{case}: {what}"));
        }
    }

    pub fn report(self) {
        let shown = self.failed.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.failed.is_empty(), "{} of {} cases fail:\n{shown}", self.failed.len(), self.checked);
        assert!(self.checked > 0, "nothing was checked");
    }
}
