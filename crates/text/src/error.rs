//! Why a tokenizer or a chat template could not be built or run: one sentence per case.

use akunu_limits::Over;

/// What went wrong while building or using a tokenizer or a chat template.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("the vocabulary is empty")]
    EmptyVocabulary,
    #[error("the vocabulary has {count} tokens, over {over}")]
    TooManyTokens {
        count: usize,
        #[source]
        over: Over,
    },
    #[error("token {id} is {bytes} bytes long; the most that can be used is {max}")]
    TokenTooLong { id: u32, bytes: usize, max: usize },
    #[error("tokens {first} and {second} are both {text:?}: each token must be unique")]
    DuplicateToken { first: u32, second: u32, text: String },
    #[error("{what} has {got} entries for {expected} tokens")]
    LengthMismatch { what: &'static str, got: usize, expected: usize },
    #[error("token {id} has type {value}, which is not a token type")]
    InvalidTokenType { id: u32, value: i64 },
    #[error("token {id} has the score {value}, which is not a number")]
    InvalidScore { id: u32, value: f32 },
    #[error("token {id} is marked as a byte but its text {text:?} is not of the form <0x00> to <0xFF>")]
    InvalidByteToken { id: u32, text: String },
    #[error("merge {index} ({text:?}) is not two tokens separated by a space")]
    InvalidMerge { index: usize, text: String },
    #[error("merge {index} ({text:?}) names {token:?}, which is not in the vocabulary")]
    UnknownMergeToken { index: usize, text: String, token: String },
    #[error("the {what} token id is {id}, but the vocabulary has {count} tokens")]
    SpecialIdOutOfRange { what: &'static str, id: u64, count: usize },
    #[error("the tokenizer adds a {0} token but names none")]
    MissingSpecial(&'static str),
    #[error("unknown tokenizer model {0:?}; known are gpt2, llama, bert, t5 and gemma4")]
    UnknownModel(String),
    #[error("unknown pre-tokenizer {0:?}: this vocabulary needs a newer version of the program")]
    UnknownPreTokenizer(String),
    #[error("not supported in a tokenizer pattern: {what} (in {pattern:?})")]
    UnsupportedPattern { what: String, pattern: String },
    #[error("the tokenizer's rules make too much work of {what}, over {over}: it is damaged, or meant to do harm")]
    TooMuchWork {
        what: &'static str,
        #[source]
        over: Over,
    },
    #[error("the vocabulary has special and added tokens of {bytes} bytes, over {over}")]
    AddedTokens {
        bytes: usize,
        #[source]
        over: Over,
    },
    #[error("not supported in tokenizer.json: {0}")]
    Unsupported(String),
    #[error("{file} is not valid: {reason}")]
    InvalidJson { file: &'static str, reason: String },
    #[error("the character map of the normalizer is damaged: {0}")]
    InvalidCharsmap(&'static str),
    #[error("this model has no tokenizer: {0}")]
    NoTokenizer(String),
    #[error(transparent)]
    File(#[from] akunu_formats::Error),
    #[error("metadata key {key} has the wrong type: expected {expected}")]
    InvalidMetadata { key: &'static str, expected: &'static str },
    #[error("this model has no chat template; give one, or use plain completion")]
    NoChatTemplate,
    #[error("the chat template cannot be parsed: {0}")]
    TemplateSyntax(String),
    /// The template itself refused the conversation with `raise_exception`.
    #[error("{0}")]
    TemplateRaised(String),
    #[error("the chat template failed: {0}")]
    TemplateFailed(String),
    #[error("the chat template was stopped: {0}")]
    TemplateStopped(&'static str),
    #[error("the chat template has {bytes} bytes, over {over}")]
    TemplateTooLong {
        bytes: usize,
        #[source]
        over: Over,
    },
    #[error("the chat template was stopped: {what}, over {over}")]
    TemplateOver {
        what: &'static str,
        #[source]
        over: Over,
    },
    #[error("the grammar cannot be used: {0}")]
    Grammar(String),
    #[error("the grammar cannot be used: {what}, over {over}")]
    GrammarOver {
        what: String,
        #[source]
        over: Over,
    },
}

/// `text` cut to what fits in a sentence, on one line.
pub(crate) fn excerpt(text: &str) -> String {
    line(text, 60)
}

/// The first `most` characters of `text`, without any that would move a terminal's cursor.
pub(crate) fn line(text: &str, most: usize) -> String {
    let mut chars = text.chars();
    let shown = chars.by_ref().take(most).map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = shown.collect();
    line.extend(chars.next().map(|_| '…'));
    line
}
