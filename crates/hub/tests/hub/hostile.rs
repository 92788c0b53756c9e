//! Servers that stall, drip, lie or never end: each ends with one sentence in bounded time, and what is kept is right.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::server::{Server, length, ranged, response, sample, silence};
use akunu_hub::{ATTEMPTS, Client, Cut, Download, Error, Hub, Sources};
use akunu_testkit::TempDir;

/// How long the tests' client waits for a silent host.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest that giving up may take: patience for every attempt, pauses between them, and a busy machine.
const BOUND: Duration = Duration::from_secs(30);

fn download(server: &Server, path: &Path) -> Result<(), Error> {
    let what = Download { url: format!("{}/file", server.base), limit: 1 << 30, ..Default::default() };
    let begun = Instant::now();
    let result = Client::new(PATIENCE).download(&what, path, &mut |_, _| {});
    assert!(begun.elapsed() < BOUND, "it took {:?}", begun.elapsed());
    result
}

/// An answer's head, and `body` bytes of the sample from `start` on, which announce the rest.
fn beginning(start: Option<usize>, body: usize) -> Vec<u8> {
    let whole = ranged(&sample(), start);
    let head = whole.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    whole[..whole.len().min(head + body)].to_vec()
}

fn cut_of(error: &Error) -> Option<Cut> {
    match error {
        Error::Interrupted { how, .. } => Some(*how),
        _ => None,
    }
}

#[test]
fn a_body_that_stalls_ends_with_a_sentence_and_goes_on_next_time() {
    // The length of all, a third of the bytes, and then silence on an open connection; nothing at all after that.
    let stalling = Server::raw(|_, start, stream| {
        let body = if start.is_none() { 100_000 } else { 0 };
        stream.write_all(&beginning(start, body)).unwrap();
        silence(stream);
    });
    let dir = TempDir::new();
    let error = download(&stalling, &dir.join("a")).unwrap_err();
    assert_eq!(cut_of(&error), Some(Cut::Silent), "{error}");
    let sentence = error.to_string();
    assert!(sentence.ends_with("stopped sending after 100000 bytes of 300000; fetch again to continue"), "{sentence}");
    assert_eq!(stalling.requests().len(), 1 + ATTEMPTS, "what brought much does not count");
    assert_eq!(fs::metadata(dir.join("a.part")).unwrap().len(), 100_000);

    let sound = Server::start(|_, start| ranged(&sample(), start));
    download(&sound, &dir.join("a")).unwrap();
    assert_eq!(fs::read(dir.join("a")).unwrap(), sample());
    assert_eq!(sound.requests(), ["/file 100000-"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_body_that_stalls_once_is_taken_up_at_once() {
    let stalled = AtomicUsize::new(0);
    let server = Server::raw(move |_, start, stream| match stalled.fetch_add(1, Ordering::SeqCst) {
        0 => {
            stream.write_all(&beginning(start, 100_000)).unwrap();
            silence(stream);
        }
        _ => stream.write_all(&ranged(&sample(), start)).unwrap(),
    });
    let dir = TempDir::new();
    download(&server, &dir.join("a")).unwrap();
    assert_eq!(fs::read(dir.join("a")).unwrap(), sample());
    assert_eq!(server.requests(), ["/file -", "/file 100000-"]);
}

#[test]
fn attempts_that_bring_nothing_are_counted_once_each() {
    let server = Server::start(|_, start| beginning(start, 0));
    let dir = TempDir::new();
    let error = download(&server, &dir.join("a")).unwrap_err();
    assert_eq!(cut_of(&error), Some(Cut::Ended), "{error}");
    assert_eq!(server.requests().len(), ATTEMPTS);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "where nothing came, nothing stays");
}

#[test]
fn a_host_that_goes_away_may_come_back() {
    // How many requests after the first get no answer.
    for (gone, ends) in [(2, true), (usize::MAX, false)] {
        let asked = AtomicUsize::new(0);
        let server = Server::raw(move |_, start, stream| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => stream.write_all(&beginning(start, 100_000)).unwrap(),
            n if n <= gone => {}
            _ => stream.write_all(&ranged(&sample(), start)).unwrap(),
        });
        let dir = TempDir::new();
        match download(&server, &dir.join("a")) {
            Ok(()) => assert!(ends && fs::read(dir.join("a")).unwrap() == sample()),
            Err(error) => {
                assert!(!ends, "{error}");
                assert_eq!(cut_of(&error), Some(Cut::Gone), "{error}");
                assert_eq!(server.requests().len(), 1 + ATTEMPTS);
            }
        }
    }
}

#[test]
fn a_body_that_drips_ends() {
    let server = Server::raw(|_, start, stream| {
        let whole = ranged(&sample(), start);
        let head = beginning(start, 0).len();
        let _ = stream.write_all(&whole[..head]);
        // Never silent for long, and never done.
        for byte in whole[head..].chunks(1) {
            thread::sleep(Duration::from_millis(20));
            if stream.write_all(byte).is_err() {
                return;
            }
        }
    });
    let dir = TempDir::new();
    let error = download(&server, &dir.join("a")).unwrap_err();
    assert_eq!(cut_of(&error), Some(Cut::Slow), "{error}");
    assert!(error.to_string().contains("sends too slowly after"), "{error}");
    let kept = fs::read(dir.join("a.part")).unwrap();
    assert!(!kept.is_empty() && kept == sample()[..kept.len()], "{} bytes", kept.len());
}

#[test]
fn a_list_of_files_that_stalls_or_drips_ends() {
    let begun = Instant::now();
    let stalling = Server::raw(|_, _, stream| {
        stream.write_all(&response("200 OK", &[length(1000)], b"{")).unwrap();
        silence(stream);
    });
    let dripping = Server::raw(|_, _, stream| {
        let _ = stream.write_all(&response("200 OK", &[length(1_000_000)], b""));
        while stream.write_all(b" ").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    for server in [stalling, dripping] {
        let dir = TempDir::new();
        let hub = Hub::new(dir.path(), &server.base).with_client(Client::new(PATIENCE));
        let error = hub.fetch("org/name", Sources::All, &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(begun.elapsed() < BOUND);
    }
}

#[test]
fn a_host_that_accepts_and_says_nothing_ends() {
    let server = Server::raw(|_, _, stream| silence(stream));
    let dir = TempDir::new();
    let error = download(&server, &dir.join("a")).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[test]
fn headers_without_end_end() {
    let huge = |_: &str, _| response("200 OK", &[("X-Filler", "x".repeat(1 << 20)), length(1)], b"x");
    let endless = Server::raw(|_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        let mut number = 0;
        while stream.write_all(format!("X-{number}: {}\r\n", "x".repeat(1000)).as_bytes()).is_ok() {
            number += 1;
        }
    });
    let dripping = Server::raw(|_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX-Filler: ");
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    for server in [Server::start(huge), endless, dripping] {
        let dir = TempDir::new();
        let error = download(&server, &dir.join("a")).unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(error.to_string().lines().count() == 1, "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn redirects_without_end_end() {
    // Each leads to another, so that no circle could be found.
    let server = Server::start(|path, _| {
        let next = format!("{path}x");
        response("307 Temporary Redirect", &[length(0), ("Location", next)], b"")
    });
    let dir = TempDir::new();
    let error = download(&server, &dir.join("a")).unwrap_err();
    assert!(matches!(error, Error::Redirects { .. }), "{error}");
    assert!(server.requests().len() < 20);
}

#[test]
fn lengths_beyond_all_bounds_are_refused() {
    for (length, too_large) in
        [("9223372036854775808", true), ("18446744073709551615", true), ("18446744073709551616", false)]
    {
        let server = Server::start(move |_, _| response("200 OK", &[("Content-Length", length.into())], b"x"));
        let dir = TempDir::new();
        let error = download(&server, &dir.join("a")).unwrap_err();
        assert_eq!(matches!(error, Error::TooLarge { .. }), too_large, "{length}: {error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{length}");
    }
    // As much in a range.
    let server = Server::start(|_, _| {
        let range = "bytes 5-9223372036854775807/9223372036854775808".to_owned();
        response("206 Partial Content", &[("Content-Range", range)], b"xyz")
    });
    let dir = TempDir::new();
    dir.write("a.part", b"12345");
    assert!(matches!(download(&server, &dir.join("a")).unwrap_err(), Error::TooLarge { .. }));
}

#[test]
fn more_bytes_than_announced_are_not_taken() {
    // After the announced length, on the same connection.
    let longer = Server::start(|_, start| [ranged(&sample(), start), vec![7; 50_000]].concat());
    let dir = TempDir::new();
    download(&longer, &dir.join("a")).unwrap();
    assert_eq!(fs::read(dir.join("a")).unwrap(), sample());
    // In a range that announces less than its chunks have: all begins anew, and the second time it is right.
    let asked = AtomicUsize::new(0);
    let chunked = Server::start(move |_, start| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => {
            let range = ("Content-Range", "bytes 100000-100009/300000".to_owned());
            let chunks = ("Transfer-Encoding", "chunked".to_owned());
            response("206 Partial Content", &[range, chunks], b"14\r\nxxxxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n")
        }
        _ => ranged(&sample(), start),
    });
    let dir = TempDir::new();
    dir.write("a.part", &sample()[..100_000]);
    download(&chunked, &dir.join("a")).unwrap();
    assert_eq!(fs::read(dir.join("a")).unwrap(), sample());
    assert_eq!(chunked.requests(), ["/file 100000-", "/file -"]);
}

#[test]
fn ranges_that_were_not_asked_for_are_not_taken() {
    for wrong in
        ["bytes 0-199999/300000", "bytes 99999-299999/300000", "bytes 299999-100000/300000", "bytes */*", "none"]
    {
        let server = Server::start(move |_, start| match start {
            None => ranged(&sample(), None),
            Some(_) => response("206 Partial Content", &[length(3), ("Content-Range", wrong.into())], b"bad"),
        });
        let dir = TempDir::new();
        dir.write("a.part", &sample()[..100_000]);
        download(&server, &dir.join("a")).unwrap_or_else(|e| panic!("{wrong}: {e}"));
        assert_eq!(fs::read(dir.join("a")).unwrap(), sample(), "{wrong}");
    }
    // Nothing but wrong ranges, to whatever is asked.
    let server = Server::start(|_, _| {
        response("206 Partial Content", &[length(3), ("Content-Range", "bytes 7-9/10".into())], b"bad")
    });
    let dir = TempDir::new();
    let error = download(&server, &dir.join("a")).unwrap_err();
    assert_eq!(cut_of(&error), Some(Cut::WrongRange), "{error}");
    assert_eq!(server.requests().len(), ATTEMPTS);
}

#[test]
fn answers_that_are_no_file_do_not_become_one() {
    for status in ["204 No Content", "205 Reset Content", "304 Not Modified", "302 Found", "500 Oops"] {
        let server = Server::start(move |_, _| response(status, &[], b""));
        let dir = TempDir::new();
        let error = download(&server, &dir.join("a")).unwrap_err();
        assert!(matches!(error, Error::Status { .. }), "{status}: {error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{status}");
    }
}

#[test]
fn names_in_a_list_do_not_leave_the_cache() {
    let server = Server::start(|path, start| {
        if path.starts_with("/api/") {
            let names =
                ["config.json", "model.safetensors", "../model.safetensors", "/tmp/x.safetensors", "a/../../b.gguf"];
            let siblings: Vec<String> = names.iter().map(|name| format!(r#"{{"rfilename":"{name}"}}"#)).collect();
            let json = format!(r#"{{"sha":"../../x","siblings":[{}]}}"#, siblings.join(","));
            return response("200 OK", &[length(json.len())], json.as_bytes());
        }
        ranged(path.as_bytes(), start)
    });
    let dir = TempDir::new();
    let hub = Hub::new(&dir.join("cache"), &server.base);
    let fetched = hub.fetch("org/name", Sources::All, &mut |_, _| {}).unwrap();
    assert_eq!(fetched.path, dir.join("cache/models/hub/org/name"));
    assert_eq!(fs::read_dir(&fetched.path).unwrap().count(), 2);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    // The configuration, which a directory is known by, comes last; a commit that is no name is not used.
    let asked = ["/api/models/org/name/revision/main -", "/org/name/resolve/main/model.safetensors -"];
    assert_eq!(server.requests()[..2], asked);
}
