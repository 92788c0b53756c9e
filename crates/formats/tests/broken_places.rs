//! What is no model file at all: directories, FIFOs, devices, empty and absent files.
#![cfg(unix)]

mod support;

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use akunu_testkit::TempDir;
use support::*;

#[test]
fn places_that_hold_no_model() {
    let dir = TempDir::new();
    let fifo = dir.join("fifo.gguf");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let socket = dir.join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    std::os::unix::fs::symlink(dir.join("loop"), dir.join("loop")).unwrap();
    for (path, expected) in [
        (dir.write("empty.gguf", b""), "is empty"),
        (dir.write("zeros", &[0; 100]), "is neither a GGUF file"),
        (dir.write("text.txt", b"hello, this is text"), "is neither a GGUF file"),
        (dir.write("x.json", b"{\"a\":1}, and more of it"), "is neither a GGUF file"),
        (dir.join("absent.gguf"), "cannot be opened: No such file"),
        (dir.join("loop"), "cannot be opened"),
        (dir.path().to_path_buf(), "has neither model.safetensors nor"),
        (fifo.clone(), "is a FIFO, not a regular file"),
        (socket.clone(), "is a socket, not a regular file"),
        (Path::new("/dev/null").to_path_buf(), "is a device, not a regular file"),
        (Path::new("/dev/zero").to_path_buf(), "is a device, not a regular file"),
    ] {
        let message = message(&path);
        assert!(message.contains(expected), "{message}");
    }
}

/// A directory's files must be files too.
#[test]
fn parts_of_a_directory_that_are_no_files() {
    let weights = safetensors(SAFETENSORS, SAFETENSORS_DATA);
    let fifo = |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());

    let dir = TempDir::new();
    dir.write("model.safetensors", &weights);
    assert!(message(dir.path()).contains("config.json: cannot be opened"));
    fifo(dir.join("config.json"));
    assert!(message(dir.path()).contains("config.json: is a FIFO"));

    let dir = TempDir::new();
    dir.write("config.json", b"{}");
    fifo(dir.join("model.safetensors"));
    assert!(message(dir.path()).contains("model.safetensors: is a FIFO"));

    let dir = TempDir::new();
    dir.write("config.json", b"{}");
    std::fs::create_dir(dir.join("model.safetensors")).unwrap();
    assert!(message(dir.path()).contains("model.safetensors: is a directory"));

    let dir = TempDir::new();
    dir.write("config.json", b"{}");
    dir.write("model.safetensors", &weights);
    fifo(dir.join("tokenizer.json"));
    let file = open(dir.path()).unwrap();
    assert!(file.side_file("tokenizer.json").unwrap().is_err());
    assert!(file.side_file("absent.json").is_none());
    assert!(file.side_file("../config.json").unwrap().is_err());
    assert_eq!(file.side_file("config.json").unwrap().unwrap(), b"{}");
}

/// What `map.rs` says of a file that shrinks while mapped: the process ends, and nothing is read in the file's place.
#[test]
fn a_file_that_shrinks_while_mapped_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;

    const CHILD: &str = "AKUNU_TEST_SHRINKING_FILE";
    if let Some(path) = std::env::var_os(CHILD) {
        let path = Path::new(&path);
        let file = open(path).unwrap();
        std::fs::File::options().write(true).open(path).unwrap().set_len(1).unwrap();
        let sum = read_everything(&file);
        // Not reached; printing keeps the read from being optimized away.
        println!("{sum}");
        std::process::exit(0);
    }
    let dir = TempDir::new();
    let infos = vec![info("t", &[1 << 20], 0, 0)];
    let path = dir.write("shrinks.gguf", &Gguf { infos, data: 4 << 20, ..Gguf::default() }.bytes());
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_file_that_shrinks_while_mapped_ends_the_process"])
        .env(CHILD, &path)
        .output()
        .unwrap()
        .status;
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
}
