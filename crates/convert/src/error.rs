//! Why a model could not be converted: one sentence each.

use std::path::PathBuf;

use crate::Mixture;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("not supported: type {name:?} (known: {})", Mixture::names())]
    UnknownType { name: String },
    #[error("{}: the model would be written over itself", path.display())]
    SameFile { path: PathBuf },
    #[error("{}: not supported: {what}", path.display())]
    NotSupported { path: PathBuf, what: String },
    #[error(transparent)]
    Format(#[from] akunu_formats::Error),
    #[error(transparent)]
    Model(#[from] akunu_arch::Error),
    #[error(transparent)]
    Text(#[from] akunu_text::Error),
}
