//! What can be wrong with a model file: the file, and one sentence about the fault.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use akunu_limits::Over;

/// A fault and the file it is in; prints as one sentence, the fault included. Its only `source` is the limit that the file
/// is over.
#[derive(Debug)]
pub struct Error {
    pub file: PathBuf,
    pub fault: Fault,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.fault)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::Over { over, .. } => Some(over),
            _ => None,
        }
    }
}

impl Error {
    pub(crate) fn new(file: &Path, fault: Fault) -> Self {
        Self { file: file.to_path_buf(), fault }
    }
}

/// A name out of a file, safe to print: escaped, and cut where it is long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub String);

/// Characters of a name in messages, escapes included: a hostile one could be megabytes.
const PRINTED: usize = 120;

impl Name {
    /// Copies at most what will be printed.
    pub fn new(name: &str) -> Self {
        let mut printed = 0;
        let end = name.char_indices().find(|(_, c)| {
            printed += c.escape_debug().count();
            printed > PRINTED
        });
        match end {
            None => Self(name.to_owned()),
            Some((end, _)) => Self(format!("{}…", &name[..end])),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// What is wrong, without the file's name.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    #[error("cannot be read: {0}")]
    Read(io::Error),
    #[error("cannot be written: {0}")]
    Write(io::Error),
    #[error("is {found}, not a regular file")]
    NotAFile { found: &'static str },
    #[error("is empty")]
    Empty,
    #[error("already exists")]
    Exists,
    #[error("is neither a GGUF file, a Whisper ggml file, a safetensors file nor a model directory")]
    UnknownContainer,
    #[error("has neither model.safetensors nor model.safetensors.index.json in it")]
    NoWeights,
    #[error("not supported: {0}")]
    NotSupported(String),
    #[error("{what} needs {needs} bytes at offset {offset}, but the file ends after {len}")]
    Truncated { what: String, needs: u64, offset: u64, len: u64 },
    #[error("{what} is {found}, over the limit of {limit}")]
    Limit { what: String, found: u64, limit: u64 },
    /// Over one of [`akunu_limits::Limits`].
    #[error("{what} is {found}, over {over}")]
    Over { what: &'static str, found: u64, over: Over },
    #[error("{what} at offset {offset} is not UTF-8")]
    NotUtf8 { what: String, offset: u64 },
    #[error("{what} {name} appears twice")]
    Duplicate { what: &'static str, name: Name },
    #[error("key {key} has type id {id} at offset {offset}, which GGUF does not define")]
    UnknownKind { key: Name, id: u32, offset: u64 },
    #[error("key {key} must be {expected}, but is {found}")]
    WrongType { key: Name, expected: &'static str, found: String },
    #[error("{what} must be {expected}, but is {found}")]
    BadValue { what: String, expected: &'static str, found: String },
    #[error("tensor {name} has {dims} dimensions, but must have {allowed}")]
    Rank { name: Name, dims: u64, allowed: &'static str },
    #[error("tensor {name} has a dimension of zero: {shape:?}")]
    ZeroDimension { name: Name, shape: Vec<u64> },
    #[error("tensor {name} is too large to address: {shape:?}")]
    TooLarge { name: Name, shape: Vec<u64> },
    #[error("not supported: number format {format} of tensor {name}")]
    UnknownFormat { name: Name, format: String },
    #[error("tensor {name} has rows of {cols} values, which is not a whole number of {format} blocks of {block}")]
    PartialBlock { name: Name, cols: u64, format: &'static str, block: usize },
    #[error("tensor {name} starts at offset {offset}, which is not a multiple of {alignment}")]
    Misaligned { name: Name, offset: u64, alignment: u64 },
    #[error("tensor {name} needs {needs} bytes at offset {offset}, but the file ends after {len}")]
    OutOfRange { name: Name, needs: u64, offset: u64, len: u64 },
    #[error("tensors {first} and {second} overlap at offset {offset}")]
    Overlap { first: Name, second: Name, offset: u64 },
    #[error("{count} bytes at offset {offset} belong to no tensor")]
    Hole { offset: u64, count: u64 },
    #[error("tensor {name} has {found} bytes, but its shape and type need {needs}")]
    Size { name: Name, found: u64, needs: u64 },
    #[error("tensor {name} {problem}")]
    Quantized { name: Name, problem: String },
    #[error("is not valid: {0}")]
    Json(String),
    #[error("tensor {name} is listed in {shard}, but is not there")]
    NotInShard { name: Name, shard: Name },
    #[error("is part {part} of {count}: open the first part, {first}")]
    NotFirstSplit { part: u64, count: u64, first: Name },
    #[error("says it is part {part} of {count}, but part {expected_part} of {expected_count} was expected")]
    WrongSplit { part: u64, count: u64, expected_part: u64, expected_count: u64 },
    #[error("declares {declared} tensors over all parts, but they have {found}")]
    SplitTensors { declared: u64, found: u64 },
    #[error("tensor {name} was given {found} bytes, but declared {declared}")]
    Written { name: Name, declared: u64, found: u64 },
    #[error("has {declared} tensors declared, but {found} were written")]
    WrittenTensors { declared: usize, found: usize },
}
