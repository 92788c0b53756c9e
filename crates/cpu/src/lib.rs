//! The CPU backend: a thread pool that walks bound records, and the kernels they name.
//!
//! `Cpu::bind` chooses a kernel for every op of a program, `Memory` holds what the records address,
//! `Cpu::ready` checks the one against the other, and `Cpu::replay` runs it, as often as asked.

pub mod backend;
mod block;
pub mod context;
pub mod kernels;
pub mod lane;
pub mod memory;
mod packed;
mod parts;
pub mod pool;
pub mod ready;

pub use akunu_simd as simd;
pub use akunu_simd::level;
pub use backend::{Cpu, Error, Options, PART_ROWS, ReplayError};
pub use level::{Level, LevelError};
pub use memory::{KvPool, Memory, MemoryError, MemoryPlan, WeightFile};
pub use parts::MOST as MOST_PARTS;
pub use ready::{Ready, Unready};
