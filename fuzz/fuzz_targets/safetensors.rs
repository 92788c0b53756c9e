//! `cargo fuzz run safetensors`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(safetensors);
