//! Errors as people meet them: one sentence and a next step on one line, causes only where they are asked for.

use std::error::Error;
use std::fmt;
use std::io;

use akunu::{Over, SessionError};
use akunu_formats::Fault;

/// An error of the command line's own, with what to do about it.
#[derive(Debug)]
pub struct Failure {
    sentence: String,
    next: String,
    source: Option<anyhow::Error>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.sentence, self.next)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|e| e.as_ref())
    }
}

/// What went wrong, and what to do next.
pub fn failure(sentence: impl Into<String>, next: impl Into<String>) -> anyhow::Error {
    Failure { sentence: sentence.into(), next: next.into(), source: None }.into()
}

/// Gives errors of libraries a next step.
pub trait NextStep<T> {
    fn next_step(self, next: impl Into<String>) -> anyhow::Result<T>;
    /// The error gets a sentence of its own, and stays as its cause.
    fn or_fail(self, sentence: impl FnOnce(&anyhow::Error) -> String, next: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> NextStep<T> for Result<T, E> {
    /// What the error itself asks for comes first.
    fn next_step(self, next: impl Into<String>) -> anyhow::Result<T> {
        let result = self.map_err(Into::into);
        match result {
            Err(error) if advice(&error).is_some() || says_what_to_do(&error) => Err(error),
            result => result.or_fail(|error| error.to_string(), next),
        }
    }

    fn or_fail(self, sentence: impl FnOnce(&anyhow::Error) -> String, next: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| {
            let error = error.into();
            let next = limit_advice(&error).unwrap_or_else(|| next.into());
            Failure { sentence: sentence(&error), next, source: Some(error) }.into()
        })
    }
}

/// Whoever read our output has gone: no error, there is nobody to tell.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|e| e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// Whether the sentence ends with a next step of its own.
fn says_what_to_do(error: &anyhow::Error) -> bool {
    use akunu::Error::{ContextTooLong, Device, DoesNotFit};
    matches!(error.downcast_ref(), Some(ContextTooLong { .. } | Device(_) | DoesNotFit { .. }))
}

/// More characters than a sentence has; what a file or a template calls itself may have millions.
const LONGEST: usize = 600;

/// A sentence without its middle, where it is too long for anybody to read.
fn shortened(text: String) -> String {
    let count = text.chars().count();
    if count <= LONGEST {
        return text;
    }
    let head: String = text.chars().take(LONGEST - 100).collect();
    let tail: String = text.chars().skip(count - 90).collect();
    format!("{head} … {tail}")
}

/// The line that is printed.
pub fn sentence(error: &anyhow::Error) -> String {
    let text = shortened(one_line(&error.to_string()));
    match advice(error) {
        Some(next) => format!("{text}; {next}"),
        None => text,
    }
}

/// The causes behind an error, outermost first; those that only repeat what is said already are left out.
pub fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut said = shortened(one_line(&error.to_string()));
    let mut causes = Vec::new();
    for cause in error.chain().skip(1).map(|e| shortened(one_line(&e.to_string()))) {
        if !said.contains(&cause) {
            causes.push(cause.clone());
        }
        said = cause;
    }
    causes
}

/// What to do about errors of the libraries; they say what is wrong, the command line knows the commands.
fn advice(error: &anyhow::Error) -> Option<String> {
    if error.downcast_ref::<Failure>().is_some() {
        return None;
    }
    if let Some(next) = limit_advice(error) {
        return Some(next);
    }
    let next = error.chain().find_map(|cause| {
        let next = match cause.downcast_ref::<akunu::Error>() {
            Some(akunu::Error::Format(e)) => format_advice(e),
            Some(akunu::Error::Model(akunu_arch::Error::Format(e))) => format_advice(e),
            Some(akunu::Error::Model(akunu_arch::Error::UnknownArchitecture { .. })) => {
                Some("this version cannot run it")
            }
            Some(akunu::Error::Token { .. }) => Some("give ids of this model's vocabulary"),
            Some(akunu::Error::TextTooLong { .. }) => Some("shorten it, or let `--truncate` drop its end"),
            Some(akunu::Error::EmptyPrompt) => Some("give some text"),
            Some(akunu::Error::NotFinite) => Some("get the model again, or another conversion of it"),
            Some(akunu::Error::Load(_)) => Some("free some memory, or use a smaller model or context"),
            _ => None,
        };
        next.or_else(|| cause.downcast_ref::<akunu_formats::Error>().and_then(format_advice))
    });
    next.map(str::to_owned)
}

/// What to do where a limit is behind an error.
fn limit_advice(error: &anyhow::Error) -> Option<String> {
    let over = error.chain().find_map(|cause| match cause.downcast_ref::<akunu::Error>() {
        Some(akunu::Error::Session { error: SessionError::TooManyTokens { over, .. }, .. }) => Some(over),
        _ => cause.downcast_ref::<Over>(),
    })?;
    Some(format!("where it comes from somebody you trust, raise that: `--limit {}=N`", over.name()))
}

fn format_advice(error: &akunu_formats::Error) -> Option<&'static str> {
    Some(match &error.fault {
        Fault::Open(e) if e.kind() == io::ErrorKind::NotFound => "check the path, or see `akunu models list`",
        Fault::Open(_) | Fault::Read(_) => "check the path and its permissions",
        Fault::Write(_) => "check the folder, its permissions and the space on the disk",
        Fault::Exists => "choose another name, or pass --force to replace it",
        Fault::NotAFile { .. } | Fault::UnknownContainer | Fault::NoWeights => {
            "give a .gguf file, or a directory with config.json and safetensors"
        }
        Fault::NotSupported(_) | Fault::UnknownFormat { .. } => "convert the model to another format",
        Fault::NotFirstSplit { .. } => "give that one",
        _ => "the file is damaged or incomplete: get it again",
    })
}

/// Messages of libraries may have several lines, and control characters that came out of files.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }));
    }
    line
}

/// A usage error of the flag table as one line: what is wrong, what was probably meant, where the help is.
pub fn usage_line(error: &clap::Error, command: &str) -> String {
    let text = error.render().to_string();
    let mut parts: Vec<String> = Vec::new();
    let head: Vec<&str> = text.lines().take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more")).collect();
    for part in head.join("\n").split("\n\n") {
        let part = one_line(part);
        let part = part.strip_prefix("error: ").unwrap_or(&part).trim_start_matches("tip: ");
        if !part.is_empty() {
            parts.push(part.to_owned());
        }
    }
    parts.push(format!("see `{command} --help`"));
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_printable_line() {
        assert_eq!(one_line("a\n  b\tc\u{1b}[31m"), "a b c\u{fffd}[31m");
    }

    #[test]
    fn a_sentence_of_megabytes_loses_its_middle() {
        let error = anyhow::anyhow!("x: {} is unknown", "long".repeat(1 << 20));
        let sentence = sentence(&error);
        assert!(sentence.starts_with("x: longlong") && sentence.ends_with("long is unknown"), "{sentence}");
        assert!(sentence.chars().count() <= LONGEST);
    }

    #[test]
    fn what_an_error_asks_for_itself_comes_before_what_a_command_would_say() {
        let error =
            Err::<(), _>(akunu::Error::ContextTooLong { context: 9, most: 8 }).next_step("give a Whisper model");
        assert!(!sentence(&error.unwrap_err()).contains("Whisper"));
        let error = Err::<(), _>(akunu::Error::NoAudioEncoder).next_step("give a Whisper model");
        assert!(sentence(&error.unwrap_err()).ends_with("; give a Whisper model"));
    }

    #[test]
    fn causes_that_repeat_the_sentence_are_left_out() {
        let error = anyhow::anyhow!("disk full").context("cannot write x: disk full").context("saving failed");
        assert_eq!(causes(&error), ["cannot write x: disk full"]);
    }

    #[test]
    fn a_broken_pipe_is_found_under_other_errors() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing");
        assert!(is_broken_pipe(&error));
        assert!(!is_broken_pipe(&anyhow::anyhow!("other")));
    }
}
