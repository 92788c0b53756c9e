//! Who may ask: a known key, from a page of ours or no page at all, by a name that is ours.

use super::listen::Peer;
use super::rate::Who;
use crate::App;
use crate::problem::{Kind, Problem};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;

/// Keys, as hashes: comparing hashes takes the same time however much of a key is right.
#[derive(Debug)]
pub struct Keys(Vec<[u8; 32]>);

impl Keys {
    pub fn new(keys: &[String]) -> Self {
        Self(keys.iter().map(|key| Sha256::digest(key.as_bytes()).into()).collect())
    }

    /// The place of a key among those that are known; `None` where a key is needed and this is none.
    fn place(&self, key: Option<&str>) -> Option<Option<usize>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let hash: [u8; 32] = Sha256::digest(key?.as_bytes()).into();
        // All are compared, to the end.
        let equal = |known: &[u8; 32]| known.iter().zip(hash).fold(0, |d, (a, b)| d | (a ^ b)) == 0;
        let found =
            self.0.iter().enumerate().fold(None, |found, (i, known)| if equal(known) { Some(i) } else { found });
        found.map(Some)
    }
}

/// The key of a request: as OpenAI's clients send it, or Anthropic's.
fn key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let bearer = bearer.and_then(|v| v.strip_prefix("Bearer ").or_else(|| v.strip_prefix("bearer ")));
    bearer.map(str::trim).or_else(|| headers.get("x-api-key").and_then(|v| v.to_str().ok()))
}

/// Paths that say nothing about anybody.
fn is_public(path: &str) -> bool {
    matches!(path, "/" | "/health" | "/ready" | "/favicon.ico")
}

/// A middleware before everything else.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let checked = check(&app, &request);
    let mut response = match checked {
        Err(problem) => problem.into_response(),
        Ok(()) if request.method() == Method::OPTIONS => ().into_response(),
        Ok(()) => next.run(request).await,
    };
    // A page elsewhere may read the answer only where it was allowed to ask.
    if let Some(origin) = origin
        && is_allowed(&app.options.origins, &origin)
    {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE, OPTIONS"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, authorization"));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    response
}

fn check(app: &App, request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|v| v.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(|a| a.as_str()));
    let Some(host) = host.filter(|host| is_ours(&app.options.hosts, host)) else {
        let sentence = "the request's Host is not this server; `--allow-host` adds names";
        return Err(Problem::new(Kind::Forbidden, sentence).code("host_not_allowed"));
    };
    if let Some(origin) = headers.get(header::ORIGIN)
        && !is_allowed(&app.options.origins, origin)
        && !is_same(origin, host)
    {
        let sentence = "pages of another origin may not ask this server; `--allow-origin` adds origins";
        return Err(Problem::new(Kind::Forbidden, sentence).code("origin_not_allowed"));
    }
    let asks_first = request.method() == Method::OPTIONS;
    if asks_first || is_public(request.uri().path()) {
        return Ok(());
    }
    let Some(place) = app.keys.place(key(headers)) else {
        return Err(Problem::new(Kind::Unauthorized, "a valid API key is needed").code("invalid_api_key"));
    };
    let address = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
    match place.map(Who::Key).or(address.map(Who::Address)) {
        Some(who) => app.rates.take(who),
        None => Ok(()),
    }
}

/// Whether a `Host` is an address, `localhost`, or one of the names of this server: a name that somebody else's server
/// resolves to our address is none of these.
fn is_ours(hosts: &[String], host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok()
        || hosts.iter().any(|h| h == "*" || h.eq_ignore_ascii_case(name))
}

fn is_allowed(origins: &[String], origin: &HeaderValue) -> bool {
    origins.iter().any(|o| o == "*" || o.as_bytes() == origin.as_bytes())
}

/// Whether an origin is the server that it asks.
fn is_same(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    origin.split_once("://").is_some_and(|(scheme, o)| scheme.starts_with("http") && o.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_not_ours() {
        let hosts = ["models.example".to_owned()];
        for ours in ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "10.0.0.7", "models.example:80"] {
            assert!(is_ours(&hosts, ours), "{ours}");
        }
        for other in ["evil.example", "127.0.0.1.evil.example:8080", "", "models.example.evil", "localhost.evil"] {
            assert!(!is_ours(&hosts, other), "{other}");
        }
    }

    #[test]
    fn a_key_is_right_as_a_whole_or_not_at_all() {
        let keys = Keys::new(&["secret".into(), "other".into()]);
        assert_eq!((keys.place(Some("secret")), keys.place(Some("other"))), (Some(Some(0)), Some(Some(1))));
        for wrong in [None, Some(""), Some("secre"), Some("secrets"), Some("Secret")] {
            assert_eq!(keys.place(wrong), None, "{wrong:?}");
        }
        assert_eq!(Keys::new(&[]).place(None), Some(None));
    }
}
