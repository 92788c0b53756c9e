//! Operations: routes with what they take and give. The router and `/openapi.json` are both made from them.

use crate::App;
use axum::Router;
use axum::handler::Handler;
use axum::routing::MethodRouter;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// One method of one path.
pub struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    handler: MethodRouter<Arc<App>>,
    query: Option<Value>,
    body: Option<(&'static str, Value)>,
    answers: Map<String, Value>,
}

const JSON: &str = "application/json";

fn new(method: &'static str, path: &'static str, summary: &'static str, handler: MethodRouter<Arc<App>>) -> Operation {
    Operation { method, path, summary, handler, query: None, body: None, answers: Map::new() }
}

pub fn get<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, summary: &'static str, handler: H) -> Operation {
    new("get", path, summary, axum::routing::get(handler))
}

pub fn post<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, summary: &'static str, handler: H) -> Operation {
    new("post", path, summary, axum::routing::post(handler))
}

pub fn delete<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, summary: &'static str, handler: H) -> Operation {
    new("delete", path, summary, axum::routing::delete(handler))
}

impl Operation {
    /// Fields of its body of JSON; more than one struct may have some.
    pub fn takes<T: JsonSchema>(self) -> Self {
        self.takes_as::<T>(JSON)
    }

    /// Fields of its form; besides those, it has a file.
    #[cfg(feature = "audio")]
    pub fn takes_form<T: JsonSchema>(self) -> Self {
        let mut form = self.takes_as::<T>("multipart/form-data");
        if let Some((_, body)) = &mut form.body {
            // All its fields are texts: none is `null`.
            body["additionalProperties"] = false.into();
            for (_, property) in body["properties"].as_object_mut().into_iter().flatten() {
                if let Some(kinds) = property["type"].as_array_mut() {
                    kinds.retain(|kind| kind != "null");
                }
            }
            body["properties"]["file"] = json!({ "type": "string", "format": "binary" });
            body["required"] = json!(["file"]);
        }
        form
    }

    fn takes_as<T: JsonSchema>(mut self, media: &'static str) -> Self {
        let (_, body) = self.body.get_or_insert_with(|| {
            // What is null is not there.
            (media, json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": { "type": "null" } }))
        });
        let own = schema::<T>();
        if let (Some(all), Value::Object(own)) = (body["properties"].as_object_mut(), own["properties"].clone()) {
            all.extend(own);
        }
        if let (Some(all), Value::Array(own)) = (body["required"].as_array_mut(), own["required"].clone()) {
            all.extend(own);
        }
        self
    }

    /// Fields of its body that change nothing.
    pub fn ignores(mut self, names: &[&str]) -> Self {
        if let Some((_, body)) = &mut self.body {
            names.iter().for_each(|name| body["properties"][*name] = json!({ "description": "Changes nothing." }));
        }
        self
    }

    /// Fields of its query.
    pub fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(schema::<T>());
        self
    }

    /// What it answers, as `shape` writes it; said twice, either.
    pub fn gives(mut self, shape: Value) -> Self {
        let schema = match self.answers.get_mut(JSON) {
            Some(other) => json!({ "anyOf": [other["schema"].take(), of_shape(&shape)] }),
            None => of_shape(&shape),
        };
        self.answers.insert(JSON.into(), json!({ "schema": schema }));
        self
    }

    /// A text of another kind that it can answer.
    pub fn gives_text(mut self, media: &str) -> Self {
        self.answers.insert(media.into(), json!({ "schema": { "type": "string" } }));
        self
    }

    fn document(&self, error: &Value) -> Value {
        let mut parameters = Vec::new();
        let names = self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        let names = names.map(|name| name.trim_start_matches('*'));
        parameters.extend(
            names.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })),
        );
        for (name, schema) in self.query.iter().flat_map(|query| query["properties"].as_object()).flatten() {
            parameters.push(json!({ "name": name, "in": "query", "schema": schema }));
        }
        let error = json!({ "content": { JSON: { "schema": error } } });
        let fault = |what: &str| {
            let mut fault = error.clone();
            fault["description"] = what.into();
            fault
        };
        let mut document = json!({
            "summary": self.summary,
            "parameters": parameters,
            "responses": {
                "200": { "description": "The answer.", "content": self.answers },
                "4XX": fault("The request cannot be answered."),
                "5XX": fault("The server cannot answer it now."),
            },
        });
        if let Some((media, schema)) = &self.body {
            document["requestBody"] = json!({ "required": true, "content": { *media: { "schema": schema } } });
        }
        document
    }
}

/// The router of all operations.
pub fn router(operations: Vec<Operation>) -> Router<Arc<App>> {
    operations.into_iter().fold(Router::new(), |router, operation| {
        // Many programs are given an address without `/v1`; llama.cpp's server has something else at this one.
        let bare = operation.path.strip_prefix("/v1").filter(|bare| *bare != "/completions");
        let router = match bare {
            Some(bare) => router.route(bare, operation.handler.clone()),
            None => router,
        };
        router.route(operation.path, operation.handler)
    })
}

/// What OpenAPI says of all operations; `error` gives an error as a path has it, every text in it there.
pub fn document(operations: &[Operation], error: impl Fn(&str) -> Value) -> Value {
    let mut paths = Map::new();
    for operation in operations {
        let error = of_error(&error(operation.path));
        let path = paths.entry(operation.path.replace("{*", "{")).or_insert_with(|| json!({}));
        path[operation.method] = operation.document(&error);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Akunu", "version": env!("CARGO_PKG_VERSION") },
        "components": { "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } } },
        // A key is needed where there are keys.
        "security": [{}, { "key": [] }],
        "paths": paths,
    })
}

/// The schema of a struct, with everything in its place.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        ["title", "description"].iter().for_each(|name| drop(schema.remove(*name)));
    }
    schema
}

/// A schema from its shape: names of types, `?` after them where there may be null, `=` before a text that is always the
/// same; lists of one shape; objects, with `?` after names of fields that may be missing.
fn of_shape(shape: &Value) -> Value {
    match shape {
        Value::String(kind) if kind == "any" => json!({}),
        Value::String(kind) => match (kind.strip_prefix('='), kind.strip_suffix('?')) {
            (Some(text), _) => json!({ "const": text }),
            (None, Some(kind)) => json!({ "type": [kind, "null"] }),
            (None, None) => json!({ "type": kind }),
        },
        Value::Array(of) => json!({ "type": "array", "items": of.first().map_or(json!({}), of_shape) }),
        Value::Object(fields) => {
            let bare = |name: &String| name.trim_end_matches('?').to_owned();
            let properties: Map<_, _> = fields.iter().map(|(name, shape)| (bare(name), of_shape(shape))).collect();
            let required: Vec<&String> = fields.keys().filter(|name| !name.ends_with('?')).collect();
            json!({ "type": "object", "properties": properties, "required": required })
        }
        other => other.clone(),
    }
}

/// The schema of errors like this one.
fn of_error(error: &Value) -> Value {
    match error {
        Value::Object(fields) => {
            let properties: Map<_, _> = fields.iter().map(|(name, field)| (name.clone(), of_error(field))).collect();
            let required: Vec<&String> = fields.keys().collect();
            json!({ "type": "object", "properties": properties, "required": required })
        }
        _ => json!({ "type": ["string", "null"] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_become_schemas() {
        let shape = json!({ "object": "=list", "data": [{ "id": "string", "text?": "string?" }] });
        let item = json!({
            "type": "object",
            "properties": { "id": { "type": "string" }, "text": { "type": ["string", "null"] } },
            "required": ["id"],
        });
        let expected = json!({
            "type": "object",
            "properties": { "object": { "const": "list" }, "data": { "type": "array", "items": item } },
            "required": ["object", "data"],
        });
        assert_eq!(of_shape(&shape), expected);
    }
}
