//! The Metal backend: records become a table of dispatches, which is encoded into one command buffer for a chain of steps.
//!
//! Kernels are Metal sources in `shaders`, a folder for each category, with their rows of the kernel table in `kernels`. What
//! encodes them is behind [`Gpu`]: Apple's Metal, or the emulator in tests.

#![deny(unsafe_code)]

#[cfg(any(target_vendor = "apple", metal_check))]
mod apple;
pub mod archive;
mod backend;
pub mod catalogue;
pub mod chip;
pub mod dispatch;
pub mod entry;
pub mod formats;
pub mod gpu;
pub mod grids;
pub mod kernels;
mod loaded;
pub mod params;
pub mod shaders;
pub mod source;

pub use backend::Metal;
pub use chip::Chip;
pub use gpu::{BufferId, Function, Gpu, GpuError, PipelineId};
#[doc(hidden)]
pub use loaded::LoadedModel;

/// The GPU of this machine.
pub fn open() -> Result<Box<dyn Gpu>, GpuError> {
    #[cfg(any(target_vendor = "apple", metal_check))]
    return Ok(Box::new(apple::AppleGpu::open()?));
    #[cfg(not(any(target_vendor = "apple", metal_check)))]
    Err(GpuError("Metal is there on Apple's systems only".into()))
}
