//! Forms with a file, as recordings are sent.

use super::bodies::Held;
use super::body::{Fields, fits, short, too_large};
use crate::App;
use crate::problem::{Kind, Problem};
use axum::RequestExt;
use axum::extract::multipart::MultipartError;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The fields of a form of several parts, and the file in its part `file`.
#[derive(Debug)]
pub struct Form {
    pub fields: Fields,
    pub file: Bytes,
    /// The file's place among all bodies.
    pub held: Held,
}

impl FromRequest<Arc<App>> for Form {
    type Rejection = Problem;

    async fn from_request(mut request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let limits = &app.options.limits;
        fits(request.body(), limits.upload)?;
        DefaultBodyLimit::max(limits.upload).apply(&mut request);
        let held = request.extensions().get::<Held>().cloned().unwrap_or_default();
        let form = request.extract::<Multipart, _>().await.map_err(|e| Problem::invalid(short(&e.body_text())))?;
        let late = |_| Problem::new(Kind::TimedOut, "the body took too long to arrive");
        tokio::time::timeout(limits.body_time, read(form, held, limits.upload)).await.map_err(late)?
    }
}

async fn read(mut form: Multipart, held: Held, most: usize) -> Result<Form, Problem> {
    let fault = |error: MultipartError| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(most),
        _ => Problem::invalid(format!("the form cannot be read: {}", short(&error.body_text()))),
    };
    let (mut fields, mut file) = (Map::new(), None);
    while let Some(part) = form.next_field().await.map_err(fault)? {
        let name = part.name().unwrap_or_default().to_owned();
        if name == "file" && file.is_none() {
            file = Some(part.bytes().await.map_err(fault)?);
            continue;
        }
        let value = part.text().await.map_err(fault)?.into();
        if name.ends_with("[]")
            && let Value::Array(list) = fields.entry(&name).or_insert_with(|| Value::Array(Vec::new()))
        {
            list.push(value);
        } else if name == "file" || fields.insert(name.clone(), value).is_some() {
            let name = short(&name);
            return Err(Problem::field(&name, format!("{name} is there twice")));
        }
    }
    let file = file.ok_or_else(|| Problem::field("file", "file is missing").code("missing_field"))?;
    Ok(Form { fields: fields.into(), file, held })
}
