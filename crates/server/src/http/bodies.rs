//! The bytes of all bodies in flight together: what a request's body has brought is counted until its answer begins.
//!
//! Bytes are counted as they come, not as heads announce them: who announces much and sends nothing takes no room.

use crate::problem::{Kind, Problem};
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for bodies.
pub struct Bodies {
    most: usize,
    left: Arc<Semaphore>,
}

/// What one body holds of the room, as long as somebody has this.
#[derive(Clone, Debug, Default)]
pub struct Held(Arc<Mutex<Share>>);

#[derive(Debug, Default)]
struct Share {
    bytes: Option<OwnedSemaphorePermit>,
    /// There was no room for all of it.
    refused: bool,
}

struct Counted {
    body: Body,
    left: Arc<Semaphore>,
    held: Held,
}

impl Bodies {
    pub fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self { most, left: Arc::new(Semaphore::new(most)) }
    }

    /// Bytes that are in flight.
    pub fn bytes(&self) -> usize {
        self.most - self.left.available_permits()
    }

    /// Counts what the request's body brings.
    pub fn count(&self, request: Request) -> (Request, Held) {
        let (held, left) = (Held::default(), self.left.clone());
        let mut request = request.map(|body| Body::new(Counted { body, left, held: held.clone() }));
        request.extensions_mut().insert(held.clone());
        (request, held)
    }
}

impl Held {
    fn share(&self) -> MutexGuard<'_, Share> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the body could not be read to its end, where it could not.
    pub fn refusal(&self) -> Option<Problem> {
        let sentence = "the bodies of all requests together are too large now";
        self.share().refused.then(|| Problem::new(Kind::Overloaded, sentence).code("bodies_full").retry_after(1))
    }
}

impl Counted {
    fn takes(&self, bytes: usize) -> bool {
        let more = u32::try_from(bytes).ok().and_then(|bytes| self.left.clone().try_acquire_many_owned(bytes).ok());
        let mut share = self.held.share();
        match (more, &mut share.bytes) {
            (None, _) => share.refused = true,
            (Some(more), Some(bytes)) => bytes.merge(more),
            (more, none) => *none = more,
        }
        !share.refused
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(match frame {
            Some(Ok(frame)) if !self.takes(frame.data_ref().map_or(0, Bytes::len)) => {
                Some(Err(axum::Error::new("no room for another body")))
            }
            frame => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
