//! Many activation rows on AMX tiles: weights become bf16 once for all rows, and the tiles multiply.
//!
//! Activations come as bf16 tiles (`akunu_dtype::tiles`), the left side of a product, written so by the op before. Products
//! are summed in f32. Converting sums of integers instead costs more than the tiles save, because formats have a scale
//! for every 32 values.
//!
//! A worker takes columns in groups. It unpacks the weights of a group into its L2, and every activation
//! row passes by, 32 at a time; meanwhile the 32 rows before are finished. Sums stay in tiles to their end where rows are short.
//! Of longer ones, 512 values at a time stay in L1 for all of a group's columns.
//!
//! To unpack the next group meanwhile as well was tried: it makes prompts a sixth slower where another thread shares the core,
//! which then has half of the instructions in flight, too few to reach the next tiles.

#[doc(hidden)]
pub mod gate;
mod product;

pub use product::{matmul, matmul_gated, matmul_heads};
