//! Every kernel of every level against its definition in plain f64, over random shapes, in memory
//! full of NaN, at several thread counts.

mod attention;
mod elementwise;
mod heads;
#[cfg(target_os = "linux")]
mod inlined;
mod norm;
mod product;
mod rig;
mod sampling;
mod speech;
