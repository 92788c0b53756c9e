//! Products of matrices.

mod gemm;
mod gemv;

use super::Category;
use crate::shaders::sources;

pub(super) const CATEGORY: Category = Category {
    name: "matmul",
    sources: sources![
        "matmul/epilogue.h",
        "matmul/gemv.h",
        "matmul/gemv.metal",
        "matmul/gemv_wide.metal",
        "matmul/simd_gemm.metal",
        "matmul/tiles.h",
    ],
    // Of the records that both serve, GEMM's are those of many rows.
    rows: || gemm::rows().chain(gemv::rows()).collect(),
    layouts: || gemm::layouts().into_iter().chain(gemv::layouts()).collect(),
};
