//! `cargo fuzz run audio`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(audio);
