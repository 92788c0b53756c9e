//! Kernels by category.

mod activation;
mod attention;
mod attention_alone;
mod common;
mod conv;
mod convert;
mod embedding;
mod fused;
mod gemm;
mod kv_cache;
mod matmul;
mod norm;
mod rope;
mod sampling;
