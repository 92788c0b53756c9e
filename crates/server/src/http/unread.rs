//! Bodies that nobody read: a connection that closes on a client that still sends looks like a failure, and the answer is
//! lost. So the rest is read, within bounds, before the answer goes out.

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// How much of a body is read for nothing, and how long that may take.
const MOST: usize = 1 << 20;
const LONGEST: Duration = Duration::from_secs(1);

/// Where a body comes back to when its reader is done.
#[derive(Clone, Default)]
pub struct Unread(Arc<Mutex<Option<Body>>>);

struct Lent {
    /// `None` only while it is dropped.
    body: Option<Body>,
    unread: Unread,
}

/// Lends the body of a request to whoever answers it.
pub fn lend(request: Request) -> (Request, Unread) {
    let unread = Unread::default();
    let lent = unread.clone();
    (request.map(|body| Body::new(Lent { body: Some(body), unread: lent })), unread)
}

impl Unread {
    /// Reads what is left.
    pub async fn drain(self) {
        let body = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut body) = body.filter(|body| !body.is_end_stream()) else { return };
        let all = async {
            let mut read = 0;
            while read < MOST
                && let Some(Ok(frame)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
            {
                read += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        let _ = tokio::time::timeout(LONGEST, all).await;
    }
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        *self.unread.0.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}
