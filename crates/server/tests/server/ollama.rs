//! Ollama's API over a socket: lines, models and vectors as its clients read them.

use crate::socket::{Answer, get, post, serve};
use akunu_server::Entry;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

fn start() -> SocketAddr {
    serve(vec![Entry::embedded()], |_| {})
}

fn chat(fields: &Value) -> Value {
    let mut request = json!({
        "model": "stories:latest",
        "messages": [{ "role": "user", "content": "Once upon a time" }],
        "options": { "temperature": 0, "num_predict": 24, "num_ctx": 4096 },
    });
    for (name, value) in fields.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn with(mut request: Value, fields: &Value) -> Value {
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    request
}

#[track_caller]
fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.head.contains("application/x-ndjson"), "{}", answer.head);
    answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The texts of lines, of which only the last is done.
#[track_caller]
fn joined<'a>(lines: &'a [Value], text: impl Fn(&'a Value) -> &'a Value) -> String {
    let (last, others) = lines.split_last().unwrap();
    assert!(others.len() > 3 && others.iter().all(|line| line["done"] == false && line["model"] == "stories"));
    assert_eq!((&last["done"], text(last)), (&json!(true), &json!("")));
    others.iter().map(|line| text(line).as_str().unwrap()).collect()
}

/// What the last line counts.
#[track_caller]
fn check_counts(last: &Value) {
    assert_eq!((&last["done_reason"], &last["eval_count"]), (&json!("length"), &json!(24)), "{last}");
    let number = |name: &str| last[name].as_u64().unwrap_or_else(|| panic!("no {name} in {last}"));
    assert!(number("prompt_eval_count") > 0);
    let parts = number("load_duration") + number("prompt_eval_duration") + number("eval_duration");
    assert!(parts > 0 && parts <= number("total_duration"), "{last}");
}

#[test]
fn a_chat_is_streamed_in_lines_unless_it_is_asked_as_a_whole() {
    let address = start();
    let whole = post(address, "/api/chat", &chat(&json!({ "stream": false }))).ok();
    assert_eq!(whole["message"]["role"], "assistant");
    assert_eq!(whole["done"], true);
    check_counts(&whole);
    let streamed = lines(&post(address, "/api/chat", &chat(&json!({}))));
    assert_eq!(joined(&streamed, |line| &line["message"]["content"]), whole["message"]["content"]);
    check_counts(streamed.last().unwrap());
    let at = whole["created_at"].as_str().unwrap();
    assert!(at.len() == 30 && at.starts_with("20") && at.ends_with('Z'), "{at}");
}

#[test]
fn a_prompt_goes_through_the_template_unless_it_is_raw() {
    let template = "<{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}>";
    let mut entry = Entry::embedded();
    entry.template = Some(template.into());
    let address = serve(vec![entry], |_| {});
    let length = |content: &str, special: bool| {
        let tokens = post(address, "/tokenize", &json!({ "content": content, "add_special": special })).ok();
        tokens["tokens"].as_array().unwrap().len()
    };
    let ask = |fields: Value| {
        let mut request = json!({ "prompt": "Hello there", "stream": false, "options": { "num_predict": 2 } });
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        post(address, "/api/generate", &request).ok()
    };
    assert_eq!(ask(json!({}))["prompt_eval_count"], length("<user:Hello there;>", false));
    assert_eq!(ask(json!({ "system": "Hm" }))["prompt_eval_count"], length("<system:Hm;user:Hello there;>", false));
    let raw = ask(json!({ "raw": true }));
    assert_eq!(raw["prompt_eval_count"], length("Hello there", true));
    assert!(raw["response"].is_string() && raw["message"].is_null(), "{raw}");
    // Drawn texts may end at once.
    let streamed = json!({ "prompt": "Hello", "options": { "num_predict": 24, "temperature": 0 } });
    joined(&lines(&post(address, "/api/generate", &streamed)), |line| &line["response"]);
}

#[test]
fn a_format_holds_and_a_stop_ends() {
    let address = start();
    let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"],
        "additionalProperties": false });
    let whole = post(address, "/api/chat", &chat(&json!({ "stream": false, "format": schema }))).ok();
    let said: Value = serde_json::from_str(whole["message"]["content"].as_str().unwrap()).unwrap();
    assert!(said["ok"].is_boolean(), "{said}");
    let options = json!({ "temperature": 0, "num_predict": 24, "stop": [" "] });
    let stopped = post(address, "/api/chat", &chat(&json!({ "stream": false, "options": options }))).ok();
    assert_eq!(stopped["done_reason"], "stop");
    assert!(!stopped["message"]["content"].as_str().unwrap().contains(' '));
}

#[test]
fn tools_and_calls_that_were_made_are_taken() {
    let address = start();
    let parameters = json!({ "type": "object", "properties": { "color": { "enum": ["red"] } }, "required": ["color"],
        "additionalProperties": false });
    let tool = json!({ "type": "function", "function": { "name": "paint", "parameters": parameters, "strict": true } });
    let ran = json!([
        { "role": "user", "content": "Paint." },
        { "role": "assistant", "content": "", "tool_calls": [{ "function": { "name": "paint", "arguments": { "color": "red" } } }] },
        { "role": "tool", "tool_name": "paint", "content": "Done." },
    ]);
    let answer = post(address, "/api/chat", &chat(&json!({ "tools": [tool], "messages": ran, "stream": false })));
    assert_eq!(answer.ok()["done"], true);
    let fault = post(address, "/api/chat", &chat(&json!({ "tools": [{ "type": "function", "function": {} }] })));
    assert!(fault.status == 400 && fault.json()["error"].as_str().unwrap().contains("tools[0]"), "{}", fault.body);
}

#[test]
fn models_are_listed_shown_loaded_and_let_go() {
    let address = start();
    let names = |path: &str| {
        let models = get(address, path).ok()["models"].clone();
        models.as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("/api/tags"), ["stories:latest"]);
    assert_eq!(names("/api/ps"), [""; 0]);
    let loaded = post(address, "/api/generate", &json!({ "model": "stories" })).ok();
    assert_eq!((&loaded["done"], &loaded["done_reason"]), (&json!(true), &json!("load")));
    assert_eq!(names("/api/ps"), ["stories:latest"]);
    let gone = post(address, "/api/chat", &json!({ "model": "stories", "messages": [], "keep_alive": "0s" })).ok();
    assert_eq!(gone["done_reason"], "unload");
    assert_eq!(names("/api/ps"), [""; 0]);
    let shown = post(address, "/api/show", &json!({ "model": "stories:latest" })).ok();
    assert_eq!(shown["model_info"]["general.architecture"], "llama");
    assert!(shown["model_info"]["llama.context_length"].as_u64().unwrap() > 0, "{shown}");
    assert_eq!(shown["details"]["quantization_level"], "Q4_0");
    // What the file says is there, and that it has lists.
    assert!(shown["model_info"]["llama.attention.head_count"].is_u64(), "{shown}");
    assert_eq!(shown["model_info"].get("tokenizer.ggml.tokens"), Some(&Value::Null));
    assert!(["template", "modelfile", "parameters", "license"].iter().all(|name| shown[name].is_string()), "{shown}");
    assert!(shown["capabilities"].as_array().unwrap().contains(&json!("completion")));
    let missing = post(address, "/api/show", &json!({ "model": "other" }));
    assert_eq!((missing.status, missing.json()), (404, json!({ "error": "model 'other' not found" })));
    assert!(get(address, "/api/version").ok()["version"].is_string());
}

#[test]
fn texts_become_vectors_of_length_one() {
    let address = start();
    let ask = |fields: Value| post(address, "/api/embed", &fields);
    let two = ask(json!({ "model": "stories", "input": ["a dog", "a cat"] })).ok();
    let vectors: Vec<Vec<f64>> = serde_json::from_value(two["embeddings"].clone()).unwrap();
    for vector in &vectors {
        let length: f64 = vector.iter().map(|v| v * v).sum();
        assert!((length - 1.0).abs() < 1e-3, "{length}");
    }
    assert!(vectors.len() == 2 && vectors[0] != vectors[1]);
    assert_eq!(ask(json!({ "input": "a dog", "dimensions": 8 })).ok()["embeddings"][0].as_array().unwrap().len(), 8);
    let older = post(address, "/api/embeddings", &json!({ "model": "stories", "prompt": "a dog" })).ok();
    assert_eq!(older["embedding"], two["embeddings"][0]);
    let long = "word ".repeat(5000);
    assert_eq!(ask(json!({ "input": long })).status, 400);
    assert_eq!(ask(json!({ "input": long, "truncate": true })).status, 200);
}

#[test]
fn faults_are_one_sentence_that_names_the_field() {
    let address = start();
    let rows = [
        ("/api/chat", chat(&json!({ "template": "x" })), "template"),
        ("/api/chat", chat(&json!({ "options": { "num_beams": 4 } })), "num_beams"),
        ("/api/chat", chat(&json!({ "options": { "temperature": "hot" } })), "temperature"),
        ("/api/chat", chat(&json!({ "format": "yaml" })), "format"),
        ("/api/chat", chat(&json!({ "think": "hard" })), "think"),
        ("/api/chat", chat(&json!({ "messages": [{ "role": "user", "content": "", "images": ["aa"] }] })), "images"),
        ("/api/generate", json!({ "prompt": "x", "suffix": "y" }), "suffix"),
        ("/api/generate", json!({ "prompt": "x", "raw": true, "system": "y" }), "system"),
        ("/api/embed", json!({ "input": "x", "dimensions": 0 }), "dimensions"),
    ];
    for (path, request, name) in rows {
        let answer = post(address, path, &request);
        let body = answer.json();
        let fields: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!((answer.status, fields), (400, vec!["error"]), "{body}");
        assert!(body["error"].as_str().unwrap().contains(name), "{request}: {body}");
    }
    assert_eq!(post(address, "/api/pull", &json!({})).json()["error"], "there is nothing at /api/pull");
}

#[test]
fn who_goes_away_is_not_answered_any_further() {
    // One at a time, so that the others still wait when all go away.
    let address = serve(vec![Entry::embedded()], |options| options.scheduler.sequences = 1);
    let metric = |name: &str| -> u64 {
        let text = get(address, "/metrics").body;
        let line = text.lines().find(|line| line.starts_with(&format!("akunu_{name}{{"))).map(str::to_owned);
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    let request = chat(&json!({ "options": { "num_predict": 400 } })).to_string();
    let streams: Vec<TcpStream> = (0..16)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            let head = "POST /api/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
            write!(stream, "{head}content-length: {}\r\n\r\n{request}", request.len()).unwrap();
            stream
        })
        .collect();
    streams[0].try_clone().unwrap().read_exact(&mut [0; 16]).unwrap();
    drop(streams);
    let until = Instant::now() + Duration::from_secs(20);
    while metric("requests_cancelled_total") == 0 || metric("requests_running") + metric("requests_waiting") > 0 {
        assert!(Instant::now() < until, "nobody waits, and it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn log_probabilities_come_with_the_lines() {
    let address = start();
    let asked = json!({ "logprobs": true, "top_logprobs": 2 });
    let told = |value: &Value| -> Vec<Value> { value["logprobs"].as_array().cloned().unwrap_or_default() };
    let whole = post(address, "/api/chat", &with(chat(&asked), &json!({ "stream": false }))).ok();
    let text: String = told(&whole).iter().map(|t| t["token"].as_str().unwrap().to_owned()).collect();
    assert_eq!(text.trim(), whole["message"]["content"].as_str().unwrap().trim());
    for token in told(&whole) {
        let top = token["top_logprobs"].as_array().unwrap();
        assert_eq!((top.len(), &top[0]["logprob"]), (2, &token["logprob"]), "{token}");
        assert!(token["bytes"].is_array() && token.get("id").is_none(), "{token}");
    }
    let streamed = lines(&post(address, "/api/chat", &chat(&asked)));
    assert_eq!(streamed.iter().flat_map(told).collect::<Vec<_>>(), told(&whole));
    let generated = post(address, "/api/generate", &with(asked, &json!({ "prompt": "Hello", "stream": false }))).ok();
    assert_eq!(told(&generated).len(), generated["eval_count"].as_u64().unwrap() as usize);
    assert!(post(address, "/api/chat", &chat(&json!({ "stream": false }))).ok().get("logprobs").is_none());
    for wrong in [json!({ "top_logprobs": 2 }), json!({ "logprobs": true, "top_logprobs": 21 })] {
        let answer = post(address, "/api/chat", &chat(&wrong));
        assert!(
            answer.status == 400 && answer.json()["error"].as_str().unwrap().contains("top_logprobs"),
            "{}",
            answer.body
        );
    }
}

#[test]
fn a_model_stays_as_long_as_it_was_told_to() {
    let address = start();
    let loaded = || get(address, "/api/ps").ok()["models"].as_array().unwrap().clone();
    let ask = |keep: Value| {
        let request =
            json!({ "prompt": "Hello", "stream": false, "keep_alive": keep, "options": { "num_predict": 2 } });
        post(address, "/api/generate", &request)
    };
    ask(json!("1h")).ok();
    assert!(!loaded()[0]["expires_at"].as_str().unwrap().starts_with("9999"), "{:?}", loaded());
    ask(json!(-1)).ok();
    assert!(loaded()[0]["expires_at"].as_str().unwrap().starts_with("9999"), "{:?}", loaded());
    ask(json!("50ms")).ok();
    let until = Instant::now() + Duration::from_secs(20);
    while !loaded().is_empty() {
        assert!(Instant::now() < until, "it stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    let wrong = ask(json!("soon"));
    assert!(wrong.status == 400 && wrong.json()["error"].as_str().unwrap().contains("keep_alive"), "{}", wrong.body);
    let vectors = json!({ "input": "a dog", "keep_alive": 0 });
    post(address, "/api/embed", &vectors).ok();
    while !loaded().is_empty() {
        assert!(Instant::now() < until, "what made vectors stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}
