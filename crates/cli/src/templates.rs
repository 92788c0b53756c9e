//! Finding a chat template: a file that was given, or the model's own; never one made up.

use std::path::Path;

use akunu::Limits;
use akunu_formats::ModelFile;
use akunu_text::{ChatTemplate, Error};
use anyhow::Result;

use crate::failure::{NextStep, failure};
use crate::input;

/// The template in a file.
pub fn from_file(path: &Path, limits: Limits) -> Result<ChatTemplate> {
    let source = input::file(path, limits)?;
    ChatTemplate::new_within(&source, limits)
        .or_fail(|e| format!("{}: {e}", path.display()), "give a Jinja chat template")
}

/// The model's own template; `next` is what to do where it has none that works.
pub fn of_model(file: &ModelFile, next: &str) -> Result<ChatTemplate> {
    match ChatTemplate::from_model_file(file) {
        Err(Error::NoChatTemplate) => {
            Err(failure(format!("{}: this model has no chat template", file.path().display()), next))
        }
        template => template.or_fail(|e| format!("{}: {e}", file.path().display()), next),
    }
}
