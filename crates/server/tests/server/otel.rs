//! Traces, as a collector on a socket gets them.

use crate::socket::{post, send, serve, stories};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A collector; the spans that it gets.
fn collector() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, spans) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut head, mut line) = (String::new(), String::new());
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).unwrap();
                head += &line.to_ascii_lowercase();
            }
            assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
            assert!(head.contains("content-type: application/json\r\n"), "{head}");
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let resource = &body["resourceSpans"][0];
            assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "akunu");
            for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
                sender.send(span.clone()).unwrap();
            }
        }
    });
    (format!("http://{address}"), spans)
}

fn traced(endpoint: &str) -> SocketAddr {
    serve(vec![stories()], |options| options.otel = Some(endpoint.to_owned()))
}

/// A completion as part of a trace.
fn complete(address: SocketAddr, traceparent: &str, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntraceparent: {traceparent}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The next spans; panics where none come.
fn next(spans: &Receiver<Value>, count: usize) -> Vec<Value> {
    (0..count).map(|_| spans.recv_timeout(Duration::from_secs(20)).unwrap()).collect()
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a str {
    let all = span["attributes"].as_array().unwrap();
    let value = all.iter().find(|a| a["key"] == name).map(|a| &a["value"]);
    let value = value.unwrap_or_else(|| panic!("no {name} in {span}"));
    value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap()
}

fn times(span: &Value) -> (u128, u128) {
    let time = |name: &str| span[name].as_str().unwrap().parse().unwrap();
    (time("startTimeUnixNano"), time("endTimeUnixNano"))
}

#[test]
fn a_request_becomes_a_span_with_its_queue_prefill_and_decode() {
    let (endpoint, spans) = collector();
    let address = traced(&endpoint);
    for stream in [false, true] {
        let body = json!({ "prompt": "Once upon a time", "max_tokens": 5, "ignore_eos": true, "stream": stream });
        assert!(complete(address, &format!("00-{TRACE}-00f067aa0ba902b7-01"), &body).starts_with("HTTP/1.1 200"));
        let [request, queue, prefill, decode] = next(&spans, 4).try_into().unwrap();
        assert_eq!(request["name"], "POST /v1/completions");
        assert_eq!((&request["traceId"], &request["parentSpanId"]), (&json!(TRACE), &json!("00f067aa0ba902b7")));
        assert_eq!((&request["kind"], &request["status"]["code"]), (&json!(2), &json!(0)));
        assert_eq!(attribute(&request, "http.response.status_code"), "200");
        assert_eq!(attribute(&request, "gen_ai.request.model"), "stories");
        assert_eq!(
            (attribute(&request, "http.route"), attribute(&request, "url.path")),
            ("/v1/completions", "/v1/completions")
        );
        let (begun, ended) = times(&request);
        let mut at = begun;
        for (span, name) in [(&queue, "queue"), (&prefill, "prefill"), (&decode, "decode")] {
            assert_eq!((&span["name"], &span["kind"]), (&json!(name), &json!(1)));
            assert_eq!((&span["traceId"], &span["parentSpanId"]), (&request["traceId"], &request["spanId"]));
            // One after the other, inside of the request; clocks of two kinds were read for it.
            let (from, to) = times(span);
            assert!(from + 5_000_000 >= at && to >= from && to <= ended + 5_000_000, "{span} in {request}");
            at = to;
        }
        let cached = if stream { "3" } else { "0" };
        assert_eq!(
            (attribute(&prefill, "gen_ai.usage.input_tokens"), attribute(&prefill, "akunu.cached_tokens")),
            ("4", cached)
        );
        assert_eq!(attribute(&decode, "gen_ai.usage.output_tokens"), "5");
        // Nothing of what was said.
        assert!(!request.to_string().contains("upon"));
    }
}

#[test]
fn who_is_not_sampled_is_not_recorded_and_who_is_no_part_of_a_trace_begins_one() {
    let (endpoint, spans) = collector();
    let address = traced(&endpoint);
    let body = json!({ "prompt": "Once", "max_tokens": 1 });
    complete(address, &format!("00-{TRACE}-00f067aa0ba902b7-00"), &body);
    // What is wrong with a request shows in its span; paths that are nobody's name none.
    assert_eq!(post(address, "/v1/completions", &json!({ "prompt": -1 })).status, 400);
    assert_eq!(send(address, "GET", "/nowhere", "", b"").status, 404);
    let [first, second] = next(&spans, 2).try_into().unwrap();
    assert_ne!(first["traceId"], TRACE);
    assert_ne!(first["traceId"], second["traceId"]);
    assert_eq!((first["traceId"].as_str().unwrap().len(), first["spanId"].as_str().unwrap().len()), (32, 16));
    assert_eq!((attribute(&first, "http.response.status_code"), &first["parentSpanId"]), ("400", &json!("")));
    assert_eq!((attribute(&second, "http.response.status_code"), &second["name"]), ("404", &json!("GET")));
    assert!(spans.recv_timeout(Duration::from_millis(1500)).is_err());
}

#[test]
fn a_collector_that_is_away_holds_nobody_up() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = traced(&format!("http://{nobody}"));
    for _ in 0..3 {
        assert_eq!(post(address, "/v1/completions", &json!({ "prompt": "Once", "max_tokens": 1 })).status, 200);
    }
}
