//! Choosing tokens.

use super::Category;

pub(super) const CATEGORY: Category = Category { name: "sampling", sources: &[], rows: Vec::new, layouts: Vec::new };
