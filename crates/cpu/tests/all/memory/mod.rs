//! Memory of the backend: what it is filled with, and how much there is.

mod host;
mod packed;
mod pages;
