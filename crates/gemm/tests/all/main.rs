//! Products at every level, packing, and tiles.

mod gemm;
mod packed;
#[cfg(target_arch = "x86_64")]
mod tiles;
