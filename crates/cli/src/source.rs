//! The MODEL argument: a path, a directory, a short name, or the model inside the binary.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use akunu::{Engine, Limits, LoadOptions};
use akunu_formats::ModelFile;
use anyhow::Result;
use clap::ArgMatches;

use crate::failure::failure;
use crate::names;
use crate::terminal;

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
            let sentence = format!("there is no file, directory or downloaded model called {name:?}");
            failure(sentence, names::next_step(&name))
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
        Ok(name.to_str().map(names::find).transpose()?.flatten().map(Self::Path))
    }

    /// Opens the file and validates it; nothing is loaded.
    pub fn open(&self, limits: Limits) -> Result<ModelFile> {
        Ok(match self {
            Self::Embedded => akunu::embedded_model()?.within(limits),
            Self::Path(path) => ModelFile::open_within(path, limits)?,
        })
    }

    pub fn load(&self, options: LoadOptions) -> Result<Engine> {
        let engine = Engine::from_file(self.open(options.limits)?, options)?;
        let left_out = &engine.model().left_out;
        if !left_out.is_empty() {
            writeln!(
                terminal::err(),
                "The model's {} is not used: it runs as a model of text.",
                left_out.join(" and ")
            )?;
        }
        Ok(engine)
    }

    /// What it is called in output.
    pub fn name(&self) -> String {
        match self {
            Self::Embedded => akunu::DEFAULT_MODEL_NAME.to_owned(),
            Self::Path(path) => path.display().to_string(),
        }
    }
}
