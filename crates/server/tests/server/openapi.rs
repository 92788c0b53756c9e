//! `/openapi.json` over a socket: that what it says of answers is so.

use crate::socket::{self, get, post, send, serve};
use serde_json::{Value, json};

/// Whether a value is as its schema says, as far as the schemas of answers go; else where it is not.
fn check(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let is = |kind: &Value| match kind.as_str().unwrap() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    };
    if let Some(either) = schema["anyOf"].as_array() {
        let faults: Vec<String> = either.iter().filter_map(|schema| check(schema, value, at).err()).collect();
        return if faults.len() < either.len() { Ok(()) } else { Err(faults.join(", and ")) };
    }
    let of_kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(is),
        Value::Null => true,
        kind => is(kind),
    };
    if !of_kind || schema.get("const").is_some_and(|text| text != value) {
        return Err(format!("{at} is {value}, not {schema}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        value.get(name.as_str().unwrap()).ok_or_else(|| format!("{at} has no {name}"))?;
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        value.get(name).map_or(Ok(()), |field| check(schema, field, &format!("{at}.{name}")))?;
    }
    let items = value.as_array().into_iter().flatten();
    items.enumerate().try_for_each(|(i, item)| check(&schema["items"], item, &format!("{at}[{i}]")))
}

#[test]
fn answers_are_as_the_document_says() {
    let address = serve(vec![socket::stories()], |_| {});
    let document = get(address, "/openapi.json").ok();
    let messages = json!([{ "role": "user", "content": "Once" }]);
    let bodies = [
        ("/v1/chat/completions", json!({ "messages": messages, "max_tokens": 4, "logprobs": true })),
        ("/v1/completions", json!({ "prompt": "Once", "max_tokens": 4 })),
        ("/v1/responses", json!({ "input": "Once", "max_output_tokens": 4 })),
        ("/v1/chat/completions/input_tokens", json!({ "messages": messages })),
        ("/v1/responses/input_tokens", json!({ "input": "Once" })),
        ("/v1/messages", json!({ "messages": messages, "max_tokens": 4 })),
        ("/v1/messages/count_tokens", json!({ "messages": messages })),
        (
            "/api/chat",
            json!({ "messages": messages, "stream": false, "logprobs": true, "options": { "num_predict": 4 } }),
        ),
        ("/api/generate", json!({ "prompt": "Once", "stream": false, "options": { "num_predict": 4 } })),
        ("/api/embed", json!({ "input": ["Once"] })),
        ("/api/embeddings", json!({ "prompt": "Once" })),
        ("/api/show", json!({ "model": "stories" })),
        ("/completion", json!({ "prompt": [1, "Once"], "n_predict": 4, "logit_bias": [[5, false]] })),
        ("/v1/embeddings", json!({ "input": ["Once"] })),
        ("/tokenize", json!({ "content": "Once", "with_pieces": true })),
        ("/detokenize", json!({ "tokens": [1, 2] })),
        ("/apply-template", json!({ "messages": messages })),
    ];
    let schema = |path: &str, method: &str, status: &str| {
        document["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"].clone()
    };
    for (path, body) in bodies {
        let answer = post(address, path, &body).ok();
        check(&schema(path, "post", "200"), &answer, path).unwrap();
        let request = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        check(request, &body, path).unwrap();
        let fault = post(address, path, &json!({ "no such field": 1 }));
        assert_eq!(fault.status, 400);
        check(&schema(path, "post", "4XX"), &fault.json(), path).unwrap();
    }
    for path in
        ["/health", "/ready", "/v1/models", "/openapi.json", "/api/tags", "/api/ps", "/api/version", "/props", "/slots"]
    {
        check(&schema(path, "get", "200"), &get(address, path).ok(), path).unwrap();
    }
}

#[test]
fn everything_in_the_document_is_there() {
    let address = serve(vec![socket::stories()], |_| {});
    let document = get(address, "/openapi.json").ok();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{id}", "x");
        for method in methods.as_object().unwrap().keys() {
            let answer = send(address, &method.to_uppercase(), &path, "application/json", b"");
            let missing = answer.status == 404 && answer.fault().1.contains("there is nothing at");
            assert!(!missing && answer.status != 405, "{method} {path}: {}", answer.status);
        }
        let answer = send(address, "PATCH", &path, "application/json", b"");
        assert!(answer.status == 405 && answer.head.contains("allow: "), "{path}: {} {}", answer.status, answer.head);
    }
    assert_eq!(get(address, "/v1/nothing").fault().0, 404);
}
