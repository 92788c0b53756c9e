//! Bodies of requests: read within a limit, taken apart field by field, and every fault named by its field.

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde_json::{Map, Value};
use std::sync::Arc;

use crate::App;
use crate::problem::{Kind, Problem};

/// The fields of a body of JSON. What nobody takes or ignores is an error: a field that would have changed the answer is
/// never passed over in silence.
#[derive(Debug)]
pub struct Fields(Map<String, Value>);

impl FromRequest<Arc<App>> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let limits = &app.options.limits;
        fits(request.body(), limits.body)?;
        let read = bytes(request.into_body(), limits.body);
        let late = |_| Problem::new(Kind::TimedOut, "the body took too long to arrive");
        Self::parse(&tokio::time::timeout(limits.body_time, read).await.map_err(late)??)
    }
}

/// The fields of a field.
impl From<Map<String, Value>> for Fields {
    fn from(fields: Map<String, Value>) -> Self {
        Self(fields)
    }
}

impl Fields {
    pub fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(Problem::invalid("the body must be a JSON object")),
            Err(error) => Err(Problem::invalid(format!("the body is not JSON: {}", short(&error.to_string())))),
        }
    }

    /// The fields of a struct whose own are all optional, or required.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<T, Problem> {
        let mut own = Map::new();
        for name in names_of::<T>() {
            // `null` says that a field is not there.
            if let Some(value) = self.0.remove(*name)
                && !value.is_null()
            {
                own.insert((*name).to_owned(), value);
            }
        }
        read(Value::Object(own), "")
    }

    /// Reads one field's text as JSON: forms have only texts.
    #[cfg(feature = "audio")]
    pub fn as_json(&mut self, name: &str) {
        if let Some(field) = self.0.get_mut(name)
            && let Some(value) = field.as_str().and_then(|text| serde_json::from_str(text).ok())
        {
            *field = value;
        }
    }

    /// One field.
    pub fn field<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Problem> {
        self.0.remove(name).filter(|v| !v.is_null()).map(|value| read(value, name)).transpose()
    }

    /// Lets fields be that change nothing in the answer.
    pub fn ignore(&mut self, names: &[&str]) {
        names.iter().for_each(|name| drop(self.0.remove(*name)));
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<(), Problem> {
        match self.0.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => {
                let name = short(name);
                Err(Problem::field(&name, format!("{name} is not a field that this server knows"))
                    .code("unknown_field"))
            }
        }
    }
}

/// A value as something of our own; a fault names the path to it.
pub fn read<T: DeserializeOwned>(value: Value, at: &str) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = match (at, path.as_str()) {
            (at, ".") => at.to_owned(),
            ("", path) => path.to_owned(),
            (at, path) if path.starts_with('[') => format!("{at}{path}"),
            (at, path) => format!("{at}.{path}"),
        };
        let what = error.inner().to_string();
        // What else there could have been is in the documentation.
        let what = short(what.split(", expected one of").next().unwrap_or_default());
        match short(&path) {
            path if path.is_empty() => Problem::invalid(what),
            path => Problem::field(path.clone(), format!("{path}: {what}")),
        }
    })
}

/// The names of a struct's fields, as it asks a deserializer for them.
fn names_of<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Names(&'static [&'static str]);
    impl<'de> Deserializer<'de> for &mut Names {
        type Error = serde::de::value::Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Self::Error> {
            self.0 = fields;
            Err(serde::de::Error::custom("only the names"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(serde::de::Error::custom("not a struct"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let mut names = Names(&[]);
    let _ = T::deserialize(&mut names);
    names.0
}

/// Refuses a body that says itself that it is too large, before any of it is read.
pub fn fits(body: &Body, most: usize) -> Result<(), Problem> {
    if body.size_hint().lower() > most as u64 { Err(too_large(most)) } else { Ok(()) }
}

pub fn too_large(most: usize) -> Problem {
    Problem::new(Kind::TooLarge, format!("the body has more than {most} bytes"))
}

/// A body of at most so many bytes.
pub async fn bytes(body: Body, most: usize) -> Result<bytes::Bytes, Problem> {
    axum::body::to_bytes(body, most).await.map_err(|error| {
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(current) = cause {
            if current.is::<http_body_util::LengthLimitError>() {
                return too_large(most);
            }
            cause = current.source();
        }
        Problem::invalid("the body ended before it was complete")
    })
}

/// As much of a stranger's text as an error may hold.
pub fn short(text: &str) -> String {
    const MOST: usize = 200;
    let line: String = text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() < text.len() { line + "…" } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct Outer {
        inner: Option<Vec<Inner>>,
        top_p: Option<f32>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code)]
        n: u32,
    }

    fn fault(text: &str) -> Problem {
        let outer = |mut fields: Fields| fields.take::<Outer>().and_then(|outer| fields.end().map(|()| outer));
        Fields::parse(text.as_bytes()).and_then(outer).unwrap_err()
    }

    #[test]
    fn a_fault_names_its_field() {
        assert_eq!(fault(r#"{"inner":[{"n":1},{"n":-1}]}"#).field.as_deref(), Some("inner[1].n"));
        assert_eq!(fault(r#"{"top_p":"much"}"#).field.as_deref(), Some("top_p"));
        let unknown = fault(r#"{"inner":[{"n":1,"m":2}]}"#);
        assert!(unknown.message.contains("unknown field `m`"), "{}", unknown.message);
        assert_eq!(fault(r#"{"top_q":1}"#).field.as_deref(), Some("top_q"));
        assert!(fault("{").message.contains("not JSON"));
        assert!(fault("[]").message.contains("object"));
        assert!(fault("{\"inner\":[]} x").message.contains("not JSON"));
        assert!(fault(&"[".repeat(1 << 20)).message.contains("recursion"));
        assert!(fault(&format!("{{\"{}\":1}}", "x".repeat(1 << 20))).message.len() < 600);
    }

    #[test]
    fn what_is_null_is_not_there() {
        let mut fields = Fields::parse(br#"{"inner":null,"top_p":0.5,"else":null}"#).unwrap();
        let outer: Outer = fields.take().unwrap();
        assert!(outer.inner.is_none() && outer.top_p == Some(0.5));
        fields.end().unwrap();
    }
}
