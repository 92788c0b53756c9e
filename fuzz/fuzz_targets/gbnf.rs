//! `cargo fuzz run gbnf`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(gbnf);
