//! The CPU backend: its kernels, workers and memory. One program, because linking the kernels takes long.

mod diff;
mod kernels;
mod memory;
mod next_product;
mod rig;
mod workers;
