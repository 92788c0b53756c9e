//! The MODEL argument: a path, a directory, a short name, or the model inside the binary.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use akunu::formats::ModelFile;
use akunu::hub::{Hub, Known, Repository};
use akunu::{Engine, LoadOptions};
use anyhow::Result;
use clap::ArgMatches;

use crate::failure::failure;

/// The name of the model inside the binary.
pub const EMBEDDED: &str = "embedded";

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Embedded,
    Path(PathBuf),
}

impl Source {
    /// The model that the MODEL argument names; the embedded one where it is absent.
    pub fn of(matches: &ArgMatches) -> Result<Self> {
        match matches.get_one::<OsString>("model") {
            None => Ok(Self::Embedded),
            Some(name) => Self::named(name),
        }
    }

    pub fn named(name: &OsStr) -> Result<Self> {
        Self::find(name)?.ok_or_else(|| {
            let name = name.to_string_lossy();
            let on_hub = matches!(Repository::parse(&name), Some(Ok(_))) && !name.ends_with(".gguf");
            let next = match on_hub {
                true => format!("if it is on the model hub: `akunu models fetch {name}`"),
                false => "see `akunu models list`".to_owned(),
            };
            failure(format!("there is no file, directory or downloaded model called {name:?}"), next)
        })
    }

    /// What a name means: a file of that name comes before a short name.
    pub fn find(name: &OsStr) -> Result<Option<Self>> {
        let path = Path::new(name);
        // A dangling link or a folder that cannot be searched is for the reader to explain.
        if path.symlink_metadata().is_ok() {
            return Ok(Some(Self::Path(path.to_path_buf())));
        }
        if name == EMBEDDED {
            return Ok(Some(Self::Embedded));
        }
        // Without a cache folder there are no short names.
        let (Some(name), Ok(hub)) = (name.to_str(), Hub::from_environment()) else { return Ok(None) };
        match hub.path(name) {
            Ok(path) => Ok(Some(Self::Path(path))),
            Err(_) if Known::find(name).is_some() => {
                Err(failure(format!("{name} is not here yet"), format!("`akunu models fetch {name}` downloads it")))
            }
            Err(_) => Ok(None),
        }
    }

    /// Opens the file and validates it; nothing is loaded.
    pub fn open(&self) -> Result<ModelFile> {
        Ok(match self {
            Self::Embedded => akunu::embedded_model()?,
            Self::Path(path) => ModelFile::open(path)?,
        })
    }

    pub fn load(&self, options: LoadOptions) -> Result<Engine> {
        Ok(Engine::from_file(self.open()?, options)?)
    }

    /// What it is called in output.
    pub fn name(&self) -> String {
        match self {
            Self::Embedded => akunu::DEFAULT_MODEL_NAME.to_owned(),
            Self::Path(path) => path.display().to_string(),
        }
    }
}
