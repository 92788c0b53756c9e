//! Several models: found, loaded, let go, and what is said of them.

use crate::socket::{get, named, post, serve};
use akunu_server::{Catalog, Entry};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

fn told(address: std::net::SocketAddr, model: &str) -> Value {
    post(address, "/v1/completions", &json!({ "model": model, "prompt": "Once upon a time", "max_tokens": 2 })).ok()
}

fn loaded(address: std::net::SocketAddr) -> Vec<String> {
    let models = get(address, "/v1/models").ok();
    let loaded = |m: &&Value| m["akunu"]["loaded"] == true;
    models["data"].as_array().unwrap().iter().filter(loaded).map(|m| m["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn models_are_loaded_when_asked_for_and_go_when_others_need_their_memory() {
    // Room for one and a half.
    let address = serve(vec![named("a"), named("b")], |options| {
        options.load.memory = None;
        options.memory = Some(90_000_000);
    });
    assert!(loaded(address).is_empty());
    assert_eq!(told(address, "a")["model"], "a");
    assert_eq!(loaded(address), ["a"]);
    assert_eq!(told(address, "b")["model"], "b");
    assert_eq!(loaded(address), ["b"]);
    assert_eq!(told(address, "a:latest")["model"], "a");
    assert_eq!(loaded(address), ["a"]);
}

#[test]
fn a_model_that_answers_is_not_let_go() {
    let address = serve(vec![named("a"), named("b")], |options| options.memory = Some(90_000_000));
    let body =
        json!({ "model": "a", "prompt": "Once", "max_tokens": 450, "ignore_eos": true, "stream": true }).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut first = [0; 64];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(told(address, "b")["model"], "b");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("[DONE]") && rest.contains("\"finish_reason\":\"length\""), "{rest}");
}

#[test]
fn a_model_larger_than_all_may_be_is_refused() {
    let address = serve(vec![named("a")], |options| options.memory = Some(1_000_000));
    let answer = post(address, "/v1/completions", &json!({ "prompt": "Once" }));
    assert_eq!(answer.status, 503, "{}", answer.body);
}

#[test]
fn one_model_answers_to_any_name_and_several_to_their_own() {
    let one = serve(vec![named("a")], |_| {});
    assert_eq!(told(one, "gpt-4o")["model"], "a");
    let several = serve(vec![named("a"), named("b")], |_| {});
    let request = json!({ "model": "../../etc/passwd", "prompt": "Once" });
    let (status, sentence, field) = post(several, "/v1/completions", &request).fault();
    assert_eq!((status, field.as_str()), (404, "model"));
    assert!(sentence.contains("a, b"), "{sentence}");
    assert_eq!(get(several, "/v1/models/..%2f..%2fetc").status, 404);
}

#[test]
fn a_model_without_a_chat_template_is_for_completions() {
    let address = serve(vec![named("a"), Entry::embedded()], |_| {});
    let models = get(address, "/v1/models").ok();
    let kinds: Vec<&Value> = models["data"].as_array().unwrap().iter().map(|m| &m["akunu"]["kind"]).collect();
    assert_eq!(kinds, ["completion", "chat"]);
}

#[test]
fn a_folder_of_models_and_their_aliases() {
    let folder = std::env::temp_dir().join(format!("akunu-models-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("none")).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/stories-llama-Q4_0.gguf");
    std::fs::copy(path, folder.join("tales.gguf")).unwrap();
    std::fs::write(folder.join("notes.txt"), "no model").unwrap();
    let mut catalog = Catalog::default();
    catalog.add_folder(&folder).unwrap();
    assert!(catalog.add_alias("teller", "tales") && !catalog.add_alias("x", "nobody"));
    let names: Vec<&str> = catalog.entries().iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["tales"]);
    std::fs::remove_dir_all(&folder).unwrap();
}
