//! How to serve: everything that flags, environment and file may set.

use akunu::{LoadOptions, SchedulerOptions};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    pub host: IpAddr,
    /// 0: one that is free.
    pub port: u16,
    pub load: LoadOptions,
    pub scheduler: SchedulerOptions,
    /// Bytes that all loaded models may have together; `None`: as many as each finds free.
    pub memory: Option<u64>,
    /// Who may ask; empty: everybody who can reach the port.
    pub keys: Vec<String>,
    /// The files of a certificate and its key; `None`: no TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether models think where a request does not say; `None`: as their templates have it.
    pub think: Option<bool>,
    /// Origins of pages elsewhere that may ask.
    pub origins: Vec<String>,
    /// Names that this server is reached by, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Tools that somebody else would have to run, such as a web search, are left out instead of refused.
    pub drop_hosted_tools: bool,
    /// Lines of system messages that begin so are dropped: those that change with every request make the cache useless.
    pub dropped_lines: Vec<String>,
    /// The collector of OpenTelemetry that traces go to; `None`: they go nowhere.
    pub otel: Option<String>,
    pub limits: RequestLimits,
}

/// What requests may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of a body with a recording.
    pub upload: usize,
    /// Bytes of all bodies together, from their first byte until their answers begin.
    pub bodies: usize,
    /// Messages of a conversation.
    pub messages: usize,
    /// Tokens of an answer.
    pub tokens: usize,
    /// Answers to one request.
    pub choices: usize,
    /// Texts to embed or rank in one request.
    pub texts: usize,
    /// Bytes of responses that later requests may go on from, and how long they are kept.
    pub kept: usize,
    pub kept_time: Duration,
    /// Requests a minute of one key or, where there are no keys, one address; `None`: as many as come.
    pub rate: Option<u32>,
    /// Requests that wait and run, of one model.
    pub queue: usize,
    /// Connections.
    pub connections: usize,
    /// For a request's head.
    pub head: Duration,
    /// For a request's body.
    pub body_time: Duration,
    /// How long a request waits for room for its model.
    pub patience: Duration,
    /// How long running requests have when the server is asked to end.
    pub drain: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body: 16_000_000,
            upload: 256_000_000,
            bodies: 512_000_000,
            messages: 10_000,
            tokens: 32_768,
            choices: 16,
            texts: 4096,
            kept: 256_000_000,
            kept_time: Duration::from_secs(86_400),
            rate: None,
            queue: 256,
            connections: 1024,
            head: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            patience: Duration::from_secs(60),
            drain: Duration::from_secs(30),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: IpAddr::from([127, 0, 0, 1]),
            port: 8080,
            load: LoadOptions::default(),
            scheduler: SchedulerOptions::default(),
            memory: None,
            keys: Vec::new(),
            tls: None,
            think: None,
            origins: Vec::new(),
            hosts: Vec::new(),
            drop_hosted_tools: false,
            dropped_lines: Vec::new(),
            otel: None,
            limits: RequestLimits::default(),
        }
    }
}
