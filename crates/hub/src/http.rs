//! Downloads over HTTP: continued where they broke, bounded in time and size, checked before they get their name.

use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body};

use crate::error::{Cut, Error};
use crate::partial::{Partial, Progress};

/// What to download and what is known of it.
#[derive(Clone, Debug, Default)]
pub struct Download {
    pub url: String,
    /// Lower-case hexadecimal; a hub that says its own is believed where this is `None`.
    pub sha256: Option<String>,
    /// No more than this is written.
    pub limit: u64,
    /// Sent to the first host only.
    pub token: Option<String>,
}

/// Larger than any model file.
pub const MAX_FILE: u64 = 1 << 41;
/// The largest list of files.
const MAX_LIST: u64 = 32 << 20;
const MAX_HEADERS: usize = 64 << 10;
const MAX_REDIRECTS: usize = 8;
/// Attempts one after the other that bring too little each, before it is left to the user to go on.
pub const ATTEMPTS: usize = 4;
const ENOUGH: u64 = 64 << 10;
/// Before the second attempt; twice that before the third, and so on.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes a second; whoever sends less for as long as patience lasts sends too slowly.
const LEAST_RATE: f64 = 1024.0;
/// How long hosts may take to connect to, where patience is greater: behind a firewall nobody answers.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest that one answer may take, however its bytes come.
const LONGEST: Duration = Duration::from_secs(12 * 3600);

pub struct Client {
    agent: Agent,
    patience: Duration,
}

impl Default for Client {
    fn default() -> Self {
        Self::new(Duration::from_secs(30))
    }
}

/// An answer after redirects, and what was learnt on the way.
struct Answer {
    response: Response<Body>,
    /// The file's hash as the hub gives it: its large files are stored under it.
    sha256: Option<String>,
}

impl Client {
    /// `patience`: how long a host may stay silent.
    pub fn new(patience: Duration) -> Self {
        let config = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_response_header_size(MAX_HEADERS)
            .timeout_resolve(Some(patience.min(CONNECT)))
            .timeout_connect(Some(patience.min(CONNECT)))
            .timeout_recv_response(Some(patience))
            .timeout_per_read(Some(patience))
            .timeout_per_write(Some(patience))
            .timeout_recv_body(Some(LONGEST))
            .user_agent(concat!("akunu/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: Agent::new_with_config(config), patience }
    }

    /// How long another process may leave a file of ours as it is.
    pub(crate) fn patience_with_others(&self) -> Duration {
        10 * self.patience
    }

    /// A small text, such as a list of files.
    pub fn text(&self, url: &str, token: Option<&str>) -> Result<String, Error> {
        let mut answer = self.get(url, token, &[])?;
        if answer.response.status() != StatusCode::OK {
            return Err(refusal(url, answer.response.status()));
        }
        let unreachable = |reason: String| Error::Unreachable { url: url.into(), reason };
        let mut body = answer.response.body_mut().with_config().limit(MAX_LIST).reader();
        let (mut bytes, mut buffer, mut pace) = (Vec::new(), vec![0; 1 << 16], Pace::new(self.patience));
        loop {
            let count = body.read(&mut buffer).map_err(|e| unreachable(e.to_string()))?;
            if count == 0 {
                return String::from_utf8(bytes).map_err(|e| unreachable(e.to_string()));
            }
            if !pace.holds(count) {
                return Err(unreachable(format!("it {}", Cut::Slow)));
            }
            bytes.extend(&buffer[..count]);
        }
    }

    /// Downloads to `path`, continuing what an earlier attempt left beside it. A file that is there is left as it is.
    pub fn download(&self, what: &Download, path: &Path, progress: &mut Progress<'_>) -> Result<(), Error> {
        let Some(mut partial) = Partial::open(path, self.patience_with_others(), progress)? else { return Ok(()) };
        let (begun, mut futile) = (partial.len(), 0);
        loop {
            let before = partial.len();
            let result = match self.attempt(what, &mut partial, progress) {
                // Whoever has sent something may be back soon.
                Err(Error::Unreachable { url, .. }) if before > begun => {
                    Err(Error::Interrupted { url, how: Cut::Gone, received: before, expected: None })
                }
                result => result,
            };
            match result {
                Ok(sha256) => return partial.publish(None, what.sha256.as_deref().or(sha256.as_deref())),
                Err(error @ Error::Interrupted { .. }) => {
                    futile = if partial.len() >= before + ENOUGH { 0 } else { futile + 1 };
                    if futile == ATTEMPTS {
                        return Err(error);
                    }
                    thread::sleep(PAUSE * futile as u32);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One request; gives the hash that the hub names.
    fn attempt(
        &self,
        what: &Download,
        partial: &mut Partial,
        progress: &mut Progress<'_>,
    ) -> Result<Option<String>, Error> {
        let url = &what.url;
        let mut headers = Vec::new();
        if partial.len() > 0 {
            headers.push((header::RANGE, format!("bytes={}-", partial.len())));
            // Where the file has changed meanwhile, it comes whole.
            headers.extend(partial.tag().map(|tag| (header::IF_RANGE, tag.to_owned())));
        }
        let Answer { mut response, sha256 } = self.get(url, what.token.as_deref(), &headers)?;
        if let (Some(expected), Some(found)) = (&what.sha256, &sha256)
            && !expected.eq_ignore_ascii_case(found)
        {
            return Err(Error::OtherFile { url: url.clone(), expected: expected.clone(), found: found.clone() });
        }
        let cut = |how, received, expected| Err(Error::Interrupted { url: url.clone(), how, received, expected });
        let range = text(&response, header::CONTENT_RANGE.as_str()).map(|text| Range::read(&text)).unwrap_or_default();
        // Bytes of this body, and of the whole file.
        let (length, expected) = match response.status() {
            StatusCode::OK => {
                partial.restart()?;
                let length = number(&response, header::CONTENT_LENGTH.as_str());
                (length, length)
            }
            StatusCode::PARTIAL_CONTENT if range.start == Some(partial.len()) => (range.length(), range.total),
            // All of it is here.
            StatusCode::RANGE_NOT_SATISFIABLE if partial.len() > 0 && range.total == Some(partial.len()) => {
                return Ok(sha256);
            }
            // A piece that was not asked for; or what is here is of another file.
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                partial.restart()?;
                return cut(Cut::WrongRange, 0, None);
            }
            status => return Err(refusal(url, status)),
        };
        let too_large = || Error::TooLarge { url: url.clone(), limit: what.limit };
        if expected.is_some_and(|e| e > what.limit) {
            return Err(too_large());
        }
        partial.remember(text(&response, header::ETAG.as_str()).filter(|tag| !tag.starts_with("W/")))?;
        progress(partial.len(), expected);

        let end = length.map(|length| partial.len().saturating_add(length));
        let mut body = response.body_mut().with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; 1 << 18];
        let mut pace = Pace::new(self.patience);
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return cut(cause(&e), partial.len(), expected),
            };
            let len = partial.len() + count as u64;
            if len > what.limit {
                partial.restart()?;
                return Err(too_large());
            }
            if end.is_some_and(|end| len > end) {
                partial.restart()?;
                return cut(Cut::TooLong, 0, expected);
            }
            partial.append(&buffer[..count])?;
            progress(len, expected);
            if !pace.holds(count) {
                return cut(Cut::Slow, len, expected);
            }
        }
        match expected.or(end).is_some_and(|e| partial.len() != e) {
            true => cut(Cut::Ended, partial.len(), expected),
            false => Ok(sha256),
        }
    }

    /// Follows redirects by hand: the hub says the hash beside the first one, and the token is for the first host.
    fn get(&self, url: &str, token: Option<&str>, headers: &[(header::HeaderName, String)]) -> Result<Answer, Error> {
        let mut sha256 = None;
        let mut at = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let first_host = host(&at) == host(url);
            let mut request = self.agent.get(&at);
            for (name, value) in headers {
                request = request.header(name, value);
            }
            if let Some(token) = token.filter(|_| first_host) {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            let response = request.call().map_err(|e| Error::Unreachable { url: at.clone(), reason: e.to_string() })?;
            if first_host {
                sha256 = sha256.or_else(|| hash_said(&response));
            }
            let target = text(&response, header::LOCATION.as_str()).filter(|_| response.status().is_redirection());
            let Some(target) = target else { return Ok(Answer { response, sha256 }) };
            let next = resolve(&at, &target);
            if at.starts_with("https:") && !next.starts_with("https:") {
                return Err(Error::Insecure { url: url.into(), target: next.chars().take(200).collect() });
            }
            at = next;
        }
        Err(Error::Redirects { url: url.into() })
    }
}

/// Whether bytes come fast enough, over every `window`.
struct Pace {
    window: Duration,
    since: Instant,
    bytes: usize,
}

impl Pace {
    fn new(window: Duration) -> Self {
        Self { window, since: Instant::now(), bytes: 0 }
    }

    fn holds(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let elapsed = self.since.elapsed();
        if elapsed < self.window {
            return true;
        }
        let enough = self.bytes as f64 >= LEAST_RATE * elapsed.as_secs_f64();
        *self = Self::new(self.window);
        enough
    }
}

/// Why a body could not be read on.
fn cause(error: &std::io::Error) -> Cut {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    match inner {
        Some(ureq::Error::Timeout(_)) => Cut::Silent,
        _ if error.kind() == std::io::ErrorKind::TimedOut => Cut::Silent,
        _ => Cut::Ended,
    }
}

fn refusal(url: &str, status: StatusCode) -> Error {
    match status {
        StatusCode::NOT_FOUND => Error::NotFound { url: url.into() },
        status => Error::Status { url: url.into(), status: status.as_u16() },
    }
}

fn text(response: &Response<Body>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn number(response: &Response<Body>, name: &str) -> Option<u64> {
    text(response, name)?.trim().parse().ok()
}

/// `Content-Range: bytes START-LAST/TOTAL`, where `START-LAST` or `TOTAL` may be `*`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Range {
    start: Option<u64>,
    last: Option<u64>,
    total: Option<u64>,
}

impl Range {
    fn read(text: &str) -> Self {
        let Some((range, total)) = text.strip_prefix("bytes ").and_then(|t| t.split_once('/')) else {
            return Self::default();
        };
        let total = total.parse().ok();
        let ends = range.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        // One that does not fit itself is none.
        let sound = |(start, last): &(u64, u64)| start <= last && total.is_none_or(|total| *last < total);
        let (start, last) = ends.filter(sound).unzip();
        Self { start, last, total }
    }

    fn length(&self) -> Option<u64> {
        (self.last? - self.start?).checked_add(1)
    }
}

/// The hash that a hub says of a large file. Only with a commit beside it an `ETag` is a hub's.
fn hash_said(response: &Response<Body>) -> Option<String> {
    let own = || text(response, "x-repo-commit").and_then(|_| text(response, header::ETAG.as_str()));
    let tag = text(response, "x-linked-etag").or_else(own)?;
    let tag = tag.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase();
    (tag.len() == 64 && tag.bytes().all(|b| b.is_ascii_hexdigit())).then_some(tag)
}

/// `scheme://host:port` of a URL.
fn host(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

/// A redirect's target, which may be without its scheme, its host or its folder.
fn resolve(from: &str, target: &str) -> String {
    if let Some((scheme, _)) = from.split_once("//").filter(|_| target.starts_with("//")) {
        format!("{scheme}{target}")
    } else if target.contains("://") {
        target.to_owned()
    } else if target.starts_with('/') {
        format!("{}{target}", host(from))
    } else {
        let path = from.split(['?', '#']).next().unwrap_or_default();
        let folder = path.rfind('/').map_or(path, |at| &path[..=at]);
        format!("{folder}{target}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_do_not_fit_themselves_are_none() {
        let range = |start, last, total| Range { start, last, total };
        assert_eq!(Range::read("bytes 5-9/10"), range(Some(5), Some(9), Some(10)));
        assert_eq!(Range::read("bytes 5-9/*"), range(Some(5), Some(9), None));
        assert_eq!(Range::read("bytes */10"), range(None, None, Some(10)));
        assert_eq!(Range::read("bytes 9-5/10"), range(None, None, Some(10)));
        assert_eq!(Range::read("bytes 5-10/10"), range(None, None, Some(10)));
        assert_eq!(Range::read("bytes 0-18446744073709551615/*").length(), None);
        for nonsense in ["", "bytes", "items 0-1/2", "bytes -1-2/3", "bytes 1/2", "bytes 99999999999999999999-1/2"] {
            assert_eq!(Range::read(nonsense).start, None, "{nonsense}");
        }
    }

    #[test]
    fn redirects_lead_where_browsers_go() {
        for (from, target, to) in [
            ("https://a/b/c?d/e", "f", "https://a/b/f"),
            ("https://a/b/c", "/f", "https://a/f"),
            ("https://a:1/b", "//c/d", "https://c/d"),
            ("https://a/b", "http://c/d", "http://c/d"),
        ] {
            assert_eq!(resolve(from, target), to);
        }
    }
}
