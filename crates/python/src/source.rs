//! Which file a name means.

use crate::errors::{LoadError, exception};
use akunu::{Limits, ModelFile};
use akunu_hub::Hub;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// Opens a file or a directory, a downloaded model by its name, or the model inside the package.
pub fn open(path: Option<&Path>, limits: Limits) -> PyResult<ModelFile> {
    match path {
        None => Ok(akunu::embedded_model().map_err(|e| LoadError::new_err(e.to_string()))?.within(limits)),
        Some(path) => ModelFile::open_within(&find(path), limits).map_err(|e| exception(e.into())),
    }
}

fn find(path: &Path) -> PathBuf {
    let downloaded = || Hub::from_environment().ok()?.path(path.to_str()?).ok();
    match path.symlink_metadata() {
        Err(_) => downloaded().unwrap_or_else(|| path.to_owned()),
        Ok(_) => path.to_owned(),
    }
}
