//! Products at every level, packing, and tiles.

mod dots;
mod packed;
#[cfg(target_arch = "x86_64")]
mod tiles;
