//! Matrix products: dot-product tiles per weight format, and the product around them.

pub mod dots;
pub mod generic;
pub mod table;
