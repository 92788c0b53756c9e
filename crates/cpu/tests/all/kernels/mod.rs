//! Every kernel of every level against its definition in plain f64, over random shapes, in memory
//! full of NaN, at several thread counts.

mod attention;
mod attention_cut;
mod elementwise;
#[cfg(target_arch = "x86_64")]
mod gate;
mod heads;
#[cfg(target_arch = "x86_64")]
mod inlined;
mod keys;
mod norm;
mod product;
mod sampling;
mod speech;
