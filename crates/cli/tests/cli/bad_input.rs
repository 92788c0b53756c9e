//! Bad input: one sentence, exit status 1 (2 where the command line is not right), no panic.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use akunu_testkit::{TempDir, fixtures};

use crate::support::{piped, run, words};

/// Every command that opens a model, with `MODEL` to be replaced.
const OPENING: [&str; 7] = [
    "run MODEL Tom -n 1",
    "inspect MODEL",
    "inspect MODEL --program",
    "bench MODEL --prompt 1 --gen 1 --repeat 1",
    "logits MODEL --ids 1 -o /dev/null/x",
    "tokenize MODEL Tom",
    "chat MODEL",
];

#[track_caller]
fn refuse(model: &OsStr, contains: &str) {
    for line in OPENING {
        let arguments = line.split(' ').map(|w| if w == "MODEL" { model.to_owned() } else { w.into() });
        let sentence = run(arguments).refused(1);
        assert!(sentence.contains(contains), "{line}: {sentence}");
    }
}

#[test]
fn what_is_not_a_model_is_named() {
    let folder = TempDir::new();
    fs::create_dir(folder.join("empty")).unwrap();
    refuse(OsStr::new("/no/such/model.gguf"), "/no/such/model.gguf");
    refuse(folder.join("empty").as_os_str(), "model.safetensors");
    refuse(folder.write("text.gguf", b"not a model, just some text").as_os_str(), "GGUF");
    refuse(folder.write("nothing.gguf", b"").as_os_str(), "empty");
    refuse(OsStr::new("/dev/null"), "device");
}

#[test]
fn a_fifo_is_refused_and_does_not_block() {
    let folder = TempDir::new();
    let path = folder.join("fifo");
    let made = Command::new("mkfifo").arg(&path).status().ok().filter(|s| s.success());
    if fixtures::needed(made, fixtures::Source::Fetched, "mkfifo").is_none() {
        return;
    }
    refuse(path.as_os_str(), "FIFO");
}

#[test]
fn a_truncated_model_is_refused_wherever_it_ends() {
    let whole = fs::read(fixtures::path("gguf/stories-llama-Q4_0.gguf")).unwrap();
    let folder = TempDir::new();
    for length in [1, 4, 8, 23, 24, 100, 1000, 40_000, 100_000, 150_000, 1_000_000, whole.len() - 1] {
        let path = folder.write("short.gguf", &whole[..length]);
        let sentence = run(["inspect".as_ref(), path.as_os_str()]).refused(1);
        assert!(sentence.contains("short.gguf"), "{length}: {sentence}");
        run(["run".as_ref(), path.as_os_str(), "Tom".as_ref()]).refused(1);
    }
}

#[test]
fn a_prompt_without_a_model_gets_a_helpful_answer() {
    let sentence = run(["run", "Once upon a time"]).refused(1);
    assert!(sentence.contains("akunu run embedded \"Once upon a time\""), "{sentence}");
}

#[test]
fn values_that_cannot_be_are_refused() {
    for (line, contains) in [
        ("logits --ids 1,x -o out", "\"x\""),
        ("logits --ids -5 -o out", "\"-5\""),
        ("logits --ids 4096 -o out", "4096"),
        ("logits --ids , -o out", "no token ids"),
        ("logits --ids @/no/such/file -o out", "/no/such/file"),
        ("logits --ids 1 -o /no/such/folder/out", "/no/such/folder/out"),
        ("logits --ids 1,2,3 --context 2 -o out", "context"),
        ("synth no-such-shape -o out", "no-such-shape"),
        ("synth qwen3-0.6b --type q99 -o out", "q99"),
        ("tokenize embedded --file /no/such/file", "/no/such/file"),
        ("tokenize embedded --file /", "directory"),
        ("perplexity embedded /no/such/file", "/no/such/file"),
        ("chat", "no chat template"),
        ("run embedded Tom --chat", "no chat template"),
        ("chat --template /no/such/file", "/no/such/file"),
        ("render embedded -i /dev/null", "no chat template"),
        ("man -o /dev/null/x", "/dev/null/x"),
    ] {
        let sentence = words(line).refused(1);
        assert!(sentence.contains(contains), "{line}: {sentence}");
        assert!(sentence.contains("; "), "no next step: {sentence}");
    }
}

#[test]
fn numbers_without_end_are_refused() {
    for line in [
        "bench --depth MAX --prompt 4 --gen 2 --repeat 1",
        "bench --prompt MAX --gen 2 --repeat 1",
        "bench --prompt 4 --gen MAX --repeat 1",
        "bench --streams 63 --prompt MAX --gen MAX",
        "run embedded Tom -n 1 --context MAX",
        "run embedded Tom -n 1 --context 4294967296",
    ] {
        let sentence = words(&line.replace("MAX", &u64::MAX.to_string())).refused(1);
        assert!(sentence.contains("context") || sentence.contains("memory"), "{line}: {sentence}");
    }
}

#[test]
fn a_command_line_that_is_not_right_is_refused_with_status_2() {
    for (line, contains) in [
        ("frobnicate", "frobnicate"),
        ("run --frobnicate", "--frobnicate"),
        ("bench --promt 1", "--prompt"),
        ("run --kv q9_9", "q8_0"),
        ("run --activations int4", "int8"),
        ("run --temperature nan", "nan"),
        ("run --temperature -1", "-1"),
        ("run --top-p 2", "0 to 1"),
        ("run --threads 0", "at least 1"),
        ("run --threads 99999999999999999999", "number"),
        ("run -n 0", "at least 1"),
        ("bench --repeat 0", "at least 1"),
        ("logits -o out", "--ids"),
        ("inspect", "MODEL"),
        ("render embedded", "--input"),
        ("completions tcsh", "bash"),
        ("run a b c", "'c'"),
    ] {
        let sentence = words(line).refused(2);
        assert!(sentence.contains(contains), "{line}: {sentence}");
        assert!(sentence.contains("--help`"), "{sentence}");
    }
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let bad = OsStr::from_bytes(b"Tom \xff\xfe");
    run(["run".as_ref(), "embedded".as_ref(), bad]).refused(2);
    run(["tokenize".as_ref(), "embedded".as_ref(), bad]).refused(2);
    // A path may be anything.
    run(["inspect".as_ref(), bad]).refused(1);
    let folder = TempDir::new();
    let path = folder.write("text", b"abc \xff");
    let sentence = run(["tokenize".as_ref(), "embedded".as_ref(), "--file".as_ref(), path.as_os_str()]).refused(1);
    assert!(sentence.contains("not UTF-8 at byte 4"), "{sentence}");
    piped(&["run", "-"], b"\xc3(").refused(1);
    run(["chat".as_ref(), "--template".as_ref(), path.as_os_str()]).refused(1);
    run(["perplexity".as_ref(), "embedded".as_ref(), path.as_os_str()]).refused(1);
}

#[test]
fn an_empty_prompt_is_refused() {
    let sentence = run(["run", "embedded", ""]).refused(1);
    assert!(sentence.contains("empty"), "{sentence}");
    piped(&["run", "-"], b"").refused(1);
}

#[test]
fn verbose_shows_the_causes() {
    let ran = words("-v tokenize embedded --file /no/such/file");
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.lines().next().unwrap().starts_with("error: /no/such/file"), "{}", ran.stderr);
}

#[test]
fn a_level_that_is_none_is_refused() {
    let output = crate::support::akunu().args(["run", "-n", "1"]).env("AKUNU_CPU", "sse9").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("sse9"));
}
