//! `akunu serve` as who runs it sees it: how it ends, and how it begins again.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use akunu_testkit::{TempDir, fixtures};

use crate::support::akunu;

struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Serves the model `tales` of a folder.
    fn start(folder: &Path, port: &str, more: &[&str]) -> Server {
        let mut command = akunu();
        command.args(["serve", "--print-address", "--log", "off", "--threads", "2", "--port", port]).args(more);
        command.arg("--models-dir").arg(folder).env("TMPDIR", folder).env("HOME", folder);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").expect("it listens").to_owned();
        Server { child, address }
    }

    fn send(&self, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream
    }

    /// A stream that has begun.
    fn streaming(&self, body: &str) -> TcpStream {
        let mut stream = self.send(body);
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        stream
    }

    fn asked(&self) -> String {
        let mut answer = String::new();
        let body = r#"{"prompt":"Once upon a time","max_tokens":8,"temperature":0}"#;
        self.send(body).read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let text = answer.split("\"text\":").nth(1).and_then(|rest| rest.split("\",").next());
        text.unwrap().to_owned()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args([format!("-{name}"), id]).status();
        assert!(sent.unwrap().success());
    }

    fn ended(&mut self) -> Option<i32> {
        let until = Instant::now() + Duration::from_secs(40);
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder() -> TempDir {
    let folder = TempDir::new();
    fs::copy(fixtures::path("gguf/stories-llama-Q4_0.gguf"), folder.join("tales.gguf")).unwrap();
    folder
}

/// Tokens enough to be in the middle of them.
const LONG: &str = r#"{"prompt":"Once","max_tokens":400,"ignore_eos":true,"stream":true}"#;
/// Megabytes, of which nobody reads any: more than sockets hold.
const UNREAD: &str = r#"{"prompt":"Once","max_tokens":400,"ignore_eos":true,"stream":true,"n":16,"logprobs":5}"#;

#[test]
fn a_server_that_is_killed_begins_again_on_its_port_and_has_lost_only_its_streams() {
    let folder = folder();
    let mut first = Server::start(folder.path(), "0", &[]);
    let before = first.asked();
    let mut streams: Vec<TcpStream> = (0..4).map(|_| first.streaming(LONG)).collect();
    first.signal("KILL");
    assert_eq!(first.ended(), None);
    for stream in &mut streams {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains("[DONE]"), "it was over already");
    }
    // Nothing of it is left that the next one could stumble over.
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|item| item.unwrap().file_name()).collect();
    assert_eq!(left, ["tales.gguf"]);
    let port = first.address.rsplit(':').next().unwrap().to_owned();
    let second = Server::start(folder.path(), &port, &[]);
    assert_eq!((&second.address, second.asked()), (&first.address, before));
}

#[test]
fn a_server_that_is_asked_to_end_finishes_what_runs() {
    let folder = folder();
    let mut server = Server::start(folder.path(), "0", &[]);
    let mut streams: Vec<TcpStream> = (0..4).map(|_| server.streaming(LONG)).collect();
    server.signal("TERM");
    for stream in &mut streams {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.contains(r#""finish_reason":"length""#) && rest.contains("[DONE]"), "{rest}");
    }
    assert_eq!(server.ended(), Some(0));
    assert!(TcpStream::connect(&server.address).is_err());
}

#[test]
fn who_does_not_read_holds_a_server_up_only_for_so_long() {
    let folder = folder();
    // Asked once, it waits a second; asked twice, not at all.
    for (drain, signals, status) in [("1", 1, 0), ("600", 2, 130)] {
        let mut server = Server::start(folder.path(), "0", &["--drain", drain]);
        let _stream = server.streaming(UNREAD);
        for _ in 0..signals {
            server.signal("TERM");
            std::thread::sleep(Duration::from_millis(300));
        }
        assert_eq!(server.ended(), Some(status));
    }
}
