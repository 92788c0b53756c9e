//! `cargo fuzz run regex`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(regex);
