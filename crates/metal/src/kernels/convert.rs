//! Number formats to floats.

use super::Category;

pub(super) const CATEGORY: Category = Category { name: "convert", sources: &[], rows: Vec::new, layouts: Vec::new };
