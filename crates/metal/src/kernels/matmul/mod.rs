//! Products of matrices.

mod gemv;

use super::Category;
use crate::shaders::sources;

pub(super) const CATEGORY: Category = Category {
    name: "matmul",
    sources: sources!["matmul/gemv.h", "matmul/gemv.metal", "matmul/gemv_wide.metal"],
    rows: || gemv::rows().collect(),
    layouts: gemv::layouts,
};
