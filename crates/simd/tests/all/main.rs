//! Levels, and vectors at each of them.

mod level;
mod vectors;
