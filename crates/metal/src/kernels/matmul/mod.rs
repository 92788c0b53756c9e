//! Products of matrices.

mod gemm;

use super::Category;
use crate::shaders::sources;

pub(super) const CATEGORY: Category =
    Category { name: "matmul", sources: sources!["matmul/simd_gemm.metal"], rows: || gemm::rows().collect(), layouts };

fn layouts() -> Vec<crate::params::Layout> {
    gemm::layouts()
}
