//! A server for tests: real sockets, and any answer that a server could give.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the server does with a request: its path, the start of the range it asks for, and where the answer goes.
type Answer = dyn Fn(&str, Option<usize>, &mut TcpStream) + Send + Sync;

pub struct Server {
    pub base: String,
    /// Path, and range or `-`, of every request so far.
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server for the rest of the process that gives whole answers.
    pub fn start(answer: impl Fn(&str, Option<usize>) -> Vec<u8> + Send + Sync + 'static) -> Self {
        // Whoever does not want the rest of an answer closes the connection.
        Self::raw(move |path, start, stream| drop(stream.write_all(&answer(path, start))))
    }

    /// One that writes answers as it likes.
    pub fn raw(answer: impl Fn(&str, Option<usize>, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen): (Arc<Answer>, _) = (Arc::new(answer), log.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, seen) = (answer.clone(), seen.clone());
                thread::spawn(move || serve(stream, &*answer, &seen));
            }
        });
        Self { base, log }
    }

    pub fn requests(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, log: &Mutex<Vec<String>>) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        request.push(byte[0]);
    }
    let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
    let path = request.split([' ', '?']).nth(1).unwrap().to_owned();
    let range = request.lines().find_map(|l| l.strip_prefix("range: bytes=")).map(str::to_owned);
    let authorized = if request.contains("authorization:") { " token" } else { "" };
    log.lock().unwrap().push(format!("{path} {}{authorized}", range.as_deref().unwrap_or("-")));
    let start = range.and_then(|r| r.trim_end_matches('-').parse().ok());
    answer(&path, start, &mut stream);
}

/// Keeps a connection open and says nothing, until the other side has closed it.
pub fn silence(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0]);
}

pub fn response(status: &str, headers: &[(&str, String)], body: &[u8]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for (name, value) in headers {
        out += &format!("{name}: {value}\r\n");
    }
    out += "\r\n";
    [out.as_bytes(), body].concat()
}

pub fn length(bytes: usize) -> (&'static str, String) {
    ("Content-Length", bytes.to_string())
}

/// The file from `start` on, as a server that knows ranges sends it.
pub fn ranged(file: &[u8], start: Option<usize>) -> Vec<u8> {
    match start {
        None => response("200 OK", &[length(file.len()), ("ETag", "\"one\"".into())], file),
        Some(start) if start >= file.len() => response(
            "416 Range Not Satisfiable",
            &[length(0), ("Content-Range", format!("bytes */{}", file.len()))],
            b"",
        ),
        Some(start) => {
            let range = format!("bytes {start}-{}/{}", file.len() - 1, file.len());
            let headers = [length(file.len() - start), ("Content-Range", range), ("ETag", "\"one\"".into())];
            response("206 Partial Content", &headers, &file[start..])
        }
    }
}

pub fn sample() -> Vec<u8> {
    (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
