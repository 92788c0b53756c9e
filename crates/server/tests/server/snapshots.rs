//! What models remember while others have their memory.

use crate::socket::{get, named, post, serve};
use akunu_server::{Entry, Source};
use akunu_testkit::TempDir;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

const OPENING: &str = "Once upon a time there was a little girl. She lived near a big forest with her mother, her father, a \
                       small dog and a very old cat. Every morning she went out to look for berries.";

/// Bytes that `/metrics` tells of, by what they are used for.
fn memory(address: SocketAddr, used: &str) -> u64 {
    let text = get(address, "/metrics").body;
    let of_use = |line: &&str| line.starts_with(&format!("akunu_memory_bytes{{use=\"{used}"));
    text.lines().filter(of_use).map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// The answer to messages, and how much of them was cached.
fn answer(address: SocketAddr, model: &str, messages: &Value) -> (String, u64) {
    let body = json!({ "model": model, "messages": messages, "max_tokens": 30, "temperature": 0 });
    let answer = post(address, "/v1/chat/completions", &body).ok();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    (text, answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap())
}

/// Two turns with `a`; what goes on `between` them. The second answer, and how much of its prompt was cached.
fn two_turns(address: SocketAddr, between: impl FnOnce()) -> (String, u64) {
    let first = answer(address, "a", &json!([{ "role": "user", "content": OPENING }])).0;
    between();
    let messages = json!([
        { "role": "user", "content": OPENING },
        { "role": "assistant", "content": first },
        { "role": "user", "content": "One day" },
    ]);
    answer(address, "a", &messages)
}

fn ask_b(address: SocketAddr) {
    answer(address, "b", &json!([{ "role": "user", "content": "The dog was" }]));
}

/// The model inside the binary has no template of its own.
fn speaking(name: &str) -> Entry {
    let mut entry = named(name);
    entry.template = Entry::embedded().template;
    entry
}

fn pair() -> Vec<Entry> {
    vec![speaking("a"), speaking("b")]
}

/// What one of them needs, and the second turn as it is where both stay.
fn undisturbed() -> (u64, (String, u64)) {
    let address = serve(pair(), |_| {});
    let turns = two_turns(address, || {});
    assert!(turns.1 > 40, "{turns:?}");
    (memory(address, ""), turns)
}

#[test]
fn a_conversation_goes_on_where_it_was_when_its_model_comes_back() {
    let (needs, stayed) = undisturbed();
    let budget = needs * 3 / 2;
    let address = serve(pair(), |options| options.memory = Some(budget));
    let away = two_turns(address, || {
        ask_b(address);
        assert!(memory(address, "snapshot\",model=\"a\"") > 10_000);
        assert!(memory(address, "") <= budget);
    });
    assert_eq!(away, stayed);
    // It is back, and the other one is away.
    assert_eq!(memory(address, "snapshot\",model=\"a\""), 0);
    assert!(memory(address, "snapshot\",model=\"b\"") > 0);
    assert!(memory(address, "") <= budget);
}

#[test]
fn snapshots_go_before_a_load_is_refused() {
    let (needs, stayed) = undisturbed();
    // No room for anything besides a model.
    let address = serve(pair(), |options| options.memory = Some(needs + 1000));
    let (text, cached) = two_turns(address, || ask_b(address));
    assert_eq!((memory(address, "snapshot"), cached), (0, 0));
    assert!(!text.is_empty() && !stayed.0.is_empty());
    // Room for one snapshot and a half: the older one goes.
    let opening = json!([{ "role": "user", "content": OPENING }]);
    let address = serve(pair(), |options| options.memory = Some(needs * 3 / 2));
    answer(address, "a", &opening);
    answer(address, "b", &opening);
    let one = memory(address, "snapshot");
    let three = vec![speaking("a"), speaking("b"), speaking("c")];
    let address = serve(three, |options| options.memory = Some(needs + one * 3 / 2));
    for model in ["a", "b", "c"] {
        answer(address, model, &opening);
    }
    assert_eq!(memory(address, "snapshot\",model=\"a\""), 0);
    assert_eq!(memory(address, "snapshot\",model=\"b\""), one);
}

#[test]
fn a_file_that_changed_meanwhile_begins_anew() {
    let folder = TempDir::new();
    let path = folder.join("tales.gguf");
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/stories-llama-Q4_0.gguf");
    std::fs::copy(fixture, &path).unwrap();
    let ask = |address, model: &str| {
        let body = json!({ "model": model, "prompt": OPENING, "max_tokens": 2, "temperature": 0 });
        post(address, "/v1/completions", &body).ok()["usage"]["prompt_tokens_details"]["cached_tokens"]
            .as_u64()
            .unwrap()
    };
    for changed in [false, true] {
        let entries = vec![Entry::new("a", Source::Path(path.clone())), named("b")];
        let address = serve(entries, |options| options.memory = Some(90_000_000));
        assert_eq!(ask(address, "a"), 0);
        ask(address, "b");
        if changed {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
        }
        assert_eq!(ask(address, "a") > 0, !changed);
    }
}
