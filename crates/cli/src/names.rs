//! Names of models that are no paths: what was downloaded, and what could be.

use std::path::PathBuf;

use akunu_hub::{Hub, Known, Repository};
use anyhow::Result;

use crate::failure::failure;

/// The downloaded model of this name, if it is one.
pub fn find(name: &str) -> Result<Option<PathBuf>> {
    // Without a cache folder there are no short names.
    let Ok(hub) = Hub::from_environment() else { return Ok(None) };
    match hub.path(name) {
        Ok(path) => Ok(Some(path)),
        Err(_) if Known::find(name).is_some() => {
            Err(failure(format!("{name} is not here yet"), format!("`akunu models fetch {name}` downloads it")))
        }
        Err(_) => Ok(None),
    }
}

/// What to do about a name that is nobody's.
pub fn next_step(name: &str) -> String {
    let on_hub = matches!(Repository::parse(name), Some(Ok(_))) && !name.ends_with(".gguf");
    match on_hub {
        true => format!("if it is on the model hub: `akunu models fetch {name}`"),
        false => "see `akunu models list`".to_owned(),
    }
}

/// Where lines of chats are remembered: beside the downloaded models.
pub fn history() -> Option<PathBuf> {
    let hub = Hub::from_environment().ok()?;
    Some(hub.models().parent()?.join("history"))
}
