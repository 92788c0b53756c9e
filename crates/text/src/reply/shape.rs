//! The grammar of arguments as `{key:value}`, with strings between marks of their own.

use serde_json::{Value, json};

use super::Tool;
use super::form::Form;
use super::literal::{Literal, quoted};
use super::parameters::{self, resolve};
use crate::Error;

pub struct Shape<'s, 'f> {
    pub form: &'s mut Form<'f>,
    pub tool: &'s Tool,
    pub quote: &'s Literal,
    /// The whole schema, for references into it.
    pub root: Value,
    /// Rules so far.
    pub rules: usize,
}

/// What is nested deeper may be anything.
const DEEPEST: usize = 12;
/// Properties of an object without required ones of which any may come first.
const MOST_FIRST: usize = 32;

impl Shape<'_, '_> {
    /// The rule of an object.
    pub fn object_of(mut self, rule: &str, schema: &Value) -> Result<(), Error> {
        let body = match resolve(schema, &self.root)["properties"].as_object() {
            Some(_) => self.object(&schema.clone(), rule, 0)?,
            None => self.any(rule, "object"),
        };
        self.form.rule(rule, &body);
        Ok(())
    }

    fn object(&mut self, schema: &Value, rule: &str, depth: usize) -> Result<String, Error> {
        let (mut required, mut optional) = (Vec::new(), Vec::new());
        for parameter in parameters::of(&self.with_root(schema)) {
            let value = self.value(&parameter.schema, rule, depth + 1)?;
            let one = format!("{} {value}", quoted(&format!("{}:", parameter.name)));
            if parameter.required { required.push(one) } else { optional.push(one) }
        }
        let later = |rest: &[String]| rest.iter().map(|one| format!(" (\",\" {one})?")).collect::<String>();
        let inside = if required.is_empty() {
            let first = optional.len().min(MOST_FIRST);
            let ways = (0..first).map(|n| format!("{}{}", optional[n], later(&optional[n + 1..])));
            let ways: Vec<String> = ways.collect();
            if ways.is_empty() { String::new() } else { format!("({})?", ways.join(" | ")) }
        } else {
            format!("{}{}", required.join(" \",\" "), later(&optional))
        };
        Ok(format!("\"{{\" {inside} \"}}\""))
    }

    /// An object whose references lead where they led.
    fn with_root(&self, schema: &Value) -> Value {
        let mut schema = resolve(schema, &self.root).clone();
        for key in ["$defs", "definitions"] {
            if let (Some(object), Some(of)) = (schema.as_object_mut(), self.root.get(key)) {
                object.entry(key).or_insert_with(|| of.clone());
            }
        }
        schema
    }

    /// A rule for a value; its name.
    fn value(&mut self, schema: &Value, of: &str, depth: usize) -> Result<String, Error> {
        self.rules += 1;
        let rule = format!("{of}_v{}", self.rules);
        let schema = self.with_root(schema);
        let is = |name: &str| schema["type"] == name;
        let given = schema["enum"].as_array().cloned().or_else(|| schema.get("const").map(|one| vec![one.clone()]));
        let ways = schema["anyOf"].as_array().or(schema["oneOf"].as_array()).cloned();
        let types = schema["type"].as_array().cloned();
        let body = if depth > DEEPEST {
            self.any(&rule, "value")
        } else if let Some(given) = given {
            let mark = self.quote.lark();
            let one = |value: &Value| match value {
                Value::String(text) => format!("{mark}{} {mark}", quoted(text)),
                other => quoted(&other.to_string()),
            };
            given.iter().map(one).collect::<Vec<_>>().join(" | ")
        } else if is("string") {
            self.form.text_value(&rule, &schema, self.tool, self.quote)?;
            format!("{}{rule}_closed", self.quote.lark())
        } else if is("object") && schema["properties"].is_object() {
            self.object(&schema, &rule, depth)?
        } else if is("array") {
            let item = match schema.get("items") {
                Some(items) => self.value(items, &rule, depth + 1)?,
                None => self.value(&json!({}), &rule, DEEPEST + 1)?,
            };
            let least = schema["minItems"].as_u64().unwrap_or(0);
            let most = schema["maxItems"].as_u64().map(|most| most.saturating_sub(1).to_string()).unwrap_or_default();
            let some = format!("{item} (\",\" {item}){{{},{most}}}", least.saturating_sub(1));
            let inside = match (least, schema["maxItems"].as_u64()) {
                (_, Some(0)) => String::new(),
                (0, _) => format!("({some})?"),
                _ => some,
            };
            format!("\"[\" {inside} \"]\"")
        } else if ["integer", "number", "boolean", "null"].iter().any(|name| is(name)) {
            format!("%json {}", self.form.schema(schema.clone(), self.tool, false)?)
        } else if let Some(ways) = ways {
            let rules: Result<Vec<String>, Error> = ways.iter().map(|way| self.value(way, &rule, depth + 1)).collect();
            rules?.join(" | ")
        } else if let Some(types) = types {
            let one = |name: &Value| {
                let mut schema = schema.clone();
                schema["type"] = name.clone();
                schema
            };
            let ways: Vec<Value> = types.iter().map(one).collect();
            let rules: Result<Vec<String>, Error> = ways.iter().map(|way| self.value(way, &rule, depth + 1)).collect();
            rules?.join(" | ")
        } else if is("object") {
            self.any(&rule, "object")
        } else {
            self.any(&rule, "value")
        };
        self.form.rule(&rule, &body);
        Ok(rule)
    }

    /// Anything, in rules of its own.
    fn any(&mut self, of: &str, what: &str) -> String {
        let name = |part: &str| format!("{of}_any_{part}");
        let (object, array, text, value) = (name("object"), name("array"), name("text"), name("value"));
        // Whether it can be written does not depend on the schema.
        let _ = self.form.text_value(&text, &json!({ "type": "string" }), self.tool, self.quote);
        let pair = format!("/[^\\s{{}}\\[\\],:\"<>|]{{1,40}}/ \":\" {value}");
        self.form.rule(&object, &format!("\"{{\" ({pair} (\",\" {pair})*)? \"}}\""));
        self.form.rule(&array, &format!("\"[\" ({value} (\",\" {value})*)? \"]\""));
        let scalar = "%json {\"type\": [\"number\", \"boolean\", \"null\"]}";
        self.form.rule(&format!("{of}_any_scalar"), scalar);
        let mark = self.quote.lark();
        self.form.rule(&value, &format!("{mark}{text}_closed | {of}_any_scalar | {object} | {array}"));
        if what == "object" { object } else { value }
    }
}
