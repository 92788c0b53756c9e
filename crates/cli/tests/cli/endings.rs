//! How the program ends: what it was writing is whole or gone, and what could not be written is said.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::{Duration, Instant};

use akunu_testkit::TempDir;

use crate::support::{Ran, akunu};

#[test]
fn a_signal_leaves_no_half_of_a_file() {
    for signal in ["INT", "TERM"] {
        let dir = TempDir::new();
        let model = dir.join("large.gguf");
        let mut child = akunu().args(["synth", "llama-8b", "-t", "q8_0", "-o"]).arg(&model).spawn().unwrap();
        let begun = Instant::now();
        while fs::read_dir(dir.path()).unwrap().count() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "nothing is written");
            std::thread::sleep(Duration::from_millis(10));
        }
        let sent = std::process::Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status();
        assert!(sent.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{signal}");
    }
}

/// A file on a disk that is full.
#[cfg(target_os = "linux")]
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
#[cfg(target_os = "linux")]
fn help_that_cannot_be_written_is_an_error() {
    let run = |arguments: &[&str]| {
        Ran::of(
            akunu().args(arguments).stdout(full()).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap(),
        )
    };
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["run", "--help"],
        &["tokenize", "embedded", "Tom"],
        &["run", "embedded", "Tom", "-n", "4"],
    ] {
        let sentence = run(arguments).refused(1);
        assert!(sentence.contains("space") && !sentence.contains(".gguf"), "{arguments:?}: {sentence}");
    }
}
