//! Matrix products: dot-product tiles per weight format, and the product around them.

pub mod dots;
