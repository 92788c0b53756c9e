//! Rows of embedding tables.

use super::Category;

pub(super) const CATEGORY: Category = Category { name: "embedding", sources: &[], rows: Vec::new, layouts: Vec::new };
