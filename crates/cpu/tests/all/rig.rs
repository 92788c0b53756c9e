//! A rig for kernels: builds small programs, runs them at every level and thread count in poisoned
//! memory, and collects every failure of a table of cases.
#![allow(dead_code)]

use akunu_cpu::{Cpu, Level, Memory, MemoryPlan, Options, Ready};
use akunu_dtype::{q8, tiles};
use akunu_plan::Backend;
use akunu_plan::program::*;
use akunu_plan::record::{Addr, Region};
use akunu_plan::steps::RowVars;
pub use akunu_testkit::rig::*;
use std::sync::Arc;

/// A program that can run, in memory full of NaN.
pub struct Running {
    pub program: Program,
    pub ready: Ready,
    pub memory: Memory,
}

/// A rig's program on the CPU.
pub trait Start {
    fn start(&self, cpu: &Cpu) -> Running;

    /// With activations for so many row groups of a step.
    fn start_in(&self, cpu: &Cpu, row_groups: usize) -> Running;
}

impl Start for Rig {
    fn start(&self, cpu: &Cpu) -> Running {
        self.start_in(cpu, 1)
    }

    fn start_in(&self, cpu: &Cpu, row_groups: usize) -> Running {
        let program = self.program.clone();
        let bound = cpu.bind(&program).expect("every op has a kernel");
        let mut memory = Memory::new(MemoryPlan {
            programs: &[&bound],
            steps: self.layout,
            kv: &self.kv,
            files: vec![Arc::new(self.file.clone())],
            copy: false,
            arena: row_groups * program.arena_bytes,
            row_groups,
        })
        .expect("small memory");
        memory.activation_bytes_mut(Addr::new(Region::ARENA, 0), row_groups * program.arena_bytes).fill(0xFF);
        for group in 0..self.kv.len() {
            memory.kv_mut(group).fill(0xFF);
        }
        let ready = cpu.ready(bound, program.max_rows, program.max_outputs, &memory).expect("a checked program");
        let mut running = Running { program, ready, memory };
        running.rows(&vec![RowVars::default(); self.program.max_rows]);
        let outputs: Vec<u32> = (0..self.program.max_outputs as u32).collect();
        running.outputs(&outputs);
        running
    }
}

impl Running {
    pub fn rows(&mut self, rows: &[RowVars]) {
        let mut vars = self.memory.step_vars();
        vars.header_mut().rows = rows.len() as u32;
        vars.rows_mut().copy_from_slice(rows);
    }

    pub fn outputs(&mut self, outputs: &[u32]) {
        let mut vars = self.memory.step_vars();
        vars.header_mut().outputs = outputs.len() as u32;
        vars.outputs_mut().copy_from_slice(outputs);
    }

    fn at(&self, id: BufferId, row: usize) -> Addr {
        let buffer = self.program.buffer(id);
        Addr::new(Region::ARENA, buffer.offset + row * buffer.stride())
    }

    /// Fills rows of an f32 buffer from `[rows][width]`.
    pub fn set(&mut self, id: BufferId, values: &[f32]) {
        let width = self.program.buffer(id).width;
        for (row, values) in values.chunks(width).enumerate() {
            let at = self.at(id, row);
            self.memory.activation_bytes_mut(at, width * 4).copy_from_slice(bytemuck::cast_slice(values));
        }
    }

    /// Fills rows of a buffer in its form; returns the values it then holds.
    pub fn fill(&mut self, id: BufferId, values: &[f32]) -> Vec<f32> {
        match self.program.buffer(id).layout {
            ActivationLayout::F32 => {
                self.set(id, values);
                values.to_vec()
            }
            ActivationLayout::Q8 => self.set_int8(id, values),
            ActivationLayout::Bf16 => self.set_bf16(id, values),
        }
    }

    fn set_bf16(&mut self, id: BufferId, values: &[f32]) -> Vec<f32> {
        let (offset, width) = (self.program.buffer(id).offset, self.program.buffer(id).width);
        for (row, values) in values.chunks(width).enumerate() {
            for (i, values) in values.chunks(tiles::VALUES).enumerate() {
                let mut line = [0u8; 2 * tiles::VALUES];
                for (to, v) in line.chunks_exact_mut(2).zip(values) {
                    to.copy_from_slice(&((tiles::round(*v).to_bits() >> 16) as u16).to_le_bytes());
                }
                let at = Addr::new(Region::ARENA, offset + tiles::offset(row, i * tiles::VALUES, width));
                self.memory.activation_bytes_mut(at, line.len()).copy_from_slice(&line);
            }
        }
        values.iter().map(|v| tiles::round(*v)).collect()
    }

    fn set_int8(&mut self, id: BufferId, values: &[f32]) -> Vec<f32> {
        let width = self.program.buffer(id).width;
        let mut rounded = Vec::new();
        for (row, values) in values.chunks(width).enumerate() {
            let mut bytes = vec![0u8; q8::row_bytes(width)];
            for (block, values) in values.chunks(q8::BLOCK).enumerate() {
                let mut q = [0i8; q8::BLOCK];
                let scale = q8::quantize_block(values.try_into().expect("whole blocks"), &mut q);
                bytes[block * 32..][..32].copy_from_slice(bytemuck::cast_slice(&q));
                put(&mut bytes, q8::scales_offset(width) + 4 * block, scale);
                for (half, group) in q.chunks(q8::GROUP).enumerate() {
                    let sum: i32 = group.iter().map(|&q| i32::from(q)).sum();
                    put(&mut bytes, q8::sums_offset(width) + 4 * (2 * block + half), scale * sum as f32);
                }
                rounded.extend(q.iter().map(|&q| f32::from(q) * scale));
            }
            let at = self.at(id, row);
            self.memory.activation_bytes_mut(at, bytes.len()).copy_from_slice(&bytes);
        }
        rounded
    }

    /// Row `row` of a buffer as f32; int8 rows must be consistent in themselves, tiles end in zeros.
    pub fn row(&self, id: BufferId, row: usize) -> Vec<f32> {
        let buffer = self.program.buffer(id);
        let (at, width) = (self.at(id, row), buffer.width);
        if buffer.layout == ActivationLayout::F32 {
            return self.memory.floats(at, width).expect("a row").to_vec();
        }
        if buffer.layout == ActivationLayout::Bf16 {
            let arena = self.memory.bytes(Region::ARENA);
            let lines = (0..width).step_by(tiles::VALUES);
            let lines = lines.map(|i| &arena[buffer.offset + tiles::offset(row, i, width)..][..2 * tiles::VALUES]);
            let bytes: Vec<u8> = lines.flatten().copied().collect();
            let number = |b: &[u8]| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16);
            let mut values: Vec<f32> = bytes.chunks_exact(2).map(number).collect();
            assert!(values[width..].iter().all(|v| *v == 0.0), "zeros past the end");
            values.truncate(width);
            return values;
        }
        let bytes = &self.memory.bytes(Region::ARENA)[at.offset()..][..q8::row_bytes(width)];
        let float = |at: usize| f32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let mut values = Vec::new();
        for group in 0..width / q8::GROUP {
            let scale = float(q8::scales_offset(width) + 4 * (group / 2));
            let q = &bytes[group * 16..][..16];
            let sum: i32 = q.iter().map(|&q| i32::from(q as i8)).sum();
            assert_eq!(float(q8::sums_offset(width) + 4 * group), scale * sum as f32, "group sum {group}");
            values.extend(q.iter().map(|&q| f32::from(q as i8) * scale));
        }
        values
    }

    pub fn run(&mut self, cpu: &mut Cpu) {
        cpu.replay(&self.ready, &mut self.memory, 1).expect("checked step variables");
    }
}

fn put(bytes: &mut [u8], at: usize, v: f32) {
    bytes[at..at + 4].copy_from_slice(&v.to_le_bytes());
}

/// Whether a level of this machine multiplies tiles; says that a test of them is skipped where none does.
pub fn has_tiles() -> bool {
    let has = Level::available().any(Level::has_tiles);
    if !has {
        eprintln!("skipped: this machine has no matrix unit");
    }
    has
}

/// Every level of this machine with 1, 2, 3 and 5 threads; two of them pack weights, two do not.
pub fn backends() -> Vec<Cpu> {
    let mut all = Vec::new();
    for level in Level::available() {
        for (threads, in_place) in [(1, false), (2, true), (3, false), (5, true)] {
            let options = Options { threads: Some(threads), level: Some(level), in_place };
            all.push(Cpu::new(options).expect("an available level"));
        }
    }
    all
}

/// Of [`backends`], one of every level, with some thread count.
pub fn one_per_level<'a>(backends: &'a mut [Cpu], noise: &mut Noise) -> impl Iterator<Item = &'a mut Cpu> {
    backends.iter_mut().skip(noise.below(4)).step_by(4)
}

/// Failures of a table of cases, told all at once.
#[derive(Default)]
pub struct Failures {
    failed: Vec<String>,
    checked: usize,
}

impl Failures {
    /// `got` within `bound(i)` of `want`, value by value.
    pub fn compare(&mut self, case: &str, cpu: &Cpu, got: &[f32], want: &[f32], bound: impl Fn(usize) -> f32) {
        self.checked += 1;
        if got.len() != want.len() {
            self.failed.push(format!("{case}: {} values, want {}", got.len(), want.len()));
            return;
        }
        let near = |i: usize| (got[i] - want[i]).abs() <= bound(i);
        // What is not near is a failure, NaN included.
        let wrong = (0..got.len()).find(|&i| !near(i));
        if let Some(i) = wrong {
            let (level, threads) = (cpu.level(), cpu.threads());
            let (got, want, bound) = (got[i], want[i], bound(i));
            self.failed.push(format!("{case} at {level}, {threads} threads: [{i}] is {got}, want {want} ± {bound}"));
        }
    }

    pub fn check(&mut self, case: &str, cpu: &Cpu, holds: bool, what: &str) {
        self.checked += 1;
        if !holds {
            self.failed.push(format!("{case} at {}, {} threads: {what}", cpu.level(), cpu.threads()));
        }
    }

    pub fn report(self) {
        let shown = self.failed.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.failed.is_empty(), "{} cases fail:\n{shown}", self.failed.len());
        assert!(self.checked > 0, "nothing was checked");
    }
}

/// Half a step of a form around each value, and a little for values before rounding: in int8 blocks a part of the block's
/// peak, in bf16 a part of the value.
pub fn layout_bound(layout: ActivationLayout, want: &[f32]) -> impl Fn(usize) -> f32 {
    let peak = |block: &[f32]| block.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let bounds: Vec<f32> = match layout {
        ActivationLayout::F32 => vec![0.0; want.len()],
        ActivationLayout::Q8 => {
            want.iter().enumerate().map(|(i, _)| peak(&want[i / 32 * 32..i / 32 * 32 + 32]) * 0.00396).collect()
        }
        ActivationLayout::Bf16 => want.iter().map(|v| v.abs() * 1.02 / 256.0).collect(),
    };
    move |i| bounds[i]
}
