//! Activation functions and gates.

use super::Category;

pub(super) const CATEGORY: Category = Category { name: "activation", sources: &[], rows: Vec::new, layouts: Vec::new };
