//! How workers divide work and wait for each other.

mod pool;
mod row_groups;
mod share;
