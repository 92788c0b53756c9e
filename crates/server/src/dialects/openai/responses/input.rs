//! Items of input: checked, given identifiers, and turned into messages as chat templates take them.

use super::super::chat::plain_at;
use crate::http::body::short;
use crate::id;
use crate::problem::Problem;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Items, their identifiers' prefixes, texts that they must have, and what else they may have.
const ITEMS: &[(&str, &str, &[&str], &[&str])] = &[
    ("message", "msg_", &["role"], &["content", "status", "phase"]),
    ("function_call", "fc_", &["call_id", "name", "arguments"], &["status", "namespace"]),
    ("function_call_output", "fco_", &["call_id"], &["output", "status"]),
    ("custom_tool_call", "ctc_", &["call_id", "name", "input"], &["status", "namespace"]),
    ("custom_tool_call_output", "ctco_", &["call_id"], &["output", "status"]),
    ("reasoning", "rs_", &[], &["summary", "content", "encrypted_content", "status"]),
    ("item_reference", "", &["id"], &[]),
];

/// An item that can be kept; `at` is where the request has it, `known` what it may refer to.
pub fn item(
    at: &str,
    mut item: Map<String, Value>,
    known: &HashMap<String, Arc<Value>>,
) -> Result<Arc<Value>, Problem> {
    let kind = match item.get("type").and_then(Value::as_str) {
        Some(kind) => kind.to_owned(),
        None if item.contains_key("role") => "message".to_owned(),
        None => return Err(Problem::field(format!("{at}.type"), format!("{at}.type is missing"))),
    };
    let Some((kind, prefix, texts, others)) = ITEMS.iter().find(|(name, ..)| *name == kind) else {
        return Err(Problem::field(at, format!("{at}: items of type {:?} are not supported", short(&kind))));
    };
    for text in *texts {
        if !item.get(*text).is_some_and(Value::is_string) {
            let field = format!("{at}.{text}");
            return Err(Problem::field(&field, format!("{field} is missing, or no text")));
        }
    }
    let is_known = |name: &str| name == "type" || name == "id" || texts.contains(&name) || others.contains(&name);
    if let Some((name, _)) = item.iter().find(|(name, value)| !is_known(name) && !value.is_null()) {
        let field = format!("{at}.{}", short(name));
        return Err(
            Problem::field(&field, format!("{field} is not a field that this server knows")).code("unknown_field")
        );
    }
    let own = item.get("id").and_then(Value::as_str);
    if *kind == "item_reference" {
        let own = own.unwrap_or_default();
        let sentence = || format!("{at}: there is no item {:?}: it was never kept, or is too old", short(own));
        return known.get(own).cloned().ok_or_else(|| Problem::field(at, sentence()));
    }
    if own.is_none() {
        item.insert("id".into(), id(prefix).into());
    }
    item.insert("type".into(), (*kind).into());
    match *kind {
        "message" => {
            // What is wrong with it shows here.
            let message = plain_at(at, item.clone())?;
            let role = message["role"].as_str().unwrap_or_default();
            if !["user", "assistant", "system"].contains(&role) {
                let field = format!("{at}.role");
                return Err(Problem::field(&field, format!("{field} must be user, assistant, system or developer")));
            }
            if let Some(content) = item.get_mut("content").filter(|content| !content.is_array()) {
                let kind = if role == "assistant" { "output_text" } else { "input_text" };
                *content = json!([{ "type": kind, "text": content.as_str().unwrap_or_default() }]);
            }
        }
        "function_call_output" | "custom_tool_call_output" => drop(output(at, &item)?),
        _ => {}
    }
    Ok(Arc::new(Value::Object(item)))
}

/// What a tool has said.
fn output(at: &str, item: &Map<String, Value>) -> Result<String, Problem> {
    let field = format!("{at}.output");
    match item.get("output") {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| match (part["type"].as_str(), part["text"].as_str()) {
                (Some("input_text" | "output_text"), Some(text)) => Ok(text.to_owned()),
                _ => Err(Problem::field(&field, format!("{field}: the model takes parts of text only"))),
            };
            parts.iter().map(text).collect()
        }
        _ => Err(Problem::field(&field, format!("{field} must be a text or a list of parts"))),
    }
}

/// Messages, as they come to be.
#[derive(Default)]
struct Messages {
    list: Vec<Value>,
    /// What the assistant thought before what comes next.
    thought: String,
    /// Tools that were called, by call.
    names: HashMap<String, String>,
}

impl Messages {
    /// The assistant's turn, gone on with or begun.
    fn turn(&mut self) -> &mut Value {
        let goes_on = self.list.last().is_some_and(|m| m["role"] == "assistant");
        if !goes_on || !self.thought.is_empty() {
            self.say(json!({ "role": "assistant", "content": "" }));
        }
        // There is one: it was just said.
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    fn say(&mut self, mut message: Value) {
        let thought = std::mem::take(&mut self.thought);
        if message["role"] == "assistant" && !thought.is_empty() {
            message["reasoning_content"] = thought.into();
        }
        self.list.push(message);
    }

    fn call(&mut self, item: &Value, arguments: String) {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        let (id, name) = (text("call_id"), text("name"));
        self.names.insert(id.clone(), name.clone());
        let call = json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
        match &mut self.turn()["tool_calls"] {
            Value::Array(calls) => calls.push(call),
            none => *none = json!([call]),
        }
    }
}

/// Items that were checked, as messages.
pub fn messages(instructions: Option<&str>, items: &[Arc<Value>]) -> Result<Vec<Value>, Problem> {
    let mut messages = Messages::default();
    if let Some(text) = instructions {
        messages.say(json!({ "role": "system", "content": text }));
    }
    for item in items {
        let Value::Object(fields) = &**item else { continue };
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                let plain = plain_at("input", fields.clone())?;
                messages.say(json!({ "role": plain["role"], "content": plain["content"] }));
            }
            "function_call" => messages.call(item, item["arguments"].as_str().unwrap_or_default().to_owned()),
            // As the tool is shown to the model.
            "custom_tool_call" => messages.call(item, json!({ "input": item["input"] }).to_string()),
            "function_call_output" | "custom_tool_call_output" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                let mut message = json!({ "role": "tool", "tool_call_id": id, "content": output("input", fields)? });
                if let Some(name) = messages.names.get(id) {
                    message["name"] = name.as_str().into();
                }
                messages.say(message);
            }
            "reasoning" => {
                let parts = item["content"].as_array().into_iter().flatten();
                messages.thought.extend(parts.filter_map(|part| part["text"].as_str()));
            }
            _ => {}
        }
    }
    Ok(messages.list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(items: Value) -> Result<Vec<Value>, Problem> {
        let Value::Array(items) = items else { panic!() };
        let none = HashMap::new();
        let items = items.into_iter().enumerate().map(|(i, value)| match value {
            Value::Object(map) => item(&format!("input[{i}]"), map, &none),
            _ => panic!(),
        });
        messages(Some("Be brief."), &items.collect::<Result<Vec<_>, _>>()?)
    }

    #[test]
    fn a_turn_of_the_assistant_is_one_message() {
        let messages = read(json!([
            { "role": "user", "content": "hi" },
            { "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": "hm" }] },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "I look." }] },
            { "type": "function_call", "call_id": "1", "name": "look", "arguments": "{\"at\":1}" },
            { "type": "custom_tool_call", "call_id": "2", "name": "run", "input": "ls" },
            { "type": "function_call_output", "call_id": "1", "output": "a" },
            { "type": "custom_tool_call_output", "call_id": "2", "output": [{ "type": "input_text", "text": "b" }] },
        ]));
        let call = |id, name, arguments| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
        let calls = [call("1", "look", "{\"at\":1}"), call("2", "run", "{\"input\":\"ls\"}")];
        let expected = json!([
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": calls },
            { "role": "tool", "tool_call_id": "1", "content": "a", "name": "look" },
            { "role": "tool", "tool_call_id": "2", "content": "b", "name": "run" },
        ]);
        assert_eq!(Value::from(messages.unwrap()), expected);
    }

    #[test]
    fn what_is_wrong_with_an_item_is_named() {
        for (items, field) in [
            (json!([{ "content": "hi" }]), "input[0].type"),
            (json!([{ "role": "user" }]), "input[0].content"),
            (json!([{ "role": "robot", "content": "hi" }]), "input[0].role"),
            (json!([{ "role": "user", "content": [{ "type": "input_image" }] }]), "input[0].content[0]"),
            (json!([{ "role": "user", "content": "hi", "name": "Bob" }]), "input[0].name"),
            (json!([{ "role": "user", "content": "hi" }, { "type": "web_search_call" }]), "input[1]"),
            (json!([{ "type": "function_call", "call_id": "1", "name": "x" }]), "input[0].arguments"),
            (json!([{ "type": "function_call_output", "call_id": "1", "output": 1 }]), "input[0].output"),
            (json!([{ "type": "item_reference", "id": "msg_1" }]), "input[0]"),
        ] {
            assert_eq!(read(items.clone()).unwrap_err().field.as_deref(), Some(field), "{items}");
        }
    }
}
