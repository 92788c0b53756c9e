//! llama.cpp's own rows over a socket.

use crate::socket::{get, post, serve, stories};
use serde_json::{Value, json};
use std::net::SocketAddr;

const PROMPT: &str = "Once upon a time";

fn ask(address: SocketAddr, fields: Value) -> Value {
    let mut request = json!({ "prompt": PROMPT, "n_predict": 12, "temperature": 0 });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    post(address, "/completion", &request).ok()
}

fn tokens(address: SocketAddr, text: &str) -> Vec<u64> {
    let tokens = post(address, "/tokenize", &json!({ "content": text, "add_special": true })).ok();
    serde_json::from_value(tokens["tokens"].clone()).unwrap()
}

#[test]
fn a_stream_has_the_tokens_and_the_text_of_the_whole_answer() {
    let address = serve(vec![stories()], |_| {});
    let whole = ask(address, json!({ "return_tokens": true, "seed": 42 }));
    let body = json!({ "prompt": PROMPT, "n_predict": 12, "temperature": 0, "seed": 42, "stream": true });
    let events = post(address, "/completion", &body).events();
    let (last, pieces) = events.split_last().unwrap();
    assert!(pieces.iter().all(|p| p["stop"] == false && !p["tokens"].as_array().unwrap().is_empty()), "{events:?}");
    let text: String = events.iter().map(|e| e["content"].as_str().unwrap()).collect();
    let streamed: Vec<&Value> = events.iter().flat_map(|e| e["tokens"].as_array().unwrap()).collect();
    assert_eq!((&json!(text), &json!(streamed)), (&whole["content"], &whole["tokens"]));
    for end in [&whole, last] {
        assert_eq!(
            (&end["stop"], &end["stop_type"], &end["has_new_line"]),
            (&json!(true), &json!("limit"), &json!(false))
        );
        assert_eq!(
            (&end["generation_settings"]["n_predict"], &end["generation_settings"]["seed"]),
            (&json!(12), &json!(42))
        );
        assert!(end["prompt"].as_str().unwrap().ends_with(PROMPT), "{end}");
    }
    assert_eq!(ask(address, json!({}))["tokens"], json!([]));
    let lines = ask(address, json!({ "grammar": "root ::= \"a\\nb\"" }));
    assert_eq!((&lines["content"], &lines["has_new_line"]), (&json!("a\nb"), &json!(true)));
}

#[test]
fn only_the_fields_that_are_wanted_come() {
    let address = serve(vec![stories()], |_| {});
    let fields = json!(["content", "generation_settings/n_predict", "prompt", "nothing"]);
    let some = ask(address, json!({ "response_fields": fields }));
    let names: Vec<&String> = some.as_object().unwrap().keys().collect();
    assert_eq!(names, ["content", "generation_settings/n_predict", "prompt"]);
    assert_eq!(
        (&some["generation_settings/n_predict"], &some["content"]),
        (&json!(12), &ask(address, json!({}))["content"])
    );
}

#[test]
fn prompts_are_texts_tokens_and_both_in_a_row() {
    let address = serve(vec![stories()], |_| {});
    let alone = ask(address, json!({}));
    let tokens = tokens(address, PROMPT);
    let said = |prompt: Value| ask(address, json!({ "prompt": prompt }));
    assert_eq!(said(json!(tokens))["content"], alone["content"]);
    let named = json!({ "prompt_string": PROMPT });
    let several = said(json!([tokens, PROMPT, named]));
    let several: Vec<(&Value, &Value)> =
        several.as_array().unwrap().iter().map(|one| (&one["index"], &one["content"])).collect();
    assert_eq!(several, [0, 1, 2].map(json_number).iter().map(|i| (i, &alone["content"])).collect::<Vec<_>>());
    // A text in the middle is not begun anew.
    let (first, rest) = tokens.split_at(2);
    let text = post(address, "/detokenize", &json!({ "tokens": rest })).ok()["content"].clone();
    let mixed = said(json!([first[0], first[1], text, 5]));
    assert!(mixed["tokens_evaluated"].as_u64().unwrap() > 3, "{mixed}");
    for (prompt, status) in [(json!([1, [2]]), 400), (json!([]), 400), (json!([70_000]), 400)] {
        assert_eq!(post(address, "/completion", &json!({ "prompt": prompt })).status, status, "{prompt}");
    }
}

fn json_number(n: u64) -> Value {
    n.into()
}

#[test]
fn a_bias_names_tokens_or_texts_in_a_map_or_in_pairs() {
    let address = serve(vec![stories()], |_| {});
    let free = ask(address, json!({ "n_predict": 40 }))["content"].as_str().unwrap().to_owned();
    let word = free.split(' ').find(|word| word.len() > 3 && word.chars().all(char::is_alphabetic)).unwrap().to_owned();
    let text = format!(" {word}");
    let ids = post(address, "/tokenize", &json!({ "content": text })).ok()["tokens"].clone();
    let pairs: Value = ids.as_array().unwrap().iter().map(|id| json!([id, false])).collect();
    let map: Value = ids.as_array().unwrap().iter().map(|id| (id.to_string(), json!(-100))).collect();
    for bias in [pairs, map, json!([[text, -100]]), json!({ text.clone(): false })] {
        let banned = ask(address, json!({ "n_predict": 40, "logit_bias": bias }));
        assert!(!banned["content"].as_str().unwrap().contains(&text), "{bias}: {banned}");
    }
    for wrong in [json!([[1, "much"]]), json!([[1, true]]), json!({ "1": 1000 }), json!([1])] {
        let answer = post(address, "/completion", &json!({ "prompt": "a", "logit_bias": wrong }));
        assert_eq!((answer.fault().0, answer.fault().2.as_str()), (400, "logit_bias"), "{wrong}");
    }
}

#[test]
fn probabilities_are_those_of_the_model_or_those_that_were_drawn_by() {
    let address = serve(vec![stories()], |_| {});
    let fields = json!({ "n_probs": 5, "temperature": 1, "seed": 3 });
    let own = ask(address, fields.clone());
    for token in own["completion_probabilities"].as_array().unwrap() {
        assert!(
            token["id"].is_u64() && token["logprob"].as_f64().unwrap() <= 0.0 && token.get("prob").is_none(),
            "{token}"
        );
        assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 5);
    }
    let mut drawn = fields;
    drawn["post_sampling_probs"] = true.into();
    drawn["top_k"] = 3.into();
    drawn["n_probs"] = 10.into();
    let drawn = ask(address, drawn);
    for token in drawn["completion_probabilities"].as_array().unwrap() {
        let top = token["top_probs"].as_array().unwrap();
        let sum: f64 = top.iter().map(|t| t["prob"].as_f64().unwrap()).sum();
        // All that could be drawn is there, and nothing else.
        assert!(top.len() <= 3 && (sum - 1.0).abs() < 1e-4, "{token}");
        assert!(top.iter().any(|t| t["id"] == token["id"] && t["prob"] == token["prob"]), "{token}");
    }
    let greedy = ask(address, json!({ "n_probs": 3, "post_sampling_probs": true }));
    assert!(greedy["completion_probabilities"].as_array().unwrap().iter().all(|t| t["prob"] == 1.0), "{greedy}");
    assert_eq!(greedy["content"], ask(address, json!({}))["content"]);
}

#[test]
fn slots_are_as_many_as_sequences() {
    let address = serve(vec![stories()], |options| options.scheduler.sequences = 3);
    assert_eq!(get(address, "/slots").ok().as_array().unwrap().len(), 3);
    assert_eq!(get(address, "/props").ok()["total_slots"], 3);
}
