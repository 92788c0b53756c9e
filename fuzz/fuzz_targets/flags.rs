//! `cargo fuzz run flags`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(flags);
