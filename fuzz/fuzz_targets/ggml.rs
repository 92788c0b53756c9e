//! `cargo fuzz run ggml`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(ggml);
