//! Apple's Metal as a [`Gpu`]. The one folder of this crate with `unsafe`, and the one that only Apple's systems run; elsewhere
//! `cargo xtask check-metal` type-checks it. Nobody has run it yet.
//!
//! Why [`Gpu`] is safe to call. Memory is handed out as slices only after every command has ended, and a slice keeps its
//! [`AppleGpu`] borrowed, so that nothing can be committed while it is there. A kernel stays inside what is bound to it, as the
//! plan proves for every record and the emulator watches in tests. One that does not can still reach only what is mapped for the
//! GPU: our buffers, in which any bytes are valid, and model files, whose pages cannot be written.

#![allow(unsafe_code)]

mod commands;
mod device;
mod memory;
mod pipelines;

use crate::chip::Chip;
use crate::gpu::{BufferId, Function, Gpu, GpuError, PipelineId};
use akunu_plan::WeightFile;
use commands::Commands;
use device::Device;
use memory::Memory;
use objc2::rc::autoreleasepool;
use pipelines::Pipelines;
use std::sync::Arc;
use std::time::Duration;

/// A GPU of Apple's.
pub struct AppleGpu {
    // In the order in which they are dropped: commands wait for those that run, and use what comes after them.
    commands: Commands,
    memory: Memory,
    pipelines: Pipelines,
    device: Device,
    chip: Chip,
}

// SAFETY: objects of Metal may be used by one thread after the other, and all that are here are reached through this value alone:
// none is shared with another one or handed out. It is not `Sync`, so no two threads use it at once.
unsafe impl Send for AppleGpu {}

impl AppleGpu {
    /// The GPU of this machine.
    pub fn open() -> Result<Self, GpuError> {
        autoreleasepool(|_| {
            let device = Device::open()?;
            let chip = Chip::of(&device.name(), device::cores(), Some(device.family));
            let commands = Commands::new(&device)?;
            let memory = Memory::new(&device, &commands);
            let pipelines = Pipelines::new(&device);
            Ok(Self { commands, memory, pipelines, device, chip })
        })
    }
}

impl Gpu for AppleGpu {
    fn name(&self) -> String {
        self.device.name()
    }

    fn chip(&self) -> &Chip {
        &self.chip
    }

    fn free_memory(&self) -> Option<u64> {
        Some(self.device.free_memory())
    }

    fn allocate(&mut self, bytes: usize) -> Result<BufferId, GpuError> {
        autoreleasepool(|_| self.memory.allocate(&self.device, bytes))
    }

    fn map(&mut self, file: Arc<dyn WeightFile>) -> Result<BufferId, GpuError> {
        autoreleasepool(|_| self.memory.map(&self.device, file))
    }

    fn bytes(&self, buffer: BufferId) -> &[u8] {
        self.commands.finish();
        // SAFETY: no command runs, and while the slice is there `self` is borrowed: none can be committed.
        unsafe { self.memory.bytes(buffer) }
    }

    fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.commands.finish();
        // SAFETY: as above, and `self` is borrowed by nobody else.
        unsafe { self.memory.bytes_mut(buffer) }
    }

    fn pipeline(&mut self, function: &Function, threads: u32) -> Result<PipelineId, GpuError> {
        autoreleasepool(|_| self.pipelines.get(&self.device, function, threads as usize))
    }

    fn begin(&mut self) -> Result<(), GpuError> {
        autoreleasepool(|_| {
            // What was compiled for a model is all there when its first step begins.
            self.pipelines.keep();
            self.memory.make_resident();
            self.commands.begin()
        })
    }

    fn set_pipeline(&mut self, pipeline: PipelineId) {
        self.commands.set_pipeline(self.pipelines.state(pipeline));
    }

    fn set_buffer(&mut self, index: u32, buffer: BufferId, offset: usize, bytes: usize) {
        match self.memory.part(buffer, offset, bytes) {
            Ok(buffer) => self.commands.set_buffer(index, buffer, offset),
            Err(error) => self.commands.fail(error),
        }
    }

    fn set_bytes(&mut self, index: u32, bytes: &[u8]) {
        self.commands.set_bytes(index, bytes);
    }

    fn set_threadgroup_memory(&mut self, index: u32, bytes: usize) {
        self.commands.set_threadgroup_memory(index, bytes);
    }

    fn barrier(&mut self) {
        self.commands.barrier();
    }

    fn dispatch(&mut self, threadgroups: [u32; 3], threads: [u32; 3]) {
        self.commands.dispatch(threadgroups, threads);
    }

    fn commit(&mut self) {
        autoreleasepool(|_| self.commands.commit());
    }

    fn wait(&mut self) -> Result<(), GpuError> {
        autoreleasepool(|_| self.commands.wait())
    }

    fn busy(&self) -> Option<Duration> {
        Some(self.commands.busy())
    }
}
