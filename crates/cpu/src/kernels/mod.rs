//! Kernels, one folder per category.

pub mod matmul;
