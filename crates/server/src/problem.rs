//! What can be wrong with a request, before any dialect has put it into its own words.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// Which of the reasons that every dialect knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request itself is wrong.
    Invalid,
    /// No key, or none that is known.
    Unauthorized,
    /// Not from here.
    Forbidden,
    /// No such path, model or response.
    NotFound,
    /// The path is there, and not with this method.
    Method,
    /// More bytes than a body may have.
    TooLarge,
    /// More requests than one may send.
    RateLimited,
    /// More requests than there is room for.
    Overloaded,
    /// It took longer than it may.
    TimedOut,
    /// Our fault.
    Internal,
}

impl Kind {
    pub fn status(self) -> StatusCode {
        match self {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Unauthorized => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Method => StatusCode::METHOD_NOT_ALLOWED,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Kind::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Kind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Why a request was not answered, in one sentence.
#[derive(Clone, Debug)]
pub struct Problem {
    pub kind: Kind,
    pub message: String,
    /// The field that is at fault.
    pub field: Option<String>,
    /// What programs may look for.
    pub code: Option<&'static str>,
    /// Seconds after which to try again.
    pub retry_after: Option<u64>,
}

impl Problem {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), field: None, code: None, retry_after: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// A field's value cannot be used.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::invalid(message) }
    }

    #[must_use]
    pub fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }
}

impl From<akunu::Error> for Problem {
    fn from(error: akunu::Error) -> Self {
        use akunu::Error::*;
        match error {
            // Agents know it by these words, and make their prompts shorter.
            ContextFull { tokens, context } => Self::invalid(format!(
                "prompt is too long: {tokens} tokens > {context} maximum; this model's maximum context length is {context} tokens"
            ))
            .code("context_length_exceeded"),
            TextTooLong { .. } => Self::invalid(error.to_string()).code("context_length_exceeded"),
            Language { .. } | EnglishOnly { .. } => Self::field("language", error.to_string()),
            Text(_) | EmptyPrompt | Token { .. } | NoTokenizer { .. } => {
                Self::invalid(error.to_string())
            }
            CannotTranslate | NoTemperature | NoAudioEncoder | NotSpeech { .. } => Self::invalid(error.to_string()),
            #[cfg(feature = "audio")]
            Audio(_) => Self::invalid(error.to_string()),
            KvFull { .. } => Self::new(Kind::Overloaded, error.to_string()).retry_after(1),
            _ => Self::new(Kind::Internal, error.to_string()),
        }
    }
}

impl From<akunu_text::Error> for Problem {
    fn from(error: akunu_text::Error) -> Self {
        akunu::Error::from(error).into()
    }
}

/// What a thread that answers could not go on with.
impl From<tokio::task::JoinError> for Problem {
    fn from(_: tokio::task::JoinError) -> Self {
        Self::new(Kind::Internal, "the request could not be answered: this is a fault of the server")
    }
}

impl IntoResponse for Problem {
    /// Without a body: the dialect of the path writes it (see `dialects::in_its_words`).
    fn into_response(self) -> Response {
        let mut response = self.kind.status().into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert("retry-after", seconds.into());
        }
        response.extensions_mut().insert(self);
        response
    }
}
