//! Many activation rows on AMX tiles: weights become bf16 once for all rows, and the tiles multiply.
//!
//! Weights are the tiles' left side, so that they stay in rows as in the file: only activations, which
//! are few, are rearranged. Both are rounded to bf16, products are summed in f32. Converting sums of integers instead costs more than the tiles save, because
//! formats have a scale for every 32 values.
//!
//! A worker packs all activation rows, then takes its columns in groups. For each group it unpacks
//! [`DEPTH`] values of 32 weight rows at a time, which stay in the first-level cache while every
//! activation row passes by.

mod product;
mod strip;

pub use product::{matmul, matmul_gated, serves};
pub use strip::{Strip, StripFn, bf16, f16, f32, quantized};

/// Values of a row that are multiplied at a time.
pub const DEPTH: usize = 256;
/// Weight rows that are unpacked together: two tiles.
pub const STRIP: usize = 2 * crate::simd::tiles::SIDE;
