//! Running the binary and looking at what it says.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The binary, with nothing of this machine's environment that would change what it says.
pub fn akunu() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_akunu"));
    command
        .env_remove("AKUNU_CPU")
        .env_remove("AKUNU_DEVICE")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null());
    // Models that this machine has downloaded must not decide what a name means.
    command.env_remove("HF_TOKEN").env_remove("HF_HUB_OFFLINE");
    command.env("AKUNU_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/no-cache"));
    command
}

/// What a run gave.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        // A signal is no exit status: -1 fails every comparison.
        let status = output.status.code().unwrap_or(-1);
        Self { status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The output of a run that went well.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.status, 0, "{}", self.stderr);
        self.stdout
    }

    /// The output as JSON: one object on one line.
    #[track_caller]
    pub fn json(self) -> Value {
        let text = self.ok();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).expect("output is JSON")
    }

    /// The sentence of a run that failed with `status`: the only line, and no panic.
    #[track_caller]
    pub fn refused(self, status: i32) -> String {
        assert_eq!(self.status, status, "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert!(!self.stderr.contains('\u{1b}'), "colours where there is no terminal: {}", self.stderr);
        self.stderr
    }
}

pub fn run<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Ran {
    Ran::of(akunu().args(arguments).output().expect("the binary starts"))
}

/// Words separated by spaces.
pub fn words(line: &str) -> Ran {
    run(line.split_whitespace())
}

/// With `input` on standard input.
pub fn piped(arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = akunu();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    // A command that refuses its arguments has closed it already.
    let _ = stdin.write_all(input);
    drop(stdin);
    Ran::of(child.wait_with_output().expect("the binary ends"))
}
