//! The dispatch table: what records become, ready to be encoded for every step.

use crate::gpu::Function;
use crate::params::Words;
use akunu_plan::op::Per;
use akunu_plan::record::{Addr, Record};
use std::ops::RangeInclusive;

/// Where parameters are bound: input, weights, output, parameters, then the rest.
pub const PARAMS: u32 = 3;

/// How many threadgroups there are along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Fixed(u32),
    /// One for so many rows of the step.
    Rows(u32),
}

impl Extent {
    pub fn of(self, rows: u32) -> u32 {
        match self {
            Extent::Fixed(n) => n,
            Extent::Rows(each) => rows.div_ceil(each),
        }
    }
}

/// A buffer argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    pub index: u32,
    pub at: Addr,
    /// What the kernel may use from there on; `None`: all there is of the region.
    pub bytes: Option<usize>,
}

/// One dispatch. What changes from step to step is in the step variables, which kernels read themselves, and the number of
/// rows, which is put into the parameters and the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    pub function: Function,
    pub buffers: Vec<Binding>,
    pub params: Vec<u8>,
    /// The byte of the parameters where the number of rows is.
    pub rows_at: Option<usize>,
    /// What its rows are.
    pub per: Per,
    /// The numbers of rows that it is for.
    pub when: RangeInclusive<u32>,
    pub threadgroups: [Extent; 3],
    pub threads: [u32; 3],
    /// Bytes of `[[threadgroup(n)]]` arguments.
    pub threadgroup_memory: Vec<usize>,
    /// Whether all before it must be finished.
    pub barrier: bool,
}

impl Dispatch {
    pub fn new(record: &Record, name: impl Into<String>) -> Self {
        Self {
            function: Function { name: name.into(), constants: Vec::new() },
            buffers: Vec::new(),
            params: Vec::new(),
            rows_at: None,
            per: record.per(),
            when: 1..=u32::MAX,
            threadgroups: [Extent::Fixed(1); 3],
            threads: [1; 3],
            threadgroup_memory: Vec::new(),
            barrier: false,
        }
    }

    pub fn constant(mut self, number: u32, value: u32) -> Self {
        self.function.constants.push((number, value));
        self
    }

    pub fn constants(mut self, constants: Vec<(u32, u32)>) -> Self {
        self.function.constants.extend(constants);
        self
    }

    /// The operand in a slot of the op: an activation buffer with all its rows, or what else starts there. Where there is none,
    /// nothing is bound, and the kernel is told by its parameters.
    pub fn operand(self, index: u32, record: &Record, slot: usize) -> Self {
        let stride = record.strides[slot] as usize;
        let bytes = (stride > 0).then(|| stride * record.rows as usize);
        self.at(index, record.args[slot], bytes)
    }

    /// An operand whose rows are not counted as the op's are.
    pub fn region(self, index: u32, at: Addr) -> Self {
        self.at(index, at, None)
    }

    pub fn at(mut self, index: u32, at: Addr, bytes: Option<usize>) -> Self {
        if !at.is_none() {
            self.buffers.push(Binding { index, at, bytes });
        }
        self
    }

    pub fn params(mut self, params: &impl Words) -> Self {
        self.params = params.bytes();
        self
    }

    /// The number of rows goes to a field of the parameters, by its offset.
    pub fn rows_at(mut self, offset: usize) -> Self {
        self.rows_at = Some(offset);
        self
    }

    pub fn when(mut self, rows: RangeInclusive<u32>) -> Self {
        self.when = rows;
        self
    }

    pub fn grid(mut self, x: Extent, y: Extent, z: Extent) -> Self {
        self.threadgroups = [x, y, z];
        self
    }

    pub fn threads(mut self, threads: [u32; 3]) -> Self {
        self.threads = threads;
        self
    }

    pub fn threadgroup_memory(mut self, bytes: &[usize]) -> Self {
        self.threadgroup_memory = bytes.to_vec();
        self
    }

    /// It reads what another dispatch of the same record writes.
    pub fn after_barrier(mut self) -> Self {
        self.barrier = true;
        self
    }
}
