//! Kernels that no op of programs is run by, dispatched as they are.

use akunu_metal_emulator::{Buffer, Geometry, dispatch};

/// Runs a kernel: buffers by number, and the output's values. Words of parameters are at number 3.
pub struct Direct {
    name: &'static str,
    geometry: Geometry,
    buffers: Vec<Vec<u8>>,
    written: Vec<usize>,
}

impl Direct {
    pub fn new(name: &'static str, threadgroups: [u32; 3], threads: [u32; 3]) -> Self {
        let geometry = Geometry { threadgroups, threads, ..Geometry::default() };
        Self { name, geometry, buffers: Vec::new(), written: Vec::new() }
    }

    pub fn bytes(mut self, index: usize, bytes: &[u8]) -> Self {
        self.buffers.resize(self.buffers.len().max(index + 1), Vec::new());
        self.buffers[index] = bytes.to_vec();
        self
    }

    pub fn values(self, index: usize, values: &[f32]) -> Self {
        self.bytes(index, bytemuck::cast_slice(values))
    }

    /// Parameters, filled up to whole 16 bytes.
    pub fn params(self, words: &[u32]) -> Self {
        let mut words = words.to_vec();
        words.resize(words.len().next_multiple_of(4), 0);
        self.bytes(3, bytemuck::cast_slice(&words))
    }

    /// NaN, to be written.
    pub fn output(mut self, index: usize, len: usize) -> Self {
        self.written.push(index);
        self.values(index, &vec![f32::NAN; len])
    }

    /// What was written, in the order in which it was asked for.
    pub fn run(mut self) -> Vec<Vec<u8>> {
        let written = &self.written;
        let buffer = |(index, bytes)| match written.contains(&index) {
            true => Buffer::Device(bytes),
            false => Buffer::Constant(bytes),
        };
        let mut buffers: Vec<Buffer<'_>> =
            self.buffers.iter_mut().map(Vec::as_mut_slice).enumerate().map(buffer).collect();
        dispatch(self.name, &self.geometry, &mut buffers).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        self.written.iter().map(|index| self.buffers[*index].clone()).collect()
    }

    /// The same as floats.
    pub fn floats(self) -> Vec<Vec<f32>> {
        self.run().iter().map(|bytes| floats(bytes)).collect()
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}
