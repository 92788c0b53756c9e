//! What can be wrong with a recording: one sentence each, naming the file.

use std::fmt;
use std::io;

use akunu_limits::Over;

/// A fault and the recording it is in. Its only `source` is the limit that the recording is over.
#[derive(Debug)]
pub struct Error {
    pub name: String,
    pub fault: Fault,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.fault)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::TooLong { over } => Some(over),
            _ => None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    #[error("cannot be read: {0}")]
    Read(io::Error),
    #[error("is {0}, not a regular file")]
    NotAFile(&'static str),
    #[error("is empty")]
    Empty,
    #[error("is not audio in a known format (known: wav, mp3, flac, ogg/vorbis, m4a/aac)")]
    UnknownFormat,
    #[error("not supported: {0}")]
    NotSupported(String),
    #[error("is damaged or of a kind that is not supported: {0}")]
    Malformed(String),
    #[error("has no audio in it that can be decoded")]
    NoAudio,
    #[error("has a sample that is not a finite number, {seconds:.2} s after its start")]
    NotFinite { seconds: f64 },
    #[error("changes its sample rate from {from} to {to} Hz on the way, which is not supported")]
    RateChanged { from: u32, to: u32 },
    #[error("is longer than {over} seconds")]
    TooLong { over: Over },
    #[error("was changed while it was read")]
    Changed,
}
