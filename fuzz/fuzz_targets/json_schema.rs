//! `cargo fuzz run json_schema`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(json_schema);
