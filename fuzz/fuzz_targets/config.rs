//! `cargo fuzz run config`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(config);
