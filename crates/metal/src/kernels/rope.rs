//! Rotated positions.

use super::Category;

pub(super) const CATEGORY: Category = Category { name: "rope", sources: &[], rows: Vec::new, layouts: Vec::new };
