//! What the values of a call's arguments are, where a format writes each by itself: a string as it is, or JSON.

use serde_json::{Map, Value};

/// How a format with tags writes a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A string, as it is.
    Text,
    /// A string as it is, or `null`.
    TextOrNull,
    Json,
}

/// A property of a tool's arguments.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: String,
    pub schema: Value,
    pub kind: Kind,
    pub required: bool,
}

/// References that are followed to see what a value is.
const MOST_REFERENCES: usize = 16;

/// The properties of an object's schema.
pub fn of(schema: &Value) -> Vec<Parameter> {
    let object = resolve(schema, schema);
    let required = |name: &str| object["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name));
    let properties = object["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, value)| Parameter {
            name: name.clone(),
            kind: kind(resolve(value, schema)),
            schema: with_definitions(value, schema),
            required: required(name),
        })
        .collect()
}

fn kind(schema: &Value) -> Kind {
    let is = |value: &Value, name| value["type"] == name;
    let plain = |value: &Value| is(value, "string") && value.as_object().is_some_and(|o| !o.contains_key("enum"));
    let pair = |a: &Value, b: &Value| plain(a) && is(b, "null") || plain(b) && is(a, "null");
    let types = schema["type"].as_array().map(Vec::as_slice);
    if is(schema, "string") {
        Kind::Text
    } else if matches!(types, Some([a, b]) if (a == "string" && b == "null" || a == "null" && b == "string"))
        && schema.get("enum").is_none()
        || matches!(schema["anyOf"].as_array().map(Vec::as_slice), Some([a, b]) if pair(a, b))
    {
        Kind::TextOrNull
    } else {
        Kind::Json
    }
}

/// What a reference into the same schema leads to.
pub fn resolve<'s>(mut value: &'s Value, root: &'s Value) -> &'s Value {
    for _ in 0..MOST_REFERENCES {
        let target = value["$ref"].as_str().and_then(|path| root.pointer(path.strip_prefix('#')?));
        match target {
            Some(target) => value = target,
            None => break,
        }
    }
    value
}

/// A part of a schema, by itself.
fn with_definitions(value: &Value, root: &Value) -> Value {
    let Value::Object(object) = value else { return value.clone() };
    let mut object: Map<String, Value> = object.clone();
    for key in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(key) {
            object.entry(key).or_insert_with(|| definitions.clone());
        }
    }
    Value::Object(object)
}
