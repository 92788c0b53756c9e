//! The CPU backend: a thread pool that walks bound records, and the kernels they name.
//!
//! [`Cpu`] is a `Backend` of the seam. It is made of parts that its own tests use one by one: binding chooses a kernel for
//! every op of a program, [`Memory`] holds what the records address, [`Cpu::ready`] checks the one against the other, and
//! [`Cpu::replay`] runs it, as often as asked.

pub mod backend;
mod bind;
pub mod context;
#[doc(hidden)]
pub mod host;
pub mod kernels;
mod loaded;
pub mod memory;
#[doc(hidden)]
pub mod packed;
#[doc(hidden)]
pub mod pages;
pub mod pool;
pub mod ready;
#[doc(hidden)]
pub mod row_groups;
pub mod share;

pub use akunu_simd as simd;
pub use akunu_simd::level;
pub use backend::{Cpu, Error, Options};
pub use level::{Level, LevelError};
pub use memory::{Memory, MemoryPlan};
pub use packed::{AS_STORED, PACKED};
pub use ready::Ready;
