//! Buffers: memory that host and GPU share, and model files where they lie.

use super::commands::Commands;
use super::device::Device;
use crate::gpu::{BufferId, GpuError};
use akunu_plan::WeightFile;
use objc2::rc::Retained;
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2::sel;
use objc2_metal::{MTLBuffer, MTLDevice, MTLResidencySet, MTLResidencySetDescriptor, MTLResourceOptions};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

type Shared = Retained<ProtocolObject<dyn MTLBuffer>>;

/// A buffer, and the file that its bytes are, which is kept for as long as the buffer is there.
struct Buffer {
    metal: Shared,
    length: usize,
    file: Option<Arc<dyn WeightFile>>,
}

pub(super) struct Memory {
    buffers: Vec<Buffer>,
    /// Keeps all buffers where the GPU finds them, between command buffers too. From macOS 15 on.
    residency: Option<Retained<ProtocolObject<dyn MTLResidencySet>>>,
    /// Whether buffers were added since it was told.
    added: bool,
}

impl Memory {
    pub fn new(device: &Device, commands: &Commands) -> Self {
        let has = device.metal.respondsToSelector(sel!(newResidencySetWithDescriptor:error:));
        // Without one every command buffer makes its buffers resident, which takes longer and is as right.
        let set = || device.metal.newResidencySetWithDescriptor_error(&MTLResidencySetDescriptor::new()).ok();
        let residency = has.then(set).flatten();
        residency.iter().for_each(|set| commands.keep_resident(set));
        Self { buffers: Vec::new(), residency, added: false }
    }

    /// Zeros, as Metal promises.
    pub fn allocate(&mut self, device: &Device, bytes: usize) -> Result<BufferId, GpuError> {
        let metal = shared(device, bytes)?;
        Ok(self.add(Buffer { metal, length: bytes, file: None }))
    }

    /// A mapped file begins at a page: the GPU reads the same pages. What begins elsewhere is in the program itself or in somebody's
    /// heap, and is copied.
    pub fn map(&mut self, device: &Device, file: Arc<dyn WeightFile>) -> Result<BufferId, GpuError> {
        let (bytes, page) = (file.bytes(), page());
        let length = bytes.len();
        let pages = length.next_multiple_of(page);
        if pages <= device.metal.maxBufferLength() && length > 0 && bytes.as_ptr().addr().is_multiple_of(page) {
            let start = NonNull::from(bytes).cast::<c_void>();
            // SAFETY: whole pages from the file's first to its last one, which are all mapped because each has bytes of it. They stay
            // for as long as `file` does, which is kept until after the buffer; nobody writes through this buffer (`bytes_mut`).
            let metal = unsafe {
                device.metal.newBufferWithBytesNoCopy_length_options_deallocator(start, pages, options(), None)
            };
            if let Some(metal) = metal {
                return Ok(self.add(Buffer { metal, length, file: Some(file) }));
            }
        }
        let metal = shared(device, length)?;
        // SAFETY: the buffer has at least so many bytes, is new, and nobody else knows it.
        unsafe { metal.contents().cast::<u8>().copy_from_nonoverlapping(NonNull::from(bytes).cast(), length) };
        Ok(self.add(Buffer { metal, length, file: Some(file) }))
    }

    fn add(&mut self, buffer: Buffer) -> BufferId {
        if let Some(set) = &self.residency {
            set.addAllocation(ProtocolObject::from_ref(&*buffer.metal));
            self.added = true;
        }
        self.buffers.push(buffer);
        BufferId(self.buffers.len() - 1)
    }

    /// Tells the system of new buffers.
    pub fn make_resident(&mut self) {
        if let Some(set) = self.residency.as_ref().filter(|_| self.added) {
            set.commit();
            set.requestResidency();
            self.added = false;
        }
    }

    /// The buffer, where it has these bytes.
    pub fn part(
        &self,
        buffer: BufferId,
        offset: usize,
        bytes: usize,
    ) -> Result<&ProtocolObject<dyn MTLBuffer>, GpuError> {
        let Buffer { metal, length, .. } = &self.buffers[buffer.0];
        match offset.checked_add(bytes) {
            Some(end) if end <= *length => Ok(metal),
            _ => Err(GpuError(format!("{bytes} bytes from {offset} on of a buffer of {length}"))),
        }
    }

    /// # Safety
    /// No command runs, and none begins while the slice is there.
    pub unsafe fn bytes(&self, buffer: BufferId) -> &[u8] {
        let buffer = &self.buffers[buffer.0];
        if let Some(file) = &buffer.file {
            return file.bytes();
        }
        // SAFETY: `length` bytes, which begin as zeros; the host writes them only through `bytes_mut`, and the GPU not now.
        unsafe { slice::from_raw_parts(buffer.metal.contents().cast().as_ptr(), buffer.length) }
    }

    /// # Safety
    /// As of [`Memory::bytes`].
    pub unsafe fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        let buffer = &mut self.buffers[buffer.0];
        assert!(buffer.file.is_none(), "a file is not written");
        // SAFETY: as above, and `self` is borrowed by nobody else; no two buffers share memory.
        unsafe { slice::from_raw_parts_mut(buffer.metal.contents().cast().as_ptr(), buffer.length) }
    }
}

/// Memory of one kind for both. The order of commands over it is Metal's to keep between command buffers, and ours inside of one.
fn options() -> MTLResourceOptions {
    MTLResourceOptions::StorageModeShared
}

fn shared(device: &Device, bytes: usize) -> Result<Shared, GpuError> {
    let most = device.metal.maxBufferLength();
    if bytes > most {
        return Err(GpuError(format!("a buffer of {bytes} bytes was asked for, and this GPU has none over {most}")));
    }
    // A buffer of nothing is none.
    let buffer = device.metal.newBufferWithLength_options(bytes.max(16), options());
    buffer.ok_or_else(|| GpuError(format!("the system has no {bytes} bytes of memory for the GPU")))
}

/// Bytes of a page.
fn page() -> usize {
    unsafe extern "C" {
        fn getpagesize() -> c_int;
    }
    // SAFETY: it takes nothing and only answers.
    let bytes = unsafe { getpagesize() };
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(16_384)
}
