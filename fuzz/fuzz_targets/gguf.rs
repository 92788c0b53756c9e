//! `cargo fuzz run gguf`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(gguf);
