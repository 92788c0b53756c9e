//! Downloads that can be continued: a partial file beside the destination, checked before it gets its name.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body};

use super::error::Error;

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

/// Told the bytes that are there and those there will be.
pub type Progress<'a> = dyn FnMut(u64, Option<u64>) + 'a;

/// Larger than any model file.
pub const MAX_FILE: u64 = 1 << 41;
/// The largest list of files.
const MAX_LIST: u64 = 32 << 20;
const MAX_REDIRECTS: usize = 8;
/// Attempts that get something before it is left to the user to go on.
const ATTEMPTS: usize = 4;

pub struct Client {
    agent: Agent,
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
            .timeout_connect(Some(patience))
            .timeout_recv_response(Some(patience))
            .user_agent(concat!("akunu/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: Agent::new_with_config(config) }
    }

    /// A small text, such as a list of files.
    pub fn text(&self, url: &str, token: Option<&str>) -> Result<String, Error> {
        let mut answer = self.get(url, token, &[])?;
        refuse(url, answer.response.status())?;
        let body = answer.response.body_mut().with_config().limit(MAX_LIST).read_to_string();
        body.map_err(|e| Error::Unreachable { url: url.into(), reason: e.to_string() })
    }

    /// Downloads to `path`, continuing what an earlier attempt left beside it.
    pub fn download(&self, what: &Download, path: &Path, progress: &mut Progress<'_>) -> Result<(), Error> {
        let mut partial = Partial::open(path)?;
        let mut attempts = ATTEMPTS;
        loop {
            let before = partial.len;
            let result = self.attempt(what, &mut partial, progress);
            attempts = if partial.len > before { ATTEMPTS } else { attempts.saturating_sub(1) };
            match result {
                // Silence and broken connections are worth another try where they brought something.
                Err(Error::Interrupted { .. }) if attempts > 1 => attempts -= 1,
                Err(error) => return Err(error),
                Ok(sha256) => return partial.publish(path, what.sha256.clone().or(sha256)),
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
        let range = format!("bytes={}-", partial.len);
        let mut headers = Vec::new();
        if partial.len > 0 {
            headers.push((header::RANGE, range));
            // Where the file has changed meanwhile, it comes whole.
            headers.extend(partial.tag.clone().map(|tag| (header::IF_RANGE, tag)));
        }
        let Answer { mut response, sha256 } = self.get(url, what.token.as_deref(), &headers)?;
        let status = response.status();
        let length = number(&response, header::CONTENT_LENGTH.as_str());
        match status {
            StatusCode::PARTIAL_CONTENT if content_start(&response) == Some(partial.len) => {}
            StatusCode::RANGE_NOT_SATISFIABLE if partial.len > 0 => {
                // All of it is here, or what is here is of another file.
                if content_total(&response) == Some(partial.len) {
                    return Ok(sha256);
                }
                partial.restart()?;
                return Err(Error::Interrupted { url: url.clone(), received: 0, expected: None });
            }
            StatusCode::OK => partial.restart()?,
            StatusCode::PARTIAL_CONTENT => {
                partial.restart()?;
                return Err(Error::Interrupted { url: url.clone(), received: 0, expected: None });
            }
            status => refuse(url, status)?,
        }
        let expected = length.map(|l| partial.len.saturating_add(l));
        let too_large = || Error::TooLarge { url: url.clone(), limit: what.limit };
        if expected.is_some_and(|e| e > what.limit) {
            return Err(too_large());
        }
        partial.remember(text(&response, header::ETAG.as_str()))?;
        progress(partial.len, expected);

        let mut body = response.body_mut().with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; 1 << 18];
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(Error::Interrupted { url: url.clone(), received: partial.len, expected }),
            };
            if partial.len + count as u64 > what.limit {
                partial.restart()?;
                return Err(too_large());
            }
            partial.append(&buffer[..count])?;
            progress(partial.len, expected);
        }
        if expected.is_some_and(|e| partial.len < e) {
            return Err(Error::Interrupted { url: url.clone(), received: partial.len, expected });
        }
        Ok(sha256)
    }

    /// Follows redirects by hand: the hub says the hash beside the first one, and the token is for the first host.
    fn get(&self, url: &str, token: Option<&str>, headers: &[(header::HeaderName, String)]) -> Result<Answer, Error> {
        let mut sha256 = None;
        let mut at = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.agent.get(&at);
            for (name, value) in headers {
                request = request.header(name, value);
            }
            if let Some(token) = token.filter(|_| host(&at) == host(url)) {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            let response = request.call().map_err(|e| Error::Unreachable { url: at.clone(), reason: e.to_string() })?;
            sha256 = sha256.or_else(|| linked_hash(&response));
            let target = text(&response, header::LOCATION.as_str()).filter(|_| response.status().is_redirection());
            match target {
                None => return Ok(Answer { response, sha256 }),
                Some(target) => at = resolve(&at, &target),
            }
        }
        Err(Error::Redirects { url: url.into() })
    }
}

fn refuse(url: &str, status: StatusCode) -> Result<(), Error> {
    match status {
        s if s.is_success() => Ok(()),
        StatusCode::NOT_FOUND => Err(Error::NotFound { url: url.into() }),
        s => Err(Error::Status { url: url.into(), status: s.as_u16() }),
    }
}

fn text(response: &Response<Body>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn number(response: &Response<Body>, name: &str) -> Option<u64> {
    text(response, name)?.trim().parse().ok()
}

/// `x` of `Content-Range: bytes x-y/z`.
fn content_start(response: &Response<Body>) -> Option<u64> {
    text(response, header::CONTENT_RANGE.as_str())?.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// `z` of `Content-Range: bytes x-y/z`.
fn content_total(response: &Response<Body>) -> Option<u64> {
    text(response, header::CONTENT_RANGE.as_str())?.rsplit('/').next()?.parse().ok()
}

/// The hash of a large file of the hub.
fn linked_hash(response: &Response<Body>) -> Option<String> {
    let tag = text(response, "x-linked-etag")?;
    let tag = tag.trim_matches('"').to_ascii_lowercase();
    (tag.len() == 64 && tag.bytes().all(|b| b.is_ascii_hexdigit())).then_some(tag)
}

/// `scheme://host:port` of a URL.
fn host(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

/// A redirect's target, which may be without its host.
fn resolve(from: &str, target: &str) -> String {
    if target.contains("://") {
        target.to_owned()
    } else if target.starts_with('/') {
        format!("{}{target}", host(from))
    } else {
        let folder = from.rfind('/').map_or(from, |at| &from[..=at]);
        format!("{folder}{target}")
    }
}

/// What is there of a file: `NAME.part`, and in `NAME.part.tag` which version of the file it is.
struct Partial {
    path: PathBuf,
    tag_path: PathBuf,
    file: File,
    len: u64,
    tag: Option<String>,
}

impl Partial {
    fn open(destination: &Path) -> Result<Self, Error> {
        let beside = |suffix: &str| {
            let mut name = destination.file_name().unwrap_or_default().to_owned();
            name.push(suffix);
            destination.with_file_name(name)
        };
        let (path, tag_path) = (beside(".part"), beside(".part.tag"));
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(Error::io(&path))?;
        let len = file.metadata().map_err(Error::io(&path))?.len();
        let tag = fs::read_to_string(&tag_path).ok();
        Ok(Self { path, tag_path, file, len, tag })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(Error::io(&self.path))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Error> {
        self.file.set_len(0).map_err(Error::io(&self.path))?;
        self.len = 0;
        self.remember(None)
    }

    fn remember(&mut self, tag: Option<String>) -> Result<(), Error> {
        match &tag {
            Some(tag) => fs::write(&self.tag_path, tag).map_err(Error::io(&self.tag_path))?,
            None => drop(fs::remove_file(&self.tag_path)),
        }
        self.tag = tag;
        Ok(())
    }

    /// Checks the hash and gives the file its name.
    fn publish(mut self, path: &Path, sha256: Option<String>) -> Result<(), Error> {
        self.file.sync_all().map_err(Error::io(&self.path))?;
        if let Some(expected) = sha256 {
            let found = sha256_of(&self.path)?;
            if !found.eq_ignore_ascii_case(&expected) {
                self.restart()?;
                drop(fs::remove_file(&self.path));
                return Err(Error::WrongHash { what: path.display().to_string(), expected, found });
            }
        }
        drop(fs::remove_file(&self.tag_path));
        fs::rename(&self.path, path).map_err(Error::io(path))
    }
}

/// The sha256 of a file, in lower-case hexadecimal.
pub fn sha256_of(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer).map_err(Error::io(path))? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(&buffer[..count]),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
