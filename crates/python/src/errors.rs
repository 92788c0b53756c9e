//! The exceptions, and which of them an error of the engine becomes.

use akunu::Error as Engine;
use akunu_text::Error as Text;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};

create_exception!(akunu, Error, PyException, "What everything that goes wrong in akunu is.");
create_exception!(akunu, LoadError, Error, "The model cannot be loaded.");
create_exception!(akunu, OutOfMemory, LoadError, "The model does not fit into the memory that is free.");
create_exception!(akunu, PromptError, Error, "The prompt cannot be answered.");
create_exception!(akunu, PromptTooLong, PromptError, "The prompt has more tokens than the context.");
create_exception!(akunu, TemplateError, PromptError, "The chat template is missing, or refuses the messages.");
create_exception!(akunu, GrammarError, Error, "The grammar cannot be used.");
create_exception!(akunu, AudioError, Error, "The recording, or how to transcribe it, cannot be used.");
create_exception!(akunu, SessionError, Error, "The session file cannot be used.");
create_exception!(akunu, WrongModel, Error, "The model does something else.");
create_exception!(akunu, ClosedError, Error, "The model has been closed.");
create_exception!(akunu, ForkedError, Error, "This process was forked after the model was loaded.");

/// Puts them into the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for exception in [
        py.get_type::<Error>(),
        py.get_type::<LoadError>(),
        py.get_type::<OutOfMemory>(),
        py.get_type::<PromptError>(),
        py.get_type::<PromptTooLong>(),
        py.get_type::<TemplateError>(),
        py.get_type::<GrammarError>(),
        py.get_type::<AudioError>(),
        py.get_type::<SessionError>(),
        py.get_type::<WrongModel>(),
        py.get_type::<ClosedError>(),
        py.get_type::<ForkedError>(),
    ] {
        module.add(exception.name()?, exception)?;
    }
    Ok(())
}

/// The exception that says what the engine says.
pub fn exception(error: Engine) -> PyErr {
    let sentence = error.to_string();
    match error {
        Engine::DoesNotFit { .. } => OutOfMemory::new_err(sentence),
        Engine::Format(_)
        | Engine::Model(_)
        | Engine::Build(_)
        | Engine::Kernel(_)
        | Engine::Device(_)
        | Engine::Load(_)
        | Engine::ContextTooLong { .. } => LoadError::new_err(sentence),
        Engine::ContextFull { .. } | Engine::TextTooLong { .. } => PromptTooLong::new_err(sentence),
        Engine::EmptyPrompt | Engine::Token { .. } => PromptError::new_err(sentence),
        Engine::Text(error) => text_exception(&error),
        Engine::Audio(_)
        | Engine::NotSpeech { .. }
        | Engine::Language { .. }
        | Engine::EnglishOnly { .. }
        | Engine::CannotTranslate
        | Engine::NoTemperature
        | Engine::VoiceModel { .. } => AudioError::new_err(sentence),
        Engine::NoAudioEncoder | Engine::NoTokenizer { .. } => WrongModel::new_err(sentence),
        Engine::Session { .. } => SessionError::new_err(sentence),
        _ => Error::new_err(sentence),
    }
}

/// The same for what is wrong with texts, templates and grammars.
pub fn text_exception(error: &Text) -> PyErr {
    let sentence = error.to_string();
    match error {
        Text::Grammar(_) | Text::GrammarOver { .. } => GrammarError::new_err(sentence),
        Text::NoChatTemplate
        | Text::TemplateSyntax(_)
        | Text::TemplateRaised(_)
        | Text::TemplateFailed(_)
        | Text::TemplateStopped(_)
        | Text::TemplateTooLong { .. }
        | Text::TemplateOver { .. } => TemplateError::new_err(sentence),
        Text::TooMuchWork { .. } => PromptError::new_err(sentence),
        _ => LoadError::new_err(sentence),
    }
}
