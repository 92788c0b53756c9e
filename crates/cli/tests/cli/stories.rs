//! `run`: the embedded model tells stories, anywhere.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{akunu, piped, words};

#[test]
fn without_arguments_a_story_is_told_and_timed() {
    let ran = words("run --max-tokens 24");
    assert!(ran.stdout.starts_with("Once upon a time, there was"), "{}", ran.stdout);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    for part in ["prefill 4 tokens", "decode 24 tokens", "tokens/s"] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    assert_eq!(ran.status, 0);
}

#[test]
fn greedy_text_is_the_same_however_it_is_computed() {
    let story = words("run --max-tokens 48").ok();
    for flags in ["--threads 1", "--chunk 1", "--chunk 3", "--repeat-penalty 1.0 --top-k 1"] {
        assert_eq!(words(&format!("run --max-tokens 48 {flags}")).ok(), story, "{flags}");
    }
}

#[test]
fn a_seed_decides_what_is_drawn() {
    let told = |seed| words(&format!("run --max-tokens 32 --temperature 1.2 --seed {seed}")).ok();
    assert_eq!(told(1), told(1));
    assert_ne!(told(1), told(2));
}

#[test]
fn a_prompt_comes_from_the_command_line_or_from_standard_input() {
    let given = words("run embedded Tom -n 8").ok();
    assert!(!given.starts_with("Tom"), "a prompt is not repeated: {given}");
    assert_eq!(piped(&["run", "-", "-n", "8"], b"Tom").ok(), given);
    assert_eq!(piped(&["run", "embedded", "-", "-n", "8"], b"Tom").ok(), given);
}

#[test]
fn no_more_tokens_come_than_asked_for_and_the_context_has_an_end() {
    let ran = words("run -n 1");
    assert!(ran.stderr.contains("decode 1 tokens"), "{}", ran.stderr);
    let ran = words("run -n 100 --context 16 --ignore-eos");
    assert!(ran.stderr.contains("the context of 16 is full"), "{}", ran.stderr);
    assert_eq!(ran.status, 0);
}

#[test]
fn text_streams_before_the_end() {
    let mut child = akunu()
        .args(["run", "--ignore-eos", "--context", "20000", "-n", "19000", "--threads", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = [0; 40];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert!(first.starts_with(b"Once upon a time, there"));
    assert!(child.try_wait().unwrap().is_none(), "the text came only when all of it was there");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let mut child = akunu()
        .args(["run", "--ignore-eos", "--context", "20000", "-n", "19000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

/// Ctrl-C as the shell sends it.
#[cfg(unix)]
#[test]
fn an_interrupt_stops_it_and_still_prints_the_speeds() {
    let mut child = akunu()
        .args(["run", "--ignore-eos", "--context", "20000", "-n", "19000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The handler is there once text comes.
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 30]).unwrap();
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("tokens/s; interrupted"), "{stderr}");
    assert_eq!(output.status.code(), Some(130));
}

/// File, KV cache and binary together are about 15 MB.
#[cfg(target_os = "linux")]
#[test]
fn a_story_needs_little_memory() {
    let mut child = akunu().args(["run", "-n", "200"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(30) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|l| l.trim().strip_suffix(" kB")).and_then(|n| n.parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(child.wait().unwrap().success());
    assert!(peak > 0 && peak < 64 << 10, "peak memory of {peak} kB");
}

#[test]
fn a_text_ends_before_a_stop_string_even_between_tokens() {
    let whole = words("run --max-tokens 48").ok();
    let stop = "there was a";
    assert!(whole.contains(stop), "{whole}");
    let cut = &whole[..whole.find(stop).unwrap()];
    for flags in ["", "--temperature 0.0001 --seed 1", "--chunk 1"] {
        let mut line: Vec<&str> = "run --max-tokens 48 --stop".split(' ').collect();
        line.push(stop);
        line.extend(flags.split_whitespace());
        assert_eq!(crate::support::run(line).ok().trim_end_matches('\n'), cut, "{flags}");
    }
}

#[test]
fn stages_can_be_ordered_and_a_wrong_one_is_named() {
    let cold = words("run -n 16 --temperature 5 --seed 3 --samplers top-k --top-k 1").ok();
    assert_eq!(cold, words("run -n 16").ok());
    let refused = words("run --samplers top-k,best").refused(2);
    assert!(refused.contains("\"best\""), "{refused}");
}

#[test]
fn log_probabilities_go_to_standard_error() {
    let ran = words("run -n 4 --logprobs 2");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 5, "{}", ran.stderr);
    for line in &lines[..4] {
        // Greedy: the chosen token is the first of the likeliest.
        let parts: Vec<&str> = line.split("  ").collect();
        assert_eq!(parts.len(), 3, "{line}");
        assert_eq!(parts[0], parts[1]);
        assert!(parts[0].starts_with('-') || parts[0].starts_with('0'), "{line}");
    }
}

#[test]
fn speculation_changes_no_text() {
    for flags in ["", "--temperature 1 --seed 4"] {
        let plain = words(&format!("run -n 60 {flags}")).ok();
        assert_eq!(words(&format!("run -n 60 --speculate ngram {flags}")).ok(), plain);
        assert_eq!(words(&format!("run -n 60 --draft embedded {flags}")).ok(), plain);
    }
}

#[test]
fn a_text_has_the_form_that_was_asked_for() {
    let text = crate::support::run(["run", "-n", "40", "--regex", "[A-Z][a-z]{3} has [0-9]{2} cats"]).ok();
    assert!(text.trim_end().ends_with(" cats") && text.contains(" has "), "{text}");
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer","maximum":9,"minimum":0}},"required":["a"],"additionalProperties":false}"#;
    let json = crate::support::run(["run", "embedded", "x", "-n", "40", "--json-schema", schema]).ok();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(value["a"].is_u64(), "{json}");
    let refused = crate::support::run(["run", "--json-schema", r#"{"uniqueItems":true}"#]).refused(1);
    assert!(refused.contains("uniqueItems"), "{refused}");
    assert!(words("run --json-object --regex a").refused(2).contains("cannot be used with"));
}

#[test]
fn a_session_is_computed_once() {
    let folder = akunu_testkit::TempDir::new();
    let file = folder.join("story.session");
    let run = |prompt: &str| {
        crate::support::run(["run", "embedded", prompt, "-n", "8", "--session", &file.to_string_lossy()])
    };
    let first = run("Once upon a time there was a red ball.");
    assert!(first.stderr.starts_with("0 tokens reused, prefill"), "{}", first.stderr);
    let again = run("Once upon a time there was a red ball.");
    assert!(again.stderr.contains("prefill 1 tokens"), "{}", again.stderr);
    assert_eq!(first.stdout, again.stdout);
    let longer = run("Once upon a time there was a red ball. Tom");
    assert!(!longer.stderr.starts_with("0 tokens") && longer.status == 0, "{}", longer.stderr);
    folder.write("story.session", b"something else");
    assert!(run("Once").refused(1).contains("not a session file"));
}

#[test]
fn a_shifted_context_has_no_end() {
    let ran = words("run -n 200 --context 64 --ignore-eos --context-shift");
    assert!(ran.stderr.contains("decode 200 tokens") && ran.status == 0, "{}", ran.stderr);
}
