//! What the host asks of a GPU: memory, pipelines, and commands.
//!
//! Apple's Metal is behind this trait where there is one, and the emulator in tests: the dispatch table that is tested is the
//! one that ships.

use crate::chip::Chip;
use akunu_plan::WeightFile;
use std::sync::Arc;
use std::time::Duration;

/// Memory that host and GPU share, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferId(pub usize);

/// A kernel that is ready to run, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineId(pub usize);

/// A kernel: a function of the shaders, and the values of its function constants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    pub name: String,
    /// By number; every one is 32 bits wide.
    pub constants: Vec<(u32, u32)>,
}

/// Why a GPU did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GpuError(pub String);

impl GpuError {
    /// A command buffer that has failed, by Metal's number, with what Metal told.
    pub fn of_command(code: isize, told: &str) -> Self {
        let why = match code {
            2 | 14 => "a command took longer than the system lets one; use shorter prefill chunks",
            3 => "a kernel used an address that is not mapped",
            4 | 7 => "the system does not let this process use the GPU now",
            8 => "there is not enough memory for the GPU; use a smaller model or context",
            9 => "a buffer is gone that a command uses",
            10 => "a resource without memory was used",
            11 => "the GPU was removed or has been reset",
            12 => "a kernel needs more stack than there is",
            _ if told.is_empty() => "a command buffer failed",
            _ => return GpuError(format!("a command buffer failed: {}", Self::one_line(told))),
        };
        GpuError(why.into())
    }

    /// The line of a longer message that says what is wrong: a compiler's first error, or the first line.
    pub fn one_line(told: &str) -> String {
        let lines = || told.lines().map(str::trim).filter(|line| !line.is_empty());
        lines().find(|line| line.contains("error:")).or_else(|| lines().next()).unwrap_or("it does not say why").into()
    }
}

/// A GPU with a queue of commands. Commands run in order; those between two barriers may run at once.
pub trait Gpu: Send {
    fn name(&self) -> String;

    fn chip(&self) -> &Chip;

    /// Bytes that a model could use; `None` where the system does not say.
    fn free_memory(&self) -> Option<u64>;

    /// Zeros.
    fn allocate(&mut self, bytes: usize) -> Result<BufferId, GpuError>;

    /// A model file as it lies in memory, not copied.
    fn map(&mut self, file: Arc<dyn WeightFile>) -> Result<BufferId, GpuError>;

    /// What a buffer holds. It waits until all commands have ended.
    fn bytes(&self, buffer: BufferId) -> &[u8];

    /// As [`Gpu::bytes`]; of memory that was allocated.
    fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8];

    /// A kernel that is dispatched with so many threads in a threadgroup at most: the compiler shares registers out by that.
    fn pipeline(&mut self, function: &Function, threads: u32) -> Result<PipelineId, GpuError>;

    /// Begins a command buffer.
    fn begin(&mut self) -> Result<(), GpuError>;

    fn set_pipeline(&mut self, pipeline: PipelineId);

    /// The `bytes` from `offset` on are what the kernel uses of it.
    fn set_buffer(&mut self, index: u32, buffer: BufferId, offset: usize, bytes: usize);

    fn set_bytes(&mut self, index: u32, bytes: &[u8]);

    /// Threadgroup memory of an argument, a multiple of 16 bytes.
    fn set_threadgroup_memory(&mut self, index: u32, bytes: usize);

    /// What was dispatched before it is finished before what comes after.
    fn barrier(&mut self);

    fn dispatch(&mut self, threadgroups: [u32; 3], threads: [u32; 3]);

    /// Ends the command buffer and lets it run.
    fn commit(&mut self);

    /// Waits until every command buffer has ended.
    fn wait(&mut self) -> Result<(), GpuError>;

    /// How long the GPU worked on what the last [`Gpu::wait`] waited for; `None` where it does not say.
    fn busy(&self) -> Option<Duration> {
        None
    }
}
