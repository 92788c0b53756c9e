//! Anthropic's API over a socket: what its SDKs read, event by event and field by field.

use crate::socket::{self, Answer, post, serve};
use akunu_server::Entry;
use serde_json::{Value, json};
use std::net::SocketAddr;

const PATH: &str = "/v1/messages";

/// A template that marks who speaks and where a turn ends.
const MARKED: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}\
                      {% if add_generation_prompt %}[assistant]{% endif %}";

fn marked() -> Entry {
    let mut entry = Entry::embedded();
    entry.template = Some(MARKED.into());
    entry
}

fn request(text: &str) -> Value {
    let messages = json!([{ "role": "user", "content": text }]);
    json!({ "model": "claude", "max_tokens": 24, "temperature": 0, "messages": messages })
}

fn with(mut request: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

/// Names and data, which say the same type.
#[track_caller]
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let frames = answer.body.split("\n\n").filter(|frame| !frame.is_empty());
    let one = |frame: &str| {
        let (name, data) = frame.split_once('\n').unwrap_or_else(|| panic!("{frame:?} has no data"));
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: ").unwrap(), data["type"]);
        data
    };
    frames.map(one).collect()
}

/// The types of events, in a row of the same only one.
fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    types.dedup();
    types
}

fn total(usage: &Value) -> u64 {
    let field = |name: &str| usage[name].as_u64().unwrap();
    field("input_tokens") + field("cache_read_input_tokens") + field("cache_creation_input_tokens")
}

fn count(address: SocketAddr, request: &Value) -> u64 {
    post(address, "/v1/messages/count_tokens", request).ok()["input_tokens"].as_u64().unwrap()
}

#[test]
fn a_stream_has_the_events_of_the_published_order_and_the_text_of_the_whole_answer() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let ask = request("Once upon a time");
    let whole = post(address, PATH, &ask).ok();
    assert_eq!(
        (&whole["type"], &whole["role"], &whole["model"]),
        (&json!("message"), &json!("assistant"), &json!("stories"))
    );
    assert!(whole["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!((&whole["stop_reason"], &whole["stop_sequence"]), (&json!("max_tokens"), &Value::Null));
    assert_eq!(whole["usage"]["output_tokens"], 24);
    assert_eq!(total(&whole["usage"]), count(address, &ask));

    let events = events(&post(address, PATH, &with(ask, &json!({ "stream": true }))));
    let order = [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(types(&events), order);
    let start = &events[0]["message"];
    assert_eq!((&start["content"], &start["stop_reason"]), (&json!([]), &Value::Null));
    assert_eq!(total(&start["usage"]), total(&whole["usage"]));
    assert_eq!(events[2]["content_block"], json!({ "type": "text", "text": "" }));
    let deltas: Vec<&Value> = events.iter().filter(|e| e["type"] == "content_block_delta").collect();
    assert!(deltas.len() > 3 && deltas.iter().all(|e| e["index"] == 0 && e["delta"]["type"] == "text_delta"));
    let text: String = deltas.iter().map(|e| e["delta"]["text"].as_str().unwrap()).collect();
    assert_eq!(whole["content"], json!([{ "type": "text", "text": text }]));
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"], json!({ "stop_reason": "max_tokens", "stop_sequence": null }));
    assert_eq!((&end["usage"]["output_tokens"], total(&end["usage"])), (&json!(24), total(&whole["usage"])));
}

#[test]
fn a_stop_sequence_ends_the_answer_before_it_and_is_named() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let whole = post(address, PATH, &request("Once upon a time")).ok();
    let text = whole["content"][0]["text"].as_str().unwrap().to_owned();
    let word = text.split_whitespace().nth(4).unwrap();
    let ask = with(request("Once upon a time"), &json!({ "stop_sequences": ["no such words", word] }));
    let stopped = post(address, PATH, &ask).ok();
    assert_eq!((&stopped["stop_reason"], &stopped["stop_sequence"]), (&json!("stop_sequence"), &json!(word)));
    assert_eq!(stopped["content"][0]["text"], text[..text.find(word).unwrap()]);
}

#[test]
fn what_was_in_the_cache_is_counted_apart() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let ask = request(&"Lily and Tom went to the park. ".repeat(20));
    let [first, second] = [(); 2].map(|()| post(address, PATH, &ask).ok()["usage"].clone());
    assert_eq!(first["cache_read_input_tokens"], 0);
    assert!(second["cache_read_input_tokens"].as_u64().unwrap() > 0, "{second}");
    assert_eq!(total(&first), total(&second));
}

#[test]
fn system_and_turns_reach_the_template_and_a_turn_that_was_begun_is_gone_on_with() {
    let address = serve(vec![marked()], |_| {});
    let ask = json!({
        "max_tokens": 1,
        "system": [{ "type": "text", "text": "Be kind.", "cache_control": { "type": "ephemeral" } }],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "Hi." }, { "type": "text", "text": "Go on." }] },
            { "role": "assistant", "content": "Once upon" },
        ],
    });
    let prompt = "[system]Be kind.[end][user]Hi.\nGo on.[end][assistant]Once upon";
    let tokens = post(address, "/tokenize", &json!({ "content": prompt })).ok();
    assert_eq!(count(address, &ask), tokens["tokens"].as_array().unwrap().len() as u64);
    assert_eq!(total(&post(address, PATH, &ask).ok()["usage"]), count(address, &ask));
}

#[test]
fn a_schema_holds() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let schema = json!({
        "type": "object", "properties": { "kind": { "enum": ["cat", "dog"] } }, "required": ["kind"],
        "additionalProperties": false,
    });
    let format = json!({ "output_config": { "effort": "low", "format": { "type": "json_schema", "schema": schema } } });
    let message = post(address, PATH, &with(with(request("A pet:"), &format), &json!({ "max_tokens": 300 }))).ok();
    let pet: Value = serde_json::from_str(message["content"][0]["text"].as_str().unwrap()).unwrap();
    assert!(pet == json!({ "kind": "cat" }) || pet == json!({ "kind": "dog" }), "{pet}");
    assert_eq!(message["stop_reason"], "end_turn");
}

/// A tool that paints in one of two colors, and must be called once.
fn paint() -> Value {
    let schema = json!({
        "type": "object", "properties": { "color": { "enum": ["red", "blue"] } }, "required": ["color"],
        "additionalProperties": false,
    });
    json!({
        "max_tokens": 200,
        "tools": [{ "name": "paint", "description": "Paints.", "input_schema": schema, "strict": true }],
        "tool_choice": { "type": "any", "disable_parallel_tool_use": true },
    })
}

#[test]
fn a_call_is_a_block_whose_input_comes_in_pieces() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let ask = with(request("Paint the fence."), &paint());
    let whole = post(address, PATH, &ask).ok();
    let block = whole["content"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&block["type"], &block["name"], &whole["stop_reason"]),
        (&json!("tool_use"), &json!("paint"), &json!("tool_use"))
    );
    assert!(block["id"].as_str().unwrap().starts_with("toolu_"), "{block}");
    assert!(["red", "blue"].iter().any(|color| block["input"] == json!({ "color": color })), "{block}");

    let events = events(&post(address, PATH, &with(ask, &json!({ "stream": true }))));
    let at = events.iter().position(|e| e["content_block"]["type"] == "tool_use").unwrap();
    let (start, after) = (&events[at], &events[at + 1..]);
    assert_eq!((&start["content_block"]["name"], &start["content_block"]["input"]), (&json!("paint"), &json!({})));
    assert_eq!(types(after), ["content_block_delta", "content_block_stop", "message_delta", "message_stop"]);
    let pieces = after.iter().filter(|e| e["delta"]["type"] == "input_json_delta" && e["index"] == start["index"]);
    let input: String = pieces.map(|e| e["delta"]["partial_json"].as_str().unwrap()).collect();
    assert_eq!(serde_json::from_str::<Value>(&input).unwrap(), block["input"]);
    assert_eq!(after[after.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[test]
fn a_call_and_its_result_are_gone_on_from() {
    let address = serve(vec![marked()], |_| {});
    let messages = json!([
        { "role": "user", "content": "Paint." },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "toolu_1", "name": "paint", "input": { "color": "red" } }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "toolu_1", "content": "Done." }] },
    ]);
    let ask = with(with(request(""), &paint()), &json!({ "messages": messages, "tool_choice": { "type": "none" } }));
    let message = post(address, PATH, &ask).ok();
    assert!(message["content"].as_array().unwrap().iter().all(|block| block["type"] == "text"), "{message}");
    let prompt = "[user]Paint.[end][assistant][end][tool]Done.[end][assistant]";
    let tokens = post(address, "/tokenize", &json!({ "content": prompt })).ok();
    assert_eq!(total(&message["usage"]), tokens["tokens"].as_array().unwrap().len() as u64);
}

#[test]
fn thoughts_are_a_block_before_the_answer_and_end_with_their_budget() {
    let mut entry = Entry::embedded();
    let template = "{% for m in messages %}{{ m.content }}\n{% endfor %}\
                    {% if add_generation_prompt and enable_thinking %}<think>\n{% endif %}";
    entry.template = Some(template.into());
    let address = serve(vec![entry], |_| {});
    // A form, which holds after the thoughts, so that there is an answer.
    let form = json!({ "format": { "type": "json_schema", "schema": { "enum": ["cat", "dog"] } } });
    let fields = json!({ "max_tokens": 200, "stream": true, "output_config": form });
    let thinking = |thoughts: &Value| with(with(request("Why?"), &fields), &json!({ "thinking": thoughts }));
    let stream = |fields: &Value| events(&post(address, PATH, &thinking(fields)));
    let all = stream(&json!({ "type": "enabled", "budget_tokens": 8 }));
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let around = [&["message_start", "ping"][..], &block, &block, &["message_delta", "message_stop"]].concat();
    assert_eq!(types(&all), around);
    let kinds = |events: &[Value], name: &str, index: usize| -> Vec<String> {
        let of =
            events.iter().filter(|e| e["index"] == index).filter_map(|e| e[name]["type"].as_str().map(str::to_owned));
        let mut kinds: Vec<String> = of.collect();
        kinds.dedup();
        kinds
    };
    assert_eq!(kinds(&all, "content_block", 0), ["thinking"]);
    assert_eq!(kinds(&all, "delta", 0), ["thinking_delta", "signature_delta"]);
    assert_eq!(
        (kinds(&all, "content_block", 1), kinds(&all, "delta", 1)),
        (vec!["text".into()], vec!["text_delta".into()])
    );
    // They can be left out, and not be there at all.
    let omitted = stream(&json!({ "type": "enabled", "budget_tokens": 8, "display": "omitted" }));
    assert_eq!(kinds(&omitted, "delta", 0), ["signature_delta"]);
    assert_eq!(kinds(&stream(&json!({ "type": "disabled" })), "content_block", 0), ["text"]);
}

#[test]
fn faults_are_said_in_the_shape_of_this_api_and_name_their_field() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let said = |answer: Answer| {
        let body = answer.json();
        assert_eq!(body["type"], "error", "{body}");
        let text = |name: &str| body["error"][name].as_str().unwrap().to_owned();
        (answer.status, text("type"), text("message"))
    };
    let image = json!({ "messages": [{ "role": "user", "content": [{ "type": "image", "source": {} }] }] });
    let orphan = json!([{ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "toolu_1" }] }]);
    let rows = [
        (json!({ "best_of": 3 }), "best_of"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "messages": [{ "role": "user" }] }), "content"),
        (json!({ "messages": [{ "role": "robot", "content": "Hi" }] }), "messages[0].role"),
        (image, "messages[0].content[0]"),
        (json!({ "messages": orphan }), "messages[0].content[0].tool_use_id"),
        (json!({ "max_tokens": 0 }), "max_tokens"),
        (json!({ "thinking": { "type": "enabled" } }), "budget_tokens"),
        (json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search" }] }), "tools[0].type"),
        (json!({ "tool_choice": { "type": "any" } }), "tool_choice"),
    ];
    for (fields, name) in rows {
        let (status, kind, message) = said(post(address, PATH, &with(request("Hi"), &fields)));
        assert_eq!((status, kind.as_str()), (400, "invalid_request_error"), "{fields}: {message}");
        assert!(message.contains(name), "{fields}: {message}");
    }
    let (status, kind, _) = said(post(address, "/v1/messages/batches", &json!({})));
    assert_eq!((status, kind.as_str()), (404, "not_found_error"));
    let (status, kind, _) = said(socket::get(address, PATH));
    assert_eq!((status, kind.as_str()), (405, "invalid_request_error"));
    let (status, _, message) = said(post(address, PATH, &request(&"word ".repeat(5000))));
    assert!(status == 400 && message.contains("tokens"), "{message}");
}

#[test]
fn fields_of_other_engines_for_drawing_tokens_are_taken() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let said = |fields: Value| {
        let message = post(address, PATH, &with(request("Once upon a time"), &fields)).ok();
        message["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let seeded = |seed: u64| said(json!({ "temperature": 1.2, "seed": seed, "frequency_penalty": 0.5 }));
    assert_eq!(seeded(3), seeded(3));
    assert_ne!(seeded(3), seeded(4));
}

#[test]
fn a_choice_of_tools_is_kept() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let schema = json!({ "type": "object", "properties": { "n": { "enum": [1, 2] } }, "required": ["n"], "additionalProperties": false });
    let tools: Vec<Value> =
        ["paint", "count"].iter().map(|name| json!({ "name": name, "input_schema": schema, "strict": true })).collect();
    let called = |choice: Value| -> Vec<String> {
        let fields = json!({ "tools": tools, "tool_choice": choice, "max_tokens": 120 });
        let message = post(address, PATH, &with(request("Count."), &fields)).ok();
        let blocks = message["content"].as_array().unwrap().iter();
        blocks.filter(|b| b["type"] == "tool_use").map(|b| b["name"].as_str().unwrap().to_owned()).collect()
    };
    let alone = true;
    assert_eq!(called(json!({ "type": "tool", "name": "count", "disable_parallel_tool_use": alone })), ["count"]);
    assert_eq!(called(json!({ "type": "any", "disable_parallel_tool_use": alone })).len(), 1);
    assert!(!called(json!({ "type": "any" })).is_empty());
    assert_eq!(called(json!({ "type": "none" })), [""; 0]);
}

#[test]
fn models_are_listed_in_pages_and_faults_are_in_its_shape() {
    let named = |name: &str| Entry::new(name, akunu_server::Source::Embedded);
    let address = serve(vec![named("a"), named("b"), named("c")], |_| {});
    let get = |path: &str| socket::get_with(address, path, "anthropic-version: 2023-06-01");
    let page = |query: &str| {
        let page = get(&format!("/v1/models{query}")).ok();
        let ids: Vec<String> =
            page["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().into()).collect();
        assert_eq!(
            (page["first_id"].as_str(), page["last_id"].as_str()),
            (ids.first().map(|s| &**s), ids.last().map(|s| &**s))
        );
        (ids.concat(), page["has_more"] == true)
    };
    assert_eq!(page(""), ("abc".into(), false));
    assert_eq!(page("?limit=2"), ("ab".into(), true));
    assert_eq!(page("?limit=2&after_id=b"), ("c".into(), false));
    assert_eq!(page("?limit=1&before_id=c"), ("b".into(), true));
    assert_eq!(get("/v1/models/b").ok()["type"], "model");
    for (path, kind) in [("/v1/models/none", "not_found_error"), ("/v1/models?limit=0", "invalid_request_error")] {
        let answer = get(path);
        assert_eq!((&answer.json()["type"], &answer.json()["error"]["type"]), (&json!("error"), &json!(kind)));
        assert!(answer.head.contains("\nrequest-id: ") || answer.head.starts_with("request-id: "), "{}", answer.head);
    }
    // Clients of OpenAI's ask at the same address.
    assert_eq!(socket::get(address, "/v1/models").ok()["object"], "list");
    assert_eq!(socket::get(address, "/v1/models/none").json()["error"]["code"], "model_not_found");
}
