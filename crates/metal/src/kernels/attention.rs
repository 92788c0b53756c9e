//! Attention.

use super::Category;

pub(super) const CATEGORY: Category = Category { name: "attention", sources: &[], rows: Vec::new, layouts: Vec::new };
