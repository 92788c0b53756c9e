//! Convolutions of sound.

use super::Category;

pub(super) const CATEGORY: Category = Category { name: "conv", sources: &[], rows: Vec::new, layouts: Vec::new };
