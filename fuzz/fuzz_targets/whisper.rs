//! `cargo fuzz run whisper`.
#![cfg_attr(fuzzing, no_main)]

akunu_fuzz::fuzzed!(whisper);
