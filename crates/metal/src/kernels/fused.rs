//! Products with what follows them.

use super::Category;

pub(super) const CATEGORY: Category = Category { name: "fused", sources: &[], rows: Vec::new, layouts: Vec::new };
