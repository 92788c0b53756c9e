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

/// One step over thousands of tokens takes the reference executor a minute.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_ends_a_step_that_goes_on_and_on() {
    let prompt = "Once upon a time there was a girl. ".repeat(400);
    let options = ["--device", "reference", "--chunk", "4096", "--context", "4096", "-n", "1"];
    for presses in [1, 2] {
        let mut command = akunu();
        command.args(["run", "embedded", &prompt]).args(options).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let tasks = format!("/proc/{}/task", child.id());
        let listens = || {
            let names =
                fs::read_dir(&tasks).unwrap().flatten().map(|task| fs::read_to_string(task.path().join("comm")));
            names.flatten().any(|name| name.trim() == "akunu-interrupt")
        };
        let begun = Instant::now();
        while !listens() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(300));
        let pressed = Instant::now();
        for _ in 0..presses {
            let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            assert!(sent.unwrap().success());
            std::thread::sleep(Duration::from_millis(200));
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        // Other tests may keep the machine busy.
        assert!(pressed.elapsed() < Duration::from_secs(10), "{presses}: {:?}", pressed.elapsed());
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "the step ended in order");
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
