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

/// The schema of a call's arguments: they are an object, and those that are not declared are not there, unless it says so.
pub fn closed(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(map) => map.clone(),
        _ => Default::default(),
    };
    let declares = schema.is_empty() || schema.contains_key("properties");
    if !["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"].iter().any(|key| schema.contains_key(*key)) {
        schema.insert("type".into(), "object".into());
    }
    let open =
        ["additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref"];
    if declares && !open.iter().any(|key| schema.contains_key(*key)) {
        schema.insert("additionalProperties".into(), false.into());
    }
    Value::Object(schema)
}
