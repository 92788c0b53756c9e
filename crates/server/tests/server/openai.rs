//! OpenAI's chat, completions and embeddings over a socket.

use crate::socket::{Answer, get, post, serve, stories};
use akunu_server::Entry;
use serde_json::{Value, json};
use std::net::SocketAddr;

fn with(mut request: Value, fields: Value) -> Value {
    fields.as_object().unwrap().iter().for_each(|(name, value)| request[name] = value.clone());
    request
}

fn completion(fields: Value) -> Value {
    with(json!({ "prompt": "Once upon a time", "max_tokens": 24, "temperature": 0 }), fields)
}

fn chat(fields: Value) -> Value {
    let messages = json!([{ "role": "user", "content": "Once upon a time" }]);
    with(json!({ "messages": messages, "max_tokens": 24, "temperature": 0 }), fields)
}

fn completed(address: SocketAddr, fields: Value) -> Value {
    post(address, "/v1/completions", &completion(fields)).ok()
}

/// The texts of a stream, by choice.
fn streamed(answer: &Answer) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for event in answer.events() {
        for choice in event["choices"].as_array().unwrap() {
            let at = choice["index"].as_u64().unwrap() as usize;
            texts.resize(texts.len().max(at + 1), String::new());
            texts[at] += choice["text"].as_str().or(choice["delta"]["content"].as_str()).unwrap_or_default();
        }
    }
    texts
}

#[test]
fn a_stream_says_what_the_whole_answer_says() {
    let address = serve(vec![Entry::embedded()], |_| {});
    for (path, request) in [("/v1/completions", completion(json!({}))), ("/v1/chat/completions", chat(json!({})))] {
        let whole = post(address, path, &request).ok();
        let choice = &whole["choices"][0];
        let text = choice["text"].as_str().or(choice["message"]["content"].as_str()).unwrap();
        assert_eq!(
            (choice["finish_reason"].as_str(), whole["usage"]["completion_tokens"].as_u64()),
            (Some("length"), Some(24))
        );
        let stream = with(request, json!({ "stream": true, "stream_options": { "include_usage": true } }));
        let answer = post(address, path, &stream);
        // Chat drops white space at the beginning, whole or streamed.
        assert_eq!(streamed(&answer), [text], "{path}");
        let last = answer.events().pop().unwrap();
        assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&json!([]), &json!(24)), "{path}");
        assert!(answer.body.ends_with("data: [DONE]\n\n"), "{path}");
    }
}

#[test]
fn every_chunk_can_say_what_the_answer_has_cost_so_far() {
    let address = serve(vec![Entry::embedded()], |_| {});
    for (path, request) in [("/v1/completions", completion(json!({}))), ("/v1/chat/completions", chat(json!({})))] {
        let options = json!({ "include_usage": true, "continuous_usage_stats": true });
        let events = post(address, path, &with(request, json!({ "stream": true, "stream_options": options }))).events();
        let counts: Vec<u64> = events.iter().map(|e| e["usage"]["completion_tokens"].as_u64().unwrap()).collect();
        assert!(
            counts.is_sorted() && counts[0] <= 1 && counts[counts.len() - 3..] == [24, 24, 24],
            "{path}: {counts:?}"
        );
        let whole = &events.last().unwrap()["usage"];
        assert!(events.iter().all(|e| e["usage"]["prompt_tokens"] == whole["prompt_tokens"]), "{path}");
    }
}

#[test]
fn choices_differ_and_a_seed_repeats_them() {
    let address = serve(vec![stories()], |_| {});
    let fields = json!({ "n": 3, "seed": 7, "temperature": 1.2 });
    let texts =
        |answer: &Value| answer["choices"].as_array().unwrap().iter().map(|c| c["text"].clone()).collect::<Vec<_>>();
    let (first, second) = (completed(address, fields.clone()), completed(address, fields.clone()));
    assert_eq!(texts(&first), texts(&second));
    assert!(texts(&first)[0] != texts(&first)[1], "{first}");
    let stream = post(address, "/v1/completions", &completion(with(fields, json!({ "stream": true }))));
    assert_eq!(texts(&first), streamed(&stream).into_iter().map(Value::from).collect::<Vec<_>>());
}

#[test]
fn texts_end_before_stop_strings_and_bias_bans() {
    let address = serve(vec![stories()], |_| {});
    let free = completed(address, json!({}));
    let text = free["choices"][0]["text"].as_str().unwrap();
    let word = text.split(' ').nth(4).unwrap();
    let stopped = completed(address, json!({ "stop": [word] }));
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    assert_eq!(stopped["choices"][0]["text"].as_str().unwrap(), &text[..text.find(word).unwrap()]);
    let first = completed(address, json!({ "max_tokens": 1, "logprobs": 2 }));
    let chosen = first["choices"][0]["logprobs"]["tokens"][0].as_str().unwrap().to_owned();
    let id = post(address, "/tokenize", &json!({ "content": chosen })).ok()["tokens"][0].as_u64().unwrap();
    let banned = completed(address, json!({ "logit_bias": { id.to_string(): -100 } }));
    assert!(!banned["choices"][0]["text"].as_str().unwrap().starts_with(&chosen), "{banned}");
}

#[test]
fn log_probabilities_are_those_of_the_tokens() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let answer = post(address, "/v1/chat/completions", &chat(json!({ "logprobs": true, "top_logprobs": 3 }))).ok();
    let content = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(content.len(), 24);
    let text: String = content.iter().map(|t| t["token"].as_str().unwrap()).collect();
    assert_eq!(text.trim(), answer["choices"][0]["message"]["content"].as_str().unwrap().trim());
    for token in content {
        let top = token["top_logprobs"].as_array().unwrap();
        // Greedy: the chosen one is the likeliest.
        assert_eq!((top.len(), &top[0]["token"], &top[0]["logprob"]), (3, &token["token"], &token["logprob"]));
        assert!(token["logprob"].as_f64().unwrap() <= 0.0);
    }
}

#[test]
fn forms_hold() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" }, "who": { "enum": ["cat", "dog"] } },
        "required": ["n", "who"], "additionalProperties": false });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "strict": true, "schema": schema } });
    let answer =
        post(address, "/v1/chat/completions", &chat(json!({ "response_format": format, "max_tokens": 200 }))).ok();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert!(value["n"].is_i64() && ["cat", "dog"].contains(&value["who"].as_str().unwrap()), "{text}");
    let bad = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": { "type": "nonsense" } } });
    assert_eq!(post(address, "/v1/chat/completions", &chat(json!({ "response_format": bad }))).status, 400);
}

#[test]
fn a_tool_that_must_be_called_is_called_with_what_it_takes() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string", "maxLength": 20 }, "days": { "type": "integer", "minimum": 1, "maximum": 9 } },
        "required": ["city", "days"], "additionalProperties": false });
    let tool = json!({ "type": "function", "function": { "name": "weather", "description": "The weather", "parameters": parameters } });
    let request =
        chat(json!({ "tools": [tool], "tool_choice": "required", "max_tokens": 300, "temperature": 1, "seed": 3 }));
    let whole = post(address, "/v1/chat/completions", &request).ok();
    let choice = &whole["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{whole}");
    let call = &choice["message"]["tool_calls"][0]["function"];
    assert_eq!(call["name"], "weather");
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert!(arguments["city"].is_string() && (1..=9).contains(&arguments["days"].as_i64().unwrap()), "{arguments}");
    let stream = post(address, "/v1/chat/completions", &with(request, json!({ "stream": true })));
    let events = stream.events();
    let deltas: Vec<&Value> =
        events.iter().map(|e| &e["choices"][0]["delta"]["tool_calls"][0]).filter(|c| c.is_object()).collect();
    let joined: String = deltas.iter().filter_map(|d| d["function"]["arguments"].as_str()).collect();
    assert_eq!(joined, call["arguments"].as_str().unwrap());
    assert_eq!((deltas[0]["function"]["name"].as_str(), deltas[0]["id"].is_string()), (Some("weather"), true));
    for (choice, status) in
        [(json!("none"), 200), (json!({ "type": "function", "function": { "name": "nobody" } }), 400)]
    {
        let request = chat(json!({ "tools": [tool], "tool_choice": choice }));
        assert_eq!(post(address, "/v1/chat/completions", &request).status, status);
    }
}

#[test]
fn what_is_not_known_is_named() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let field = |fields: Value| {
        let (status, sentence, field) = post(address, "/v1/chat/completions", &chat(fields)).fault();
        assert_eq!(status, 400, "{sentence}");
        field
    };
    assert_eq!(field(json!({ "temprature": 1 })), "temprature");
    assert_eq!(field(json!({ "temperature": -1 })), "temperature");
    assert_eq!(field(json!({ "n": 0 })), "n");
    assert_eq!(field(json!({ "top_logprobs": 3 })), "top_logprobs");
    assert_eq!(field(json!({ "messages": [] })), "messages");
    assert_eq!(field(json!({ "messages": [{ "content": "x" }] })), "messages[0].role");
    assert_eq!(
        field(json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] })),
        "messages[0].content[0]"
    );
    assert_eq!(field(json!({ "tools": [{ "type": "web_search" }] })), "tools[0]");
    // Nothing in the answer would change.
    post(address, "/v1/chat/completions", &chat(json!({ "user": "me", "store": false, "metadata": { "a": "b" } })))
        .ok();
}

#[test]
fn a_prompt_too_long_is_refused_with_the_numbers() {
    let address = serve(vec![stories()], |_| {});
    let long = "once upon a time ".repeat(1000);
    let answer = post(address, "/v1/completions", &json!({ "prompt": long }));
    let error = &answer.json()["error"];
    assert_eq!((answer.status, error["code"].as_str()), (400, Some("context_length_exceeded")));
    assert!(error["message"].as_str().unwrap().contains("512"), "{error}");
}

#[test]
fn a_conversation_that_goes_on_is_cached_and_one_that_changes_says_where() {
    let address = serve(vec![Entry::embedded()], |_| {});
    let story = "Once upon a time there was a little girl who had a red ball. ".repeat(12);
    let message = |role: &str, text: &str| json!({ "role": role, "content": text });
    let ask =
        |messages: Value| post(address, "/v1/chat/completions", &json!({ "messages": messages, "max_tokens": 2 })).ok();
    let (system, user) = (message("system", &story), message("user", "Tell me more."));
    ask(json!([system, user]));
    let again = ask(json!([system, user, message("assistant", "No."), message("user", "Please.")]));
    let cached = again["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(cached > 100, "{again}");
    assert_eq!(again["timings"]["cache_miss"]["message"], 2, "{again}");
    let changed = ask(json!([message("system", &format!("{story}And so on.")), user]));
    assert_eq!(changed["timings"]["cache_miss"]["message"], 0, "{changed}");
}

#[test]
fn embeddings_have_length_one_and_either_encoding() {
    let address = serve(vec![stories()], |_| {});
    let ask =
        |fields: Value| post(address, "/v1/embeddings", &with(json!({ "input": ["a cat", "a dog"] }), fields)).ok();
    let floats = ask(json!({}));
    let vector =
        |v: &Value| v["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<f64>>();
    let (cat, dog) = (vector(&floats["data"][0]), vector(&floats["data"][1]));
    assert!((cat.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-5 && cat != dog);
    assert_eq!(vector(&ask(json!({ "dimensions": 16 }))["data"][0]).len(), 16);
    let encoded = ask(json!({ "encoding_format": "base64" }));
    // Four thirds of four bytes a number.
    assert_eq!(encoded["data"][0]["embedding"].as_str().unwrap().len(), (cat.len() * 4).div_ceil(3) * 4);
    let (status, _, field) = post(address, "/v1/embeddings", &json!({ "input": [] })).fault();
    assert_eq!((status, field.as_str()), (400, "input"));
}

#[test]
fn tokens_come_back_as_the_text_they_were() {
    let address = serve(vec![stories()], |_| {});
    let text = "Once upon a time, Zoë met 猫.";
    let tokens = post(address, "/tokenize", &json!({ "content": text })).ok()["tokens"].clone();
    assert_eq!(
        post(address, "/detokenize", &json!({ "tokens": tokens })).ok()["content"].as_str().unwrap().trim(),
        text
    );
    assert_eq!(get(address, "/ready").status, 200);
    let page = get(address, "/");
    assert!(
        page.status == 200 && page.head.contains("frame-ancestors 'none'") && page.body.contains("<!doctype html>")
    );
}

/// A template that shows where an answer begins and ends, the date, and a variable.
const MARKED: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}\
                      {% if add_generation_prompt %}<assistant>{% endif %}{{ mood }}";

#[test]
fn the_last_message_is_gone_on_with_as_is_asked() {
    let mut entry = stories();
    entry.template = Some(MARKED.into());
    let address = serve(vec![entry], |_| {});
    let messages = json!([{ "role": "user", "content": "Hi" }, { "role": "assistant", "content": "Once" }]);
    let request = |fields: Value| with(json!({ "messages": messages }), fields);
    let prompt = |fields: Value| post(address, "/apply-template", &request(fields)).ok()["prompt"].clone();
    assert_eq!(prompt(json!({})), "<user>Hi</><assistant>Once");
    let goes_on = json!({ "continue_final_message": true, "add_generation_prompt": false });
    assert_eq!(prompt(goes_on.clone()), "<user>Hi</><assistant>Once");
    assert_eq!(prompt(json!({ "continue_final_message": false })), "<user>Hi</><assistant>Once</><assistant>");
    let ends = json!({ "continue_final_message": false, "add_generation_prompt": false });
    assert_eq!(prompt(ends.clone()), "<user>Hi</><assistant>Once</>");
    assert_eq!(
        prompt(with(ends.clone(), json!({ "chat_template_kwargs": { "mood": "!" } }))),
        "<user>Hi</><assistant>Once</>!"
    );
    // A chat has the same prompt.
    for fields in [json!({}), goes_on, ends] {
        let text = prompt(fields.clone());
        let tokens =
            post(address, "/tokenize", &json!({ "content": text.clone() })).ok()["tokens"].as_array().unwrap().len();
        let chat = with(request(fields), json!({ "max_tokens": 1 }));
        assert_eq!(post(address, "/v1/chat/completions", &chat).ok()["usage"]["prompt_tokens"], tokens);
        let counted = post(address, "/v1/chat/completions/input_tokens", &chat).ok();
        assert_eq!(counted, json!({ "object": "response.input_tokens", "input_tokens": tokens }));
        let told = post(address, "/v1/chat/completions", &with(chat, json!({ "verbose": true }))).ok();
        assert!(told["__verbose"]["prompt"].as_str().unwrap().ends_with(text.as_str().unwrap()), "{told}");
    }
    let both = json!({ "continue_final_message": true, "add_generation_prompt": true });
    let nothing = json!({ "continue_final_message": true, "messages": [{ "role": "user", "content": "Hi" }] });
    for (fields, named) in [(both, "continue_final_message"), (nothing, "continue_final_message")] {
        let (status, sentence, field) = post(address, "/v1/chat/completions", &request(fields)).fault();
        assert_eq!((status, field.as_str()), (400, named), "{sentence}");
    }
}

#[test]
fn templates_know_the_date_and_the_tools_as_a_text() {
    let mut entry = stories();
    entry.template = Some("{{ date_string }}|{{ datetime }}|{{ functions }}|{{ messages[0].content }}".into());
    let address = serve(vec![entry], |_| {});
    let tool = json!({ "type": "function", "function": { "name": "clock", "parameters": { "type": "object", "properties": {} } } });
    let request = json!({ "messages": [{ "role": "user", "content": "Hi" }], "tools": [tool] });
    let prompt = post(address, "/apply-template", &request).ok()["prompt"].as_str().unwrap().to_owned();
    let parts: Vec<&str> = prompt.split('|').collect();
    let today: Vec<&str> = parts[0].split(' ').collect();
    assert_eq!(parts[1], [today[1], today[0], today[2]].join(" "));
    assert!(today[2].parse::<u16>().unwrap() >= 2024, "{prompt}");
    let functions: Value = serde_json::from_str(parts[2]).unwrap();
    assert_eq!(functions[0]["name"], "clock");
    let own = with(request, json!({ "chat_template_kwargs": { "date_string": "a day" } }));
    assert!(post(address, "/apply-template", &own).ok()["prompt"].as_str().unwrap().starts_with("a day|"));
}

#[test]
fn requests_for_vectors_at_the_same_time_get_their_own() {
    let address = serve(vec![stories()], |_| {});
    let texts: Vec<Value> =
        (0..12).map(|i| json!(["a cat", format!("a dog and {i} friends"), "so ".repeat(1 + 9 * i)])).collect();
    let ask = |input: &Value| post(address, "/v1/embeddings", &json!({ "input": input })).ok();
    let alone: Vec<Value> = texts.iter().map(ask).collect();
    let together: Vec<Value> = std::thread::scope(|scope| {
        let threads: Vec<_> = texts.iter().map(|input| scope.spawn(move || ask(input))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (one, other) in alone.iter().zip(&together) {
        assert_eq!((&one["data"], &one["usage"]), (&other["data"], &other["usage"]));
    }
    let tokens = post(address, "/tokenize", &json!({ "content": "a cat", "add_special": true })).ok()["tokens"].clone();
    assert_eq!(ask(&json!([tokens, "a cat"]))["data"][0]["embedding"], alone[0]["data"][0]["embedding"]);
    assert_eq!(ask(&tokens)["data"][0]["embedding"], alone[0]["data"][0]["embedding"]);
    let mut row = tokens.as_array().unwrap().clone();
    row.push("and a dog".into());
    assert_eq!(ask(&row.clone().into())["data"].as_array().unwrap().len(), 1);
    assert_eq!(ask(&json!([row, "a cat"]))["data"].as_array().unwrap().len(), 2);
    let long = post(address, "/v1/embeddings", &json!({ "input": "so ".repeat(9999) }));
    assert!(long.status == 400 && long.fault().1.contains("too large"), "{}", long.body);
}
