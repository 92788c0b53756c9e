//! Recordings over a socket: a small model that understands tones, and what it says of them in every format.
#![cfg(feature = "audio")]

use crate::socket::{self, Answer, send, serve};
use akunu_server::{Entry, Source};
use akunu_testkit::{TempDir, tones};
use serde_json::{Value, json};
use std::net::SocketAddr;

const PATH: &str = "/v1/audio/transcriptions";

/// A form as browsers send it.
fn form(address: SocketAddr, path: &str, fields: &[(&str, &str)], file: Option<&[u8]>) -> Answer {
    const BOUNDARY: &str = "--a boundary--";
    let mut body = Vec::new();
    for (name, value) in fields {
        let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend(head.into_bytes());
    }
    if let Some(file) = file {
        let named = "Content-Disposition: form-data; name=\"file\"; filename=\"../../etc/passwd\"";
        body.extend(format!("--{BOUNDARY}\r\n{named}\r\nContent-Type: audio/wav\r\n\r\n").into_bytes());
        body.extend(file);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{BOUNDARY}--\r\n").into_bytes());
    send(address, "POST", path, &format!("multipart/form-data; boundary=\"{BOUNDARY}\""), &body)
}

struct Tones {
    address: SocketAddr,
    german: Vec<u8>,
    _dir: TempDir,
}

fn tones() -> Tones {
    let dir = TempDir::new();
    let model = tones::model(&dir, akunu::DType::F32);
    let german = tones::wav(&tones::play(&tones::expected()["recordings"]["german"]));
    let address = serve(vec![Entry::new("tones", Source::Path(model)), socket::stories()], |options| {
        options.limits.upload = 2 << 20;
        options.load.limits.audio_seconds = 50;
    });
    Tones { address, german, _dir: dir }
}

pub const SAID: &str = "zwei zwei zwei. vier zwei drei. elf drei. zwei eins vier drei vier.";

#[test]
fn a_recording_is_written_down_in_every_format() {
    let tones = tones();
    let ask = |fields: &[(&str, &str)]| form(tones.address, PATH, fields, Some(&tones.german));
    let plain = ask(&[("model", "whisper-1")]).ok();
    assert_eq!(plain["text"], SAID);
    assert_eq!(plain["usage"]["type"], "duration");
    let text = ask(&[("response_format", "text")]);
    assert_eq!((text.status, text.body.trim()), (200, SAID));
    let srt = ask(&[("response_format", "srt")]).body;
    assert!(srt.starts_with("1\n00:00:") && srt.contains(" --> ") && srt.contains("zwei zwei zwei."), "{srt}");
    let vtt = ask(&[("response_format", "vtt"), ("language", "de"), ("temperature", "0.2")]).body;
    assert!(vtt.starts_with("WEBVTT\n\n00:00:"), "{vtt}");

    let verbose = ask(&[("response_format", "verbose_json")]).ok();
    assert_eq!((&verbose["task"], &verbose["language"]), (&json!("transcribe"), &json!("german")));
    let segments = verbose["segments"].as_array().unwrap();
    let joined: String = segments.iter().map(|s| s["text"].as_str().unwrap()).collect();
    assert_eq!(joined.trim(), SAID);
    assert!(verbose.get("words").is_none());
    let both = [("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")];
    for granularities in [&both[..1], &both[..]] {
        let fields: Vec<_> = [("response_format", "verbose_json")].iter().chain(granularities).copied().collect();
        let timed = ask(&fields).ok();
        assert_eq!(timed.get("segments").is_some(), granularities.len() == 2);
        let words: Vec<&Value> = timed["words"].as_array().unwrap().iter().collect();
        assert_eq!(words.len(), SAID.split(' ').count());
        assert!(words.windows(2).all(|w| w[0]["end"].as_f64() <= w[1]["end"].as_f64()), "{words:?}");
    }
}

#[test]
fn a_recording_is_heard_as_a_stream() {
    let tones = tones();
    let answer = form(tones.address, PATH, &[("stream", "true")], Some(&tones.german));
    let events = answer.events();
    let (last, deltas) = events.split_last().unwrap();
    assert!(deltas.len() > 1 && deltas.iter().all(|e| e["type"] == "transcript.text.delta"), "{events:?}");
    let text: String = deltas.iter().map(|e| e["delta"].as_str().unwrap()).collect();
    assert_eq!((last["type"].as_str(), last["text"].as_str()), (Some("transcript.text.done"), Some(SAID)));
    assert_eq!(text.trim(), SAID);
}

#[test]
fn a_translation_says_so() {
    let tones = tones();
    let path = "/v1/audio/translations";
    let translated = form(tones.address, path, &[("response_format", "verbose_json")], Some(&tones.german)).ok();
    assert_eq!(translated["task"], "translate");
}

#[test]
fn what_is_wrong_with_a_recording_is_said_in_a_sentence() {
    let tones = tones();
    let ask = |fields: &[(&str, &str)], file: Option<&[u8]>| form(tones.address, PATH, fields, file).fault();
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("speed", "2")], "speed"),
        (&[("response_format", "xml")], "response_format"),
        (&[("temperature", "1.5")], "temperature"),
        (&[("temperature", "warm")], "temperature"),
        (&[("model", "stories")], "model"),
        (&[("prompt", "a"), ("prompt", "b")], "prompt"),
        (&[("timestamp_granularities[]", "word")], "timestamp_granularities[]"),
        (&[("stream", "true"), ("response_format", "srt")], "stream"),
        (&[("include[]", "logprobs")], "include[]"),
    ];
    for (fields, field) in cases {
        let (status, message, at) = ask(fields, Some(&tones.german));
        assert_eq!((status, at.as_str()), (400, *field), "{fields:?}: {message}");
    }
    assert_eq!(ask(&[], None).2, "file");
    let (status, message, _) = ask(&[("language", "klingon")], Some(&tones.german));
    assert!(status == 400 && message.contains("klingon"), "{status} {message}");
    let junk: [&[u8]; 4] = [b"", b"RIFF", b"no recording at all, only words", &tones.german[..20]];
    for file in junk {
        for stream in ["false", "true"] {
            let (status, message, _) = ask(&[("stream", stream)], Some(file));
            assert!(status == 400 && !message.is_empty(), "{status} {message}");
        }
    }
    let minute = tones::wav(&vec![0; 60 * 16_000]);
    let (status, message, _) = ask(&[], Some(&minute));
    assert!(status == 400 && message.contains("50"), "{status} {message}");
    let (status, message, _) = ask(&[], Some(&vec![0; 3 << 20]));
    assert!(status == 413 && message.contains("2097152"), "{status} {message}");
    let other = socket::post(tones.address, PATH, &json!({ "file": "x" }));
    assert_eq!(other.fault().0, 400);
    // And it goes on.
    assert_eq!(form(tones.address, PATH, &[], Some(&tones.german)).ok()["text"], SAID);
}
