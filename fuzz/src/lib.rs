//! What strangers hand us, each as one function that takes any bytes and panics where the promise of SECURITY.md is broken.
//!
//! `cargo fuzz` runs a target for as long as it is let (`docs/fuzzing.md`); the test of this crate runs all of them over
//! `corpus/`. Memory and time are bounded by whoever runs a target. A target of two inputs takes them with [`BETWEEN`] between
//! them.
#![forbid(unsafe_code)]

mod audio;
mod flags;
mod grammars;
mod models;
mod session;
mod text;

pub use audio::audio;
pub use flags::flags;
pub use grammars::{gbnf, json_schema, lark, regex};
pub use models::{config, ggml, gguf, safetensors};
pub use session::session;
pub use text::{chat_template, gguf_vocabulary, tokenizer_json};

use std::fmt::Display;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A target, which is also the name of its corpus.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 14] = [
    ("audio", audio),
    ("chat_template", chat_template),
    ("config", config),
    ("flags", flags),
    ("gbnf", gbnf),
    ("ggml", ggml),
    ("gguf", gguf),
    ("gguf_vocabulary", gguf_vocabulary),
    ("json_schema", json_schema),
    ("lark", lark),
    ("regex", regex),
    ("safetensors", safetensors),
    ("session", session),
    ("tokenizer_json", tokenizer_json),
];

/// Between the two inputs of a target.
pub const BETWEEN: &[u8] = b"\n====\n";

/// The two inputs of a target: what comes before [`BETWEEN`] and what comes after it, if it is there.
fn halves(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    match bytes.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        Some(at) => (&bytes[..at], Some(&bytes[at + BETWEEN.len()..])),
        None => (bytes, None),
    }
}

/// What a user sees of an error is one sentence.
fn is_a_sentence(error: &dyn Display) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.chars().count() <= 600, "{} characters: {text:.1000}", text.chars().count());
    assert!(!text.contains(char::is_control), "control characters: {text:?}");
}

/// Runs a target, and says how much time of a processor the slowest input so far took.
pub fn timed(target: Target, bytes: &[u8]) {
    static SLOWEST: AtomicU64 = AtomicU64::new(9);
    let slowest = SLOWEST.load(Ordering::Relaxed);
    let started = Instant::now();
    target(bytes);
    if started.elapsed() <= Duration::from_millis(slowest) {
        return;
    }
    // Once more: by the clock it is slow, which another process may have been the reason for.
    let before = processor_ms();
    target(bytes);
    let took = processor_ms() - before;
    if took > slowest {
        SLOWEST.store(took, Ordering::Relaxed);
        eprintln!("slowest: {took} ms for {} bytes", bytes.len());
    }
}

/// What this process has taken of the processors; the clock, where the system does not say.
fn processor_ms() -> u64 {
    static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
    // In hundredths of a second, after the name in parentheses: user's is the twelfth field, the system's the next.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    let ticks: Vec<u64> = fields.take(2).filter_map(|field| field.parse().ok()).collect();
    match ticks[..] {
        [user, system] => 10 * (user + system),
        _ => STARTED.elapsed().as_millis() as u64,
    }
}

/// The program of a target: libFuzzer's, which `cargo fuzz` builds. Without it there is only where to find it.
#[macro_export]
macro_rules! fuzzed {
    ($target:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::timed($crate::$target, bytes));

        #[cfg(not(fuzzing))]
        fn main() {
            eprintln!("build it with libFuzzer: cargo fuzz run {}", stringify!($target));
            std::process::exit(2);
        }
    };
}
