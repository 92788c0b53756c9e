//! `cargo fuzz run chat_template`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(chat_template);
