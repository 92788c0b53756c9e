//! `/v1/responses` over a socket, with the model inside the binary.

use crate::socket::{self, Answer, get, post, send, serve};
use serde_json::{Value, json};
use std::net::SocketAddr;

const PATH: &str = "/v1/responses";

fn server() -> SocketAddr {
    serve(vec![socket::stories()], |_| {})
}

fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn said(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().unwrap()
}

/// The events of a stream, checked for what holds of all: their numbers, and that they tell the same as the last one.
fn stream(address: SocketAddr, body: &Value) -> Vec<Value> {
    let events = post(address, PATH, &with(body.clone(), json!({ "stream": true }))).events();
    for (i, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], i, "{event}");
    }
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["response.created", "response.in_progress"]);
    let last = &events.last().unwrap()["response"];
    for (index, item) in last["output"].as_array().unwrap().iter().enumerate() {
        let of: Vec<&Value> = events.iter().filter(|e| e["output_index"] == index).collect();
        let (added, done) = (of.first().unwrap(), of.last().unwrap());
        assert_eq!(added["type"], "response.output_item.added");
        assert_eq!((&done["type"], &done["item"]), (&json!("response.output_item.done"), item));
        let deltas: String = of.iter().filter_map(|e| e["delta"].as_str()).collect();
        let text = ["arguments", "input"].iter().find_map(|name| item[*name].as_str());
        assert_eq!(deltas, text.or(item["content"][0]["text"].as_str()).unwrap());
    }
    events
}

/// A request whose answer is the same each time.
fn ask(input: &str, more: Value) -> Value {
    with(json!({ "input": input, "temperature": 0, "max_output_tokens": 12 }), more)
}

#[test]
fn a_response_has_what_clients_read() {
    let address = server();
    let body = ask("Once upon a time", json!({ "metadata": { "a": "b" }, "user": "me" }));
    let response = post(address, PATH, &body).ok();
    assert_eq!(response["object"], "response");
    assert_eq!(
        (&response["status"], &response["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    assert_eq!(response["output"][0]["type"], "message");
    assert_eq!(response["metadata"], json!({ "a": "b" }));
    assert!(!said(&response).is_empty());
    let usage = &response["usage"];
    assert_eq!(usage["output_tokens"], 12);
    assert_eq!(usage["total_tokens"], usage["input_tokens"].as_u64().unwrap() + 12);

    let events = stream(address, &body);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(said(&last["response"]), said(&response));
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    for kind in ["response.content_part.added", "response.output_text.done", "response.content_part.done"] {
        assert_eq!(kinds.iter().filter(|k| **k == kind).count(), 1, "{kind}");
    }
}

#[test]
fn likelihoods_come_with_the_text() {
    let address = server();
    let body = ask("Once upon a time", json!({ "top_logprobs": 2 }));
    for response in [post(address, PATH, &body).ok(), stream(address, &body).last().unwrap()["response"].clone()] {
        let logprobs = response["output"][0]["content"][0]["logprobs"].as_array().unwrap();
        assert_eq!(logprobs.len(), 12);
        let text: String = logprobs.iter().map(|l| l["token"].as_str().unwrap()).collect();
        assert_eq!(text.trim(), said(&response).trim());
        assert!(logprobs.iter().all(|l| l["top_logprobs"].as_array().unwrap().len() == 2));
    }
}

#[test]
fn a_form_is_kept_to() {
    let schema = json!({
        "type": "object",
        "properties": { "animal": { "enum": ["cat", "dog"] } },
        "required": ["animal"],
        "additionalProperties": false,
    });
    let text =
        json!({ "text": { "format": { "type": "json_schema", "name": "x", "schema": schema, "strict": true } } });
    let response =
        post(server(), PATH, &with(ask("The pet was a", text.clone()), json!({ "max_output_tokens": 64 }))).ok();
    assert_eq!(response["status"], "completed");
    assert_eq!(response["text"]["format"]["name"], "x");
    let value: Value = serde_json::from_str(said(&response)).unwrap();
    assert!(value == json!({ "animal": "cat" }) || value == json!({ "animal": "dog" }), "{value}");
}

#[test]
fn tools_are_called() {
    let address = server();
    let parameters = json!({
        "type": "object",
        "properties": { "city": { "enum": ["Rome", "Oslo"] } },
        "required": ["city"],
        "additionalProperties": false,
    });
    let format = json!({ "type": "grammar", "syntax": "regex", "definition": "[ab]{3}" });
    let tools = json!([
        { "type": "function", "name": "weather", "description": "Of a city.", "parameters": parameters },
        { "type": "custom", "name": "code", "format": format },
        { "type": "custom", "name": "free" },
    ]);
    let body = |choice: Value| {
        with(
            ask("Where is the sun?", json!({ "tools": tools, "tool_choice": choice })),
            json!({ "max_output_tokens": 96 }),
        )
    };
    let weather = body(json!({ "type": "function", "name": "weather" }));
    let code = body(json!({ "type": "custom", "name": "code" }));
    for (body, kind) in [(&weather, "function_call"), (&code, "custom_tool_call")] {
        let streamed = stream(address, body).last().unwrap()["response"].clone();
        for response in [post(address, PATH, body).ok(), streamed] {
            let call = &response["output"][0];
            assert_eq!((&call["type"], &call["status"]), (&json!(kind), &json!("completed")), "{response}");
            assert!(call["call_id"].as_str().unwrap().starts_with("call_"));
            if kind == "function_call" {
                let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
                assert!(["Rome", "Oslo"].iter().any(|city| arguments == json!({ "city": city })), "{arguments}");
            } else {
                let input = call["input"].as_str().unwrap();
                assert!(input.len() == 3 && input.chars().all(|c| "ab".contains(c)), "{input}");
            }
        }
    }
    // What was called, and what came of it, go into the next prompt.
    let first = post(address, PATH, &weather).ok();
    let call = first["output"][0]["call_id"].clone();
    let result = json!([{ "type": "function_call_output", "call_id": call, "output": "It is warm." }]);
    let next = with(ask("", json!({ "tools": tools })), json!({ "input": result }));
    let next = post(address, PATH, &with(next, json!({ "previous_response_id": first["id"] }))).ok();
    assert!(next["usage"]["input_tokens"].as_u64() > first["usage"]["input_tokens"].as_u64());
}

fn delete(address: SocketAddr, path: &str) -> Answer {
    send(address, "DELETE", path, "application/json", b"")
}

#[test]
fn a_response_can_be_gone_on_from() {
    let address = server();
    let first = post(address, PATH, &ask("Once upon a time", json!({ "instructions": "A story." }))).ok();
    let id = first["id"].as_str().unwrap();
    assert_eq!(get(address, &format!("{PATH}/{id}")).ok(), first);

    let more = json!({ "previous_response_id": id });
    let second = &stream(address, &ask("And then", more.clone())).last().unwrap()["response"].clone();
    // The same as if all had been said at once, but without the first instructions.
    let all = json!([
        { "role": "user", "content": "Once upon a time" },
        { "role": "assistant", "content": said(&first) },
        { "role": "user", "content": "And then" },
    ]);
    let whole = post(address, PATH, &with(ask("", json!({})), json!({ "input": all }))).ok();
    assert_eq!(said(second), said(&whole));
    assert_eq!(second["usage"]["input_tokens"], whole["usage"]["input_tokens"]);

    let path = format!("{PATH}/{}/input_items", second["id"].as_str().unwrap());
    let items = get(address, &format!("{path}?order=asc")).ok();
    let roles: Vec<&str> = items["data"].as_array().unwrap().iter().map(|i| i["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    let page = get(address, &format!("{path}?order=asc&limit=1&after={}", items["first_id"].as_str().unwrap())).ok();
    assert_eq!((&page["data"][0], &page["has_more"]), (&items["data"][1], &json!(true)));

    let reference =
        json!([{ "type": "item_reference", "id": first["output"][0]["id"] }, { "role": "user", "content": "x" }]);
    let referring = post(address, PATH, &with(ask("", json!({})), json!({ "input": reference }))).ok();
    assert!(referring["usage"]["input_tokens"].as_u64() > Some(12));

    assert_eq!(delete(address, &format!("{PATH}/{id}")).ok()["deleted"], true);
    assert_eq!(get(address, &format!("{PATH}/{id}")).status, 404);
    assert_eq!(delete(address, &format!("{PATH}/{id}")).status, 404);
    let gone = post(address, PATH, &ask("And then", more));
    assert_eq!(gone.status, 400);
    assert_eq!(gone.json()["error"]["code"], "previous_response_not_found");

    let unkept = post(address, PATH, &ask("Once upon a time", json!({ "store": false }))).ok();
    assert_eq!(get(address, &format!("{PATH}/{}", unkept["id"].as_str().unwrap())).status, 404);
}

#[test]
fn what_would_change_the_answer_and_is_not_there_is_refused() {
    let address = server();
    for (more, field) in [
        (json!({ "tools": [{ "type": "web_search" }] }), "tools[0]"),
        (json!({ "tool_choice": { "type": "function", "name": "x" } }), "tool_choice"),
        (json!({ "background": true }), "background"),
        (json!({ "truncation": "auto" }), "truncation"),
        (json!({ "conversation": "conv_1" }), "conversation"),
        (json!({ "prompt": { "id": "pmpt_1" } }), "prompt"),
        (json!({ "top_logprobs": 21 }), "top_logprobs"),
        (json!({ "max_output_tokens": 0 }), "max_output_tokens"),
        (json!({ "text": { "format": { "type": "json_schema", "name": "x" } } }), "text.format.schema"),
        (json!({ "input": [] }), "input"),
        (json!({ "input": [{ "role": "user", "content": [{ "type": "input_image" }] }] }), "input[0].content[0]"),
        (json!({ "input": [{ "type": "file_search_call", "id": "fs_1" }] }), "input[0]"),
    ] {
        let answer = post(address, PATH, &with(ask("hi", json!({})), more.clone()));
        let (status, message, at) = answer.fault();
        assert_eq!((status, at.as_str()), (400, field), "{more}: {message}");
    }
    assert_eq!(get(address, &format!("{PATH}/resp_1?stream=true")).status, 400);
    assert_eq!(get(address, &format!("{PATH}/%ff")).fault().0, 400);
    assert_eq!(get(address, &format!("{PATH}/resp_1/input_items?limit=x")).fault().0, 400);
}

#[test]
fn a_prompt_is_counted_without_being_answered() {
    let address = server();
    let first = post(address, PATH, &json!({ "input": "Once upon", "max_output_tokens": 2 })).ok();
    let on = json!({ "input": "Go on.", "previous_response_id": first["id"], "max_output_tokens": 2 });
    let counted = post(address, "/v1/responses/input_tokens", &on).ok();
    assert_eq!(counted["object"], "response.input_tokens");
    assert_eq!(counted["input_tokens"], post(address, PATH, &on).ok()["usage"]["input_tokens"]);
    assert_eq!(post(address, "/v1/responses/input_tokens", &json!({ "inputs": 1 })).status, 400);
    // The same name as that of a response is not in the way.
    assert_eq!(get(address, "/v1/responses/input_token").status, 404);
}
