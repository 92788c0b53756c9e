//! The emulator as a GPU: what is encoded runs when it is committed.

use crate::{Geometry, MOST_BUFFERS, NO_BUFFER, RawBuffer, kernels, run};
use akunu_metal::{BufferId, Chip, Function, Gpu, GpuError, PipelineId};
use akunu_plan::WeightFile;
use std::sync::Arc;

/// Memory as aligned as a GPU's.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

enum Memory {
    Own(Vec<Line>, usize),
    File(Arc<dyn WeightFile>),
}

/// Threads that a threadgroup can have.
const MOST_THREADS: u32 = 1024;

/// A dispatch that waits to be run.
struct Pending {
    pipeline: usize,
    geometry: Geometry,
    buffers: Vec<Bound>,
    bytes: Vec<(usize, Vec<Line>, usize)>,
}

#[derive(Clone, Copy)]
struct Bound {
    index: usize,
    buffer: usize,
    offset: usize,
    bytes: usize,
}

/// A GPU for tests. Dispatches between two barriers run in the opposite of their order, so that a barrier that is missing shows.
pub struct EmulatedGpu {
    chip: Chip,
    bounds_only: bool,
    memory: Vec<Memory>,
    pipelines: Vec<Function>,
    encoding: bool,
    pending: Vec<Pending>,
    pipeline: usize,
    buffers: Vec<Bound>,
    bytes: Vec<(usize, Vec<Line>, usize)>,
    shared: Vec<usize>,
    failed: Option<GpuError>,
}

impl EmulatedGpu {
    /// As on a chip, with every access compared with those of other threads.
    pub fn new(chip: Chip) -> Self {
        Self {
            chip,
            bounds_only: false,
            memory: Vec::new(),
            pipelines: Vec::new(),
            encoding: false,
            pending: Vec::new(),
            pipeline: usize::MAX,
            buffers: Vec::new(),
            bytes: Vec::new(),
            shared: Vec::new(),
            failed: None,
        }
    }

    /// With bounds alone, for whole models.
    pub fn fast(chip: Chip) -> Self {
        Self { bounds_only: true, ..Self::new(chip) }
    }

    fn run_pending(&mut self) {
        for mut pending in std::mem::take(&mut self.pending).into_iter().rev() {
            if self.failed.is_some() {
                return;
            }
            let mut raw = [NO_BUFFER; MOST_BUFFERS];
            for Bound { index, buffer, offset, bytes } in &pending.buffers {
                raw[*index] = match &mut self.memory[*buffer] {
                    Memory::Own(lines, length) => {
                        let start = lines.as_mut_ptr().cast::<u8>().wrapping_add(*offset);
                        RawBuffer { bytes: start, length: (*bytes).min(*length - *offset), writable: true }
                    }
                    Memory::File(file) => {
                        let rest = &file.bytes()[*offset..][..*bytes];
                        RawBuffer { bytes: rest.as_ptr().cast_mut(), length: rest.len(), writable: false }
                    }
                };
            }
            for (index, lines, length) in &mut pending.bytes {
                raw[*index] = RawBuffer { bytes: lines.as_mut_ptr().cast(), length: *length, writable: false };
            }
            let name = &self.pipelines[pending.pipeline].name;
            // SAFETY: offsets and lengths lie inside of memory that is ours, or a file's, which is only read; nothing else runs.
            let result = unsafe { run(name, &pending.geometry, raw) };
            self.failed = result.err().map(GpuError);
        }
    }

    fn length(&self, buffer: BufferId) -> usize {
        match &self.memory[buffer.0] {
            Memory::Own(_, length) => *length,
            Memory::File(file) => file.bytes().len(),
        }
    }

    fn fail(&mut self, what: String) {
        self.failed.get_or_insert(GpuError(what));
    }
}

fn lines(bytes: &[u8]) -> Vec<Line> {
    bytes
        .chunks(64)
        .map(|chunk| {
            let mut line = Line([0; 64]);
            line.0[..chunk.len()].copy_from_slice(chunk);
            line
        })
        .collect()
}

impl Gpu for EmulatedGpu {
    fn name(&self) -> String {
        format!("emulated {}", self.chip.name)
    }

    fn chip(&self) -> &Chip {
        &self.chip
    }

    fn free_memory(&self) -> Option<u64> {
        None
    }

    fn allocate(&mut self, bytes: usize) -> Result<BufferId, GpuError> {
        self.memory.push(Memory::Own(vec![Line([0; 64]); bytes.div_ceil(64)], bytes));
        Ok(BufferId(self.memory.len() - 1))
    }

    fn map(&mut self, file: Arc<dyn WeightFile>) -> Result<BufferId, GpuError> {
        self.memory.push(Memory::File(file));
        Ok(BufferId(self.memory.len() - 1))
    }

    fn bytes(&self, buffer: BufferId) -> &[u8] {
        match &self.memory[buffer.0] {
            // SAFETY: the lines hold at least so many bytes.
            Memory::Own(lines, length) => unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), *length) },
            Memory::File(file) => file.bytes(),
        }
    }

    fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        match &mut self.memory[buffer.0] {
            // SAFETY: the lines hold at least so many bytes.
            Memory::Own(lines, length) => unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), *length) },
            Memory::File(_) => panic!("a file is not written"),
        }
    }

    fn pipeline(&mut self, function: &Function, threads: u32) -> Result<PipelineId, GpuError> {
        if threads == 0 || threads > MOST_THREADS {
            return Err(GpuError(format!("{}: {threads} threads in a threadgroup", function.name)));
        }
        if kernels().binary_search(&function.name.as_str()).is_err() {
            return Err(GpuError(format!("the shaders have no kernel {}", function.name)));
        }
        let known = self.pipelines.iter().position(|f| f == function);
        let index = known.unwrap_or_else(|| {
            self.pipelines.push(function.clone());
            self.pipelines.len() - 1
        });
        Ok(PipelineId(index))
    }

    fn begin(&mut self) -> Result<(), GpuError> {
        assert!(!self.encoding, "a command buffer is encoded already");
        self.encoding = true;
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn set_pipeline(&mut self, pipeline: PipelineId) {
        self.pipeline = pipeline.0;
    }

    fn set_buffer(&mut self, index: u32, buffer: BufferId, offset: usize, bytes: usize) {
        if offset.checked_add(bytes).is_none_or(|end| end > self.length(buffer)) {
            return self.fail(format!("buffer {index} ends at {} of {}", offset + bytes, self.length(buffer)));
        }
        let index = index as usize;
        self.buffers.retain(|bound| bound.index != index);
        self.bytes.retain(|(bound, ..)| *bound != index);
        self.buffers.push(Bound { index, buffer: buffer.0, offset, bytes });
    }

    fn set_bytes(&mut self, index: u32, bytes: &[u8]) {
        if bytes.len() > 4096 {
            return self.fail(format!("{} bytes of parameters, and there can be 4096", bytes.len()));
        }
        let index = index as usize;
        self.buffers.retain(|bound| bound.index != index);
        self.bytes.retain(|(bound, ..)| *bound != index);
        self.bytes.push((index, lines(bytes), bytes.len()));
    }

    fn set_threadgroup_memory(&mut self, index: u32, bytes: usize) {
        if !bytes.is_multiple_of(16) {
            return self.fail(format!("{bytes} bytes of threadgroup memory are no multiple of 16"));
        }
        let index = index as usize;
        self.shared.resize(self.shared.len().max(index + 1), 0);
        self.shared[index] = bytes;
    }

    fn barrier(&mut self) {
        self.run_pending();
    }

    fn dispatch(&mut self, threadgroups: [u32; 3], threads: [u32; 3]) {
        assert!(self.encoding, "a command buffer is encoded");
        if threadgroups.contains(&0) {
            return self.fail(format!("{}: a grid without threadgroups", self.pipelines[self.pipeline].name));
        }
        let constants = self.pipelines[self.pipeline].constants.iter().map(|(n, value)| (*n, u64::from(*value)));
        let geometry = Geometry {
            threadgroups,
            threads,
            constants: constants.collect(),
            shared: self.shared.clone(),
            bounds_only: self.bounds_only,
        };
        // Nothing that was set for a dispatch is there for the next: the table says all of it.
        let buffers = std::mem::take(&mut self.buffers);
        let bytes = std::mem::take(&mut self.bytes);
        self.shared.clear();
        self.pending.push(Pending { pipeline: self.pipeline, geometry, buffers, bytes });
    }

    fn commit(&mut self) {
        self.run_pending();
        self.encoding = false;
    }

    fn wait(&mut self) -> Result<(), GpuError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}
