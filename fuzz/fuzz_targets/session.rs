//! `cargo fuzz run session`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(session);
