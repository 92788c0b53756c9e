//! JSON as templates write it, and the shapes that arguments come in.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Serializer, Value};

/// A space after every comma and colon, as Python writes JSON.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// `value` as templates write it.
pub fn json(value: &Value) -> String {
    let mut out = Vec::new();
    // Writing to memory cannot fail, and keys are strings.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut out, Spaced));
    String::from_utf8(out).unwrap_or_default()
}

/// Arguments as a map, or as text; what is neither stays as it is.
pub fn reshape(arguments: &mut Value, as_text: bool) {
    match arguments {
        Value::String(text) if !as_text => {
            let text = if text.trim().is_empty() { "{}" } else { text };
            if let Ok(map @ Value::Object(_)) = serde_json::from_str(text) {
                *arguments = map;
            }
        }
        Value::Object(_) if as_text => *arguments = json(arguments).into(),
        _ => {}
    }
}

/// The schema of a call's arguments: they are an object, and it is [`closed`].
pub fn arguments(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(map) => map.clone(),
        _ => Default::default(),
    };
    if !["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"].iter().any(|key| schema.contains_key(*key)) {
        schema.insert("type".into(), "object".into());
    }
    if schema.get("type").is_some_and(|kind| kind == "object") {
        schema.entry("properties").or_insert_with(|| Value::Object(Default::default()));
    }
    closed(Value::Object(schema))
}

/// A schema whose objects have only the properties that are declared, where it does not speak of others: a model that
/// may make up more of them seldom comes to an end.
pub fn closed(mut schema: Value) -> Value {
    close(&mut schema);
    schema
}

fn close(schema: &mut Value) {
    /// What may declare properties elsewhere.
    const OPEN: [&str; 7] =
        ["additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref"];
    let Value::Object(map) = schema else { return };
    for key in ["properties", "$defs", "definitions"] {
        if let Some(Value::Object(named)) = map.get_mut(key) {
            named.values_mut().for_each(close);
        }
    }
    for key in ["items", "additionalProperties"] {
        map.get_mut(key).into_iter().for_each(close);
    }
    // Not those of `allOf`: each of them would forbid what the others declare.
    for key in ["anyOf", "oneOf", "prefixItems"] {
        if let Some(Value::Array(schemas)) = map.get_mut(key) {
            schemas.iter_mut().for_each(close);
        }
    }
    if map.contains_key("properties") && !OPEN.iter().any(|key| map.contains_key(*key)) {
        map.insert("additionalProperties".into(), false.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_have_what_is_declared_and_no_more() {
        let object =
            json!({ "type": "object", "properties": { "a": { "type": "object", "properties": { "b": {} } } } });
        let closed = closed(object);
        assert_eq!(closed["additionalProperties"], false);
        assert_eq!(closed["properties"]["a"]["additionalProperties"], false);
        assert_eq!(closed["properties"]["a"]["properties"]["b"], json!({}));
    }

    #[test]
    fn what_may_have_more_stays_open() {
        let open = [
            json!({ "type": "object" }),
            json!({ "properties": { "a": {} }, "additionalProperties": true }),
            json!({ "properties": { "a": {} }, "allOf": [{ "properties": { "b": {} } }] }),
        ];
        for schema in open {
            assert_eq!(closed(schema.clone()), schema);
        }
        assert_eq!(arguments(&json!({})), json!({ "type": "object", "properties": {}, "additionalProperties": false }));
    }
}
