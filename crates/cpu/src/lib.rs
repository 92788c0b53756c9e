//! The CPU backend: a thread pool that walks bound records, and the kernels they name.

pub mod kernels;
pub mod level;

pub use level::Level;
