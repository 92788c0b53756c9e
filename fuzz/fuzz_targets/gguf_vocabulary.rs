//! `cargo fuzz run gguf_vocabulary`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(gguf_vocabulary);
