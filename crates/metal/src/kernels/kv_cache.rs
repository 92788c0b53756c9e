//! Keys and values: writing and moving them.

use super::Category;

pub(super) const CATEGORY: Category = Category { name: "kv_cache", sources: &[], rows: Vec::new, layouts: Vec::new };
