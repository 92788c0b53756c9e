//! What a request's address says: a name in its path, fields in its query.

use super::body::short;
use crate::problem::Problem;
use axum::RequestPartsExt;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// The name in the path.
pub struct At(pub String);

impl<S: Send + Sync> FromRequestParts<S> for At {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let name = parts.extract::<Path<String>>().await;
        name.map(|Path(name)| Self(name)).map_err(|error| Problem::invalid(short(&error.body_text())))
    }
}

/// The fields of the query.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned + 'static, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let fields = parts.extract::<Query<T>>().await;
        fields.map(|Query(fields)| Self(fields)).map_err(|error| Problem::invalid(short(&error.body_text())))
    }
}
