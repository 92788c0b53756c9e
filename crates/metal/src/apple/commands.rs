//! Command buffers: what is encoded, what runs, and what became of it.

use super::device::Device;
use super::pipelines::State;
use crate::gpu::GpuError;
use objc2::msg_send;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_metal::*;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::time::Duration;

/// Bytes that can be set without a buffer.
const MOST_BYTES: usize = 4096;

/// Buffers that a kernel can have.
const MOST_BUFFERS: u32 = 31;

/// Threadgroup arguments that a kernel can have.
const MOST_SHARED: usize = 31;

type CommandBuffer = Retained<ProtocolObject<dyn MTLCommandBuffer>>;
type Encoder = Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>;

pub(super) struct Commands {
    queue: Retained<ProtocolObject<dyn MTLCommandQueue>>,
    /// Bytes that a threadgroup can have.
    most_shared: usize,
    /// The command buffer that is being encoded.
    open: Option<(CommandBuffer, Encoder)>,
    /// Those that were committed since the last wait.
    running: Vec<CommandBuffer>,
    /// Most threads of the pipeline that is set, and bytes of threadgroup memory that it has itself.
    threads: usize,
    own_shared: usize,
    shared: [usize; MOST_SHARED],
    /// Whether anything was dispatched since the last barrier.
    dispatched: bool,
    /// What could not be encoded.
    failed: Option<GpuError>,
    /// Of what the last wait waited for.
    busy: Duration,
}

impl Commands {
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        let queue = device.metal.newCommandQueue();
        Ok(Self {
            queue: queue.ok_or_else(|| GpuError("the GPU gives no queue for commands".into()))?,
            most_shared: device.metal.maxThreadgroupMemoryLength(),
            open: None,
            running: Vec::new(),
            threads: 0,
            own_shared: 0,
            shared: [0; MOST_SHARED],
            dispatched: false,
            failed: None,
            busy: Duration::ZERO,
        })
    }

    /// Has the queue's command buffers find these buffers where they are.
    pub fn keep_resident(&self, set: &ProtocolObject<dyn MTLResidencySet>) {
        self.queue.addResidencySet(set);
    }

    /// Metal waits here where 64 command buffers are under way.
    pub fn begin(&mut self) -> Result<(), GpuError> {
        assert!(self.open.is_none(), "a command buffer is encoded already");
        // It keeps no references to buffers, which takes time for each: they live until the commands have ended (`AppleGpu`).
        let buffer = self.queue.commandBufferWithUnretainedReferences();
        let buffer = buffer.ok_or_else(|| GpuError("the GPU gives no command buffer".into()))?;
        // Dispatches may run at once; `barrier` orders them.
        let encoder = buffer.computeCommandEncoderWithDispatchType(MTLDispatchType::Concurrent);
        let encoder = encoder.ok_or_else(|| GpuError("the GPU encodes no commands".into()))?;
        self.dispatched = false;
        self.open = Some((buffer, encoder));
        Ok(())
    }

    fn encoder(&self) -> &ProtocolObject<dyn MTLComputeCommandEncoder> {
        let (_, encoder) = self.open.as_ref().expect("a command buffer is encoded");
        encoder
    }

    /// The first failure is told by `wait`; nothing of the command buffer runs.
    pub fn fail(&mut self, error: GpuError) {
        self.failed.get_or_insert(error);
    }

    pub fn set_pipeline(&mut self, pipeline: &State) {
        (self.threads, self.own_shared) = (pipeline.threads, pipeline.shared);
        self.encoder().setComputePipelineState(&pipeline.metal);
    }

    pub fn set_buffer(&mut self, index: u32, buffer: &ProtocolObject<dyn MTLBuffer>, offset: usize) {
        if index >= MOST_BUFFERS {
            return self.fail(GpuError(format!("buffer {index}, and there are {MOST_BUFFERS}")));
        }
        // SAFETY: `Memory::part` has checked the offset, the index is one that there is, and the buffer outlives the command.
        unsafe { self.encoder().setBuffer_offset_atIndex(Some(buffer), offset, index as usize) };
    }

    pub fn set_bytes(&mut self, index: u32, bytes: &[u8]) {
        if index >= MOST_BUFFERS || bytes.len() > MOST_BYTES || bytes.is_empty() {
            return self.fail(GpuError(format!("{} bytes of parameters as buffer {index}", bytes.len())));
        }
        // SAFETY: so many bytes are there, and are copied before this returns; the index is one that there is.
        unsafe {
            let start = NonNull::from(bytes).cast::<c_void>();
            self.encoder().setBytes_length_atIndex(start, bytes.len(), index as usize);
        }
    }

    pub fn set_threadgroup_memory(&mut self, index: u32, bytes: usize) {
        let Some(shared) = self.shared.get_mut(index as usize).filter(|_| bytes.is_multiple_of(16)) else {
            return self.fail(GpuError(format!("{bytes} bytes of threadgroup memory as argument {index}")));
        };
        *shared = bytes;
        // SAFETY: the index is one that there is.
        unsafe { self.encoder().setThreadgroupMemoryLength_atIndex(bytes, index as usize) };
    }

    pub fn barrier(&mut self) {
        if std::mem::take(&mut self.dispatched) {
            self.encoder().memoryBarrierWithScope(MTLBarrierScope::Buffers);
        }
    }

    pub fn dispatch(&mut self, threadgroups: [u32; 3], threads: [u32; 3]) {
        let shared = self.own_shared + std::mem::take(&mut self.shared).iter().sum::<usize>();
        let together = threads.iter().map(|n| *n as usize).product::<usize>();
        if threadgroups.contains(&0) || together == 0 || together > self.threads || shared > self.most_shared {
            return self.fail(GpuError(format!(
                "a grid of {threadgroups:?} threadgroups of {threads:?} threads with {shared} bytes; this kernel can have {} \
                 threads and {} bytes",
                self.threads, self.most_shared
            )));
        }
        self.encoder().dispatchThreadgroups_threadsPerThreadgroup(size(threadgroups), size(threads));
        self.dispatched = true;
    }

    /// Lets the command buffer run; the next is encoded meanwhile. What it reads of one before it, Metal has it wait for.
    pub fn commit(&mut self) {
        let (buffer, encoder) = self.open.take().expect("a command buffer is encoded");
        encoder.endEncoding();
        if self.failed.is_none() {
            buffer.commit();
            self.running.push(buffer);
        }
    }

    /// Waits for what was committed, and does not ask how it went.
    pub fn finish(&self) {
        self.running.iter().for_each(|buffer| buffer.waitUntilCompleted());
    }

    pub fn wait(&mut self) -> Result<(), GpuError> {
        let mut failed = self.failed.take();
        self.busy = Duration::ZERO;
        for buffer in std::mem::take(&mut self.running) {
            buffer.waitUntilCompleted();
            self.busy += worked(&buffer);
            if buffer.status() == MTLCommandBufferStatus::Error {
                let (code, told) = match buffer.error() {
                    Some(error) => (error.code(), error.localizedDescription().to_string()),
                    None => (0, String::new()),
                };
                failed.get_or_insert_with(|| GpuError::of_command(code, &told));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// How long the GPU worked on what the last `wait` waited for.
    pub fn busy(&self) -> Duration {
        self.busy
    }
}

impl Drop for Commands {
    /// Nothing runs any more, and buffers can go. An encoder that goes must have ended.
    fn drop(&mut self) {
        autoreleasepool(|_| {
            if let Some((_, encoder)) = self.open.take() {
                encoder.endEncoding();
            }
            self.finish();
        });
    }
}

/// How long the GPU worked on a command buffer that has ended.
fn worked(buffer: &ProtocolObject<dyn MTLCommandBuffer>) -> Duration {
    // SAFETY: properties of every command buffer, seconds as a `double`. The bindings have them with a crate more only.
    let (start, end): (f64, f64) = unsafe { (msg_send![buffer, GPUStartTime], msg_send![buffer, GPUEndTime]) };
    Duration::try_from_secs_f64(end - start).unwrap_or_default()
}

fn size([width, height, depth]: [u32; 3]) -> MTLSize {
    MTLSize { width: width as usize, height: height as usize, depth: depth as usize }
}
