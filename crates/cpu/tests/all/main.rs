//! The CPU backend: its kernels, workers and memory. One program, because linking the kernels takes long.

mod diff;
mod following;
mod kernels;
mod memory;
mod rig;
mod workers;
