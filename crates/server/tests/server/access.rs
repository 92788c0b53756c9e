//! Who may ask, how much, and what happens to those who ask badly.

use crate::socket::{self, get, post, serve, stories};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What comes back for these bytes.
fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn asked(address: SocketAddr, headers: &str) -> String {
    raw(address, format!("GET /v1/models HTTP/1.1\r\nconnection: close\r\n{headers}\r\n").as_bytes())
}

#[track_caller]
fn is_status(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
}

#[test]
fn dns_rebinding_finds_no_server() {
    let address = serve(vec![stories()], |options| options.hosts = vec!["models.example".into()]);
    for host in ["127.0.0.1:1", "localhost:8080", "[::1]", "models.example", "MODELS.example:80"] {
        is_status(&asked(address, &format!("host: {host}\r\n")), 200);
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
        is_status(&asked(address, &format!("host: {host}\r\n")), 403);
    }
}

#[test]
fn pages_of_others_may_not_ask_and_those_allowed_may() {
    let address = serve(vec![stories()], |options| options.origins = vec!["https://chat.example".into()]);
    let from = |origin: &str| asked(address, &format!("host: 127.0.0.1:9\r\norigin: {origin}\r\n"));
    is_status(&from("https://evil.example"), 403);
    is_status(&from("null"), 403);
    assert!(!from("https://evil.example").contains("access-control-allow-origin"));
    // The page itself.
    is_status(&from("http://127.0.0.1:9"), 200);
    let allowed = from("https://chat.example");
    is_status(&allowed, 200);
    assert!(allowed.contains("access-control-allow-origin: https://chat.example"), "{allowed}");
    let first = "OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\norigin: https://chat.example\r\nconnection: close\r\n\r\n";
    is_status(&raw(address, first.as_bytes()), 200);
}

#[test]
fn keys_open_everything_but_what_says_nothing() {
    let address = serve(vec![stories()], |options| options.keys = vec!["one".into(), "two".into()]);
    let host = "host: localhost\r\n";
    is_status(&asked(address, host), 401);
    is_status(&asked(address, &format!("{host}authorization: Bearer three\r\n")), 401);
    is_status(&asked(address, &format!("{host}authorization: Bearer two\r\n")), 200);
    is_status(&asked(address, &format!("{host}x-api-key: one\r\n")), 200);
    assert_eq!((get(address, "/health").status, get(address, "/").status), (200, 200));
    assert_eq!((get(address, "/metrics").status, get(address, "/v1/models").status), (401, 401));
}

#[test]
fn who_asks_too_often_is_told_when_to_come_again() {
    let address = serve(vec![stories()], |options| options.limits.rate = Some(3));
    for _ in 0..3 {
        assert_eq!(get(address, "/v1/models").status, 200);
    }
    let refused = get(address, "/v1/models");
    assert_eq!(refused.status, 429);
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    // Whoever watches the server still sees it.
    assert_eq!(get(address, "/health").status, 200);
}

#[test]
fn a_full_queue_is_429_and_empties_again() {
    let address = serve(vec![stories()], |options| options.limits.queue = 2);
    let long = json!({ "prompt": "Once", "max_tokens": 400, "ignore_eos": true, "stream": true });
    let body = long.to_string();
    let head =
        format!("POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let busy: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            let mut first = [0; 12];
            stream.read_exact(&mut first).unwrap();
            stream
        })
        .collect();
    let short = json!({ "prompt": "Once", "max_tokens": 1 });
    let refused = post(address, "/v1/completions", &short);
    // They may have finished already, on a fast machine.
    if refused.status != 200 {
        assert_eq!(refused.status, 429, "{}", refused.body);
        assert_eq!(refused.json()["error"]["code"], "queue_full");
    }
    // Whoever goes away makes room within a step.
    drop(busy);
    let until = Instant::now() + Duration::from_secs(10);
    while post(address, "/v1/completions", &short).status != 200 {
        assert!(Instant::now() < until, "the queue stays full");
    }
}

#[test]
fn bodies_that_are_no_requests_get_a_sentence_and_the_server_goes_on() {
    let address = serve(vec![stories()], |options| options.limits.body = 100_000);
    let post = |body: &[u8]| socket::send(address, "POST", "/v1/completions", "application/json", body);
    let deep = [b"{\"prompt\":".as_slice(), &b"[".repeat(40_000)].concat();
    let bodies: [(&[u8], u16); 9] = [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
        (&deep, 400),
        (br#"{"prompt":{}}"#, 400),
        (br#"{"prompt":"a","temperature":1e400}"#, 400),
        (br#"{"prompt":"a","n":-1}"#, 400),
        (&[b' '; 100_001], 413),
    ];
    for (body, status) in bodies {
        let answer = post(body);
        assert_eq!(answer.status, status, "{}", answer.body);
        let error = &answer.json()["error"];
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty() && message.len() < 600, "{message}");
    }
    // A body that is nobody's is read, so that the answer arrives.
    let nobody = socket::send(address, "POST", "/nowhere", "application/json", &vec![b'x'; 900_000]);
    assert_eq!(nobody.status, 404);
    assert_eq!(get(address, "/health").status, 200);
}

#[test]
fn all_bodies_together_have_their_bound() {
    let address = serve(vec![stories()], |options| options.limits.bodies = 100_000);
    let in_flight = || {
        let metrics = get(address, "/metrics").body;
        let line = metrics.lines().find_map(|line| line.strip_prefix("akunu_request_body_bytes "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let wait_for = |most: std::ops::Range<usize>| {
        let until = Instant::now() + Duration::from_secs(10);
        while !most.contains(&in_flight()) {
            assert!(Instant::now() < until, "{} bytes, not {most:?}", in_flight());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // Who announces much and sends little holds little; who sends much holds that.
    let head = |length: usize| {
        format!(
            "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let mut announced = TcpStream::connect(address).unwrap();
    write!(announced, "{}{{", head(90_000)).unwrap();
    let mut slow = TcpStream::connect(address).unwrap();
    let body = json!({ "prompt": "Once", "max_tokens": 1, "user": "x".repeat(60_000) }).to_string();
    write!(slow, "{}{}", head(body.len()), &body[..body.len() - 1]).unwrap();
    wait_for(60_000..65_000);
    let refused = socket::send(address, "POST", "/v1/messages", "application/json", &vec![b' '; 60_000]);
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.head.contains("retry-after: 1") && refused.json()["type"] == "error", "{refused:?}");
    // What was refused holds nothing; small ones still have room, and the slow one is answered.
    wait_for(60_000..65_000);
    assert_eq!(post(address, "/v1/completions", &json!({ "prompt": "Once", "max_tokens": 1 })).status, 200);
    slow.write_all(&body.as_bytes()[body.len() - 1..]).unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    is_status(&answer, 200);
    drop(announced);
    wait_for(0..1);
    // More than all together may be.
    let large = socket::send(address, "POST", "/v1/completions", "application/json", &vec![b' '; 100_001]);
    assert_eq!(large.status, 413, "{}", large.body);
}

#[test]
fn slow_and_broken_connections_are_let_go() {
    let address = serve(vec![stories()], |options| {
        options.limits.head = Duration::from_millis(300);
        options.limits.body_time = Duration::from_millis(300);
    });
    let began = Instant::now();
    // A head that never ends; a body that never comes; bytes that are no HTTP; a head too large.
    raw(address, b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ");
    let late = raw(address, b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{");
    is_status(&late, 504);
    is_status(&raw(address, b"\x16\x03\x01\x00\xff\x01 nonsense\r\n\r\n"), 400);
    let large = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    is_status(&raw(address, large.as_bytes()), 431);
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!(get(address, "/health").status, 200);
}

#[test]
fn connections_beyond_the_limit_are_closed_and_come_back_when_there_is_room() {
    let address = serve(vec![stories()], |options| options.limits.connections = 4);
    let held: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(raw(address, b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"), "");
    drop(held);
    let until = Instant::now() + Duration::from_secs(10);
    while raw(address, b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").is_empty() {
        assert!(Instant::now() < until, "no room came back");
    }
}

#[test]
fn every_answer_has_the_id_of_its_request() {
    let address = serve(vec![stories()], |_| {});
    let given = asked(address, "host: localhost\r\nx-request-id: mine-17\r\n");
    assert!(given.contains("x-request-id: mine-17"), "{given}");
    assert!(get(address, "/nowhere").head.contains("x-request-id: "));
}
