//! `cargo fuzz run tokenizer_json`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(tokenizer_json);
