//! Products of matrices.

use super::Category;

pub(super) const CATEGORY: Category = Category { name: "matmul", sources: &[], rows: Vec::new, layouts: Vec::new };
