//! What can be wrong with a model that parsed: one sentence each, naming file and fault.

use akunu_formats::Name;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Format(#[from] akunu_formats::Error),
    #[error("{}: not supported: architecture {name} (known: {known})", path.display())]
    UnknownArchitecture { path: PathBuf, name: Name, known: String },
    #[error("{}: the model's metadata has no {key:?}", path.display())]
    MissingKey { path: PathBuf, key: String },
    #[error("{}: {key:?} is {value}, but {expected}", path.display())]
    BadValue { path: PathBuf, key: String, value: String, expected: String },
    #[error("{}: tensor {name:?} is missing", path.display())]
    MissingTensor { path: PathBuf, name: String },
    #[error("{}: tensor {name:?} has shape {found:?}, but the metadata says {expected:?}", path.display())]
    Shape { path: PathBuf, name: String, found: Vec<usize>, expected: Vec<usize> },
    #[error("{}: tensor {name} is not part of the {architecture} architecture as this version knows it", path.display())]
    UnexpectedTensor { path: PathBuf, name: Name, architecture: &'static str },
    #[error("{}: not supported: {what}", path.display())]
    NotSupported { path: PathBuf, what: String },
}
