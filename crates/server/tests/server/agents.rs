//! Requests of coding agents, as they were recorded: their shapes, with the texts' lengths in the place of texts.

use crate::socket::{post, serve};
use akunu_server::Entry;
use serde_json::{Value, json};

/// A recorded request of a small model: answers are short, and nothing is sampled.
fn shortened(mut body: Value) -> Value {
    for field in ["max_tokens", "max_completion_tokens", "max_output_tokens"] {
        if !body[field].is_null() {
            body[field] = 8.into();
        }
    }
    if body.get("input").is_some() {
        body["max_output_tokens"] = 8.into();
    }
    body["stream"] = false.into();
    body.as_object_mut().map(|body| body.remove("stream_options"));
    body
}

#[test]
fn what_agents_send_is_understood() {
    // The model has 512 positions: of tools, this template has only their names.
    let mut entry = Entry::embedded();
    let template = "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}\
                    {% for m in messages %}{{ m.content }} {% endfor %}";
    entry.template = Some(template.into());
    let address = serve(vec![entry], |options| options.drop_hosted_tools = true);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/agents");
    for agent in ["codex", "opencode", "qwen-code"] {
        let recorded = std::fs::read_to_string(format!("{folder}/{agent}.jsonl")).unwrap();
        let requests = recorded.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let requests: Vec<Value> = requests.filter(|r| r["method"] == "POST" && r["path"] != "/").collect();
        assert!(!requests.is_empty(), "{agent}");
        for request in requests {
            let answer = post(address, request["path"].as_str().unwrap(), &shortened(request["body"].clone()));
            assert_eq!(answer.status, 200, "{agent}: {}", answer.body);
        }
    }
}

#[test]
fn tools_of_a_namespace_are_called_with_it_and_hosted_ones_only_left_out_where_asked() {
    let tool = json!({ "type": "function", "name": "close", "parameters": { "type": "object", "properties": {} } });
    let space = json!({ "type": "namespace", "name": "agents", "tools": [tool] });
    let ask =
        |tools: Value| json!({ "input": "Go.", "tools": tools, "tool_choice": "required", "max_output_tokens": 64 });
    let strict = serve(vec![Entry::embedded()], |_| {});
    let called = post(strict, "/v1/responses", &ask(json!([space]))).ok();
    let call = &called["output"][0];
    assert_eq!((&call["name"], &call["namespace"]), (&json!("close"), &json!("agents")), "{called}");
    let hosted = ask(json!([space, { "type": "web_search" }]));
    assert_eq!(post(strict, "/v1/responses", &hosted).fault().2, "tools[1]");
    let lenient = serve(vec![Entry::embedded()], |options| options.drop_hosted_tools = true);
    post(lenient, "/v1/responses", &hosted).ok();
}
