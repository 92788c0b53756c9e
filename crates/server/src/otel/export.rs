//! Sends spans to a collector: OTLP over HTTP, as JSON. What a collector does not take is lost, and the log says so once.

use super::text;
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

/// Requests whose spans may wait; those of more are lost.
const WAITING: usize = 4096;
/// Requests that are sent together, and how long the first of them waits for others.
const TOGETHER: usize = 256;
const GATHERING: Duration = Duration::from_secs(1);
/// For a collector to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// For what is left when the server ends.
const ENDING: Duration = Duration::from_secs(2);

/// Where a collector listens.
#[derive(Debug, PartialEq)]
pub struct Endpoint {
    /// Host and port.
    address: String,
    path: String,
}

impl Endpoint {
    /// `http://host[:port][/path]`: the path of traces is added, as OpenTelemetry has it.
    pub fn parse(url: &str) -> Result<Endpoint, String> {
        let fault =
            || format!("{url:?} is no http://HOST:PORT; a collector elsewhere needs one here that passes on by TLS");
        let rest = url.strip_prefix("http://").ok_or_else(fault)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |c: char| c.is_ascii_graphic() && !"\"<>@?#".contains(c);
        if host.is_empty() || !rest.chars().all(is_plain) {
            return Err(fault());
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.to_owned() } else { format!("{host}:4318") };
        let slash = if path.is_empty() || path.ends_with('/') { "" } else { "/" };
        Ok(Endpoint { address, path: format!("/{path}{slash}v1/traces") })
    }
}

/// Takes the spans of requests, and sends them as it can.
pub struct Exporter {
    /// `None` once it has ended.
    queue: Mutex<Option<Sender<Vec<Value>>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Exporter {
    pub fn start(endpoint: Endpoint) -> Exporter {
        let (queue, spans) = channel(WAITING);
        let task = tokio::spawn(export(endpoint, spans));
        Exporter { queue: Mutex::new(Some(queue)), task: Mutex::new(Some(task)) }
    }

    /// The spans of one request.
    pub fn send(&self, spans: Vec<Value>) {
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = queue.try_send(spans);
        }
    }

    /// Sends what is left, and nothing more.
    pub async fn end(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            let _ = tokio::time::timeout(ENDING, task).await;
        }
    }
}

async fn export(endpoint: Endpoint, mut requests: Receiver<Vec<Value>>) {
    let (mut batch, mut failing) = (Vec::new(), false);
    while let Some(first) = requests.recv().await {
        batch.push(first);
        let others = async { while requests.recv_many(&mut batch, TOGETHER).await > 0 && batch.len() < TOGETHER {} };
        let _ = tokio::time::timeout(GATHERING, others).await;
        let body = written(batch.drain(..).flatten().collect());
        let sent = tokio::time::timeout(PATIENCE, post(&endpoint, &body)).await;
        let fault = match sent {
            Ok(Ok(())) => None,
            Ok(Err(fault)) => Some(fault.to_string()),
            Err(_) => Some("it does not answer".to_owned()),
        };
        if let Some(fault) = &fault
            && !failing
        {
            tracing::warn!(collector = endpoint.address, fault, "traces are lost until it takes them again");
        }
        failing = fault.is_some();
    }
}

/// The body that holds these spans.
fn written(spans: Vec<Value>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let resource = json!({ "attributes": [text("service.name", "akunu"), text("service.version", version)] });
    let scope = json!({ "name": "akunu-server", "version": version });
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "scope": scope, "spans": spans }] }] })
        .to_string()
}

/// One request on a connection of its own. Of the answer only the first line matters.
async fn post(Endpoint { address, path }: &Endpoint, body: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(64 << 10).read_to_end(&mut answer).await?;
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    match line.split(|byte| *byte == b' ').nth(1) {
        Some([b'2', _, _]) => Ok(()),
        _ => Err(std::io::Error::other(format!("it answered {:?}", String::from_utf8_lossy(line)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_and_where_traces_go() {
        for (url, address, path) in [
            ("http://localhost:4318", "localhost:4318", "/v1/traces"),
            ("http://collector", "collector:4318", "/v1/traces"),
            ("http://[::1]:9/", "[::1]:9", "/v1/traces"),
            ("http://10.0.0.1:80/otlp", "10.0.0.1:80", "/otlp/v1/traces"),
        ] {
            assert_eq!(Endpoint::parse(url), Ok(Endpoint { address: address.into(), path: path.into() }), "{url}");
        }
        for url in ["", "localhost:4318", "https://collector", "http://", "http:///x", "http://a b", "http://a\r\nx: y"]
        {
            assert!(Endpoint::parse(url).unwrap_err().contains("http://"), "{url}");
        }
    }
}
