//! A server on a port of its own, and requests to it as bytes on a socket.
#![allow(dead_code)]

use akunu_server::{Catalog, Entry, Options, Server, Source};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Serves until the test's process ends.
pub fn serve(entries: Vec<Entry>, change: impl FnOnce(&mut Options)) -> SocketAddr {
    let mut options = Options { port: 0, ..Options::default() };
    options.load.threads = Some(2);
    change(&mut options);
    let server = Server::bind(Catalog::new(entries), options).unwrap();
    let address = server.address().unwrap();
    std::thread::spawn(move || server.run().unwrap());
    address
}

/// The model inside the binary.
pub fn stories() -> Entry {
    Entry::embedded()
}

/// The same by another name.
pub fn named(name: &str) -> Entry {
    Entry::new(name, Source::Embedded)
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The body, of a request that succeeded.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()
    }

    /// The sentence and the field of an error.
    #[track_caller]
    pub fn fault(&self) -> (u16, String, String) {
        let error = self.json()["error"].clone();
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (self.status, text("message"), text("param"))
    }

    /// The data of its events.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        assert!(self.head.contains("text/event-stream"), "{} {}", self.head, self.body);
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

pub fn send(address: SocketAddr, method: &str, path: &str, kind: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    )
    .unwrap();
    // A server that refuses a body need not read it.
    let _ = stream.write_all(body);
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?} is no answer")).parse().unwrap();
    let mut head = String::new();
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        head += &line.to_ascii_lowercase();
    }
    let mut body = Vec::new();
    if head.contains("transfer-encoding: chunked") {
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).unwrap();
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    } else {
        reader.read_to_end(&mut body).unwrap();
    }
    Answer { status, head, body: String::from_utf8(body).unwrap() }
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, "GET", path, "application/json", b"")
}

/// With another header.
pub fn get_with(address: SocketAddr, path: &str, header: &str) -> Answer {
    send(address, "GET", path, &format!("application/json\r\n{header}"), b"")
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Answer {
    send(address, "POST", path, "application/json", body.to_string().as_bytes())
}
