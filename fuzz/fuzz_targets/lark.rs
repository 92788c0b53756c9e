//! `cargo fuzz run lark`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(lark);
