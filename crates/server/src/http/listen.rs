//! Connections: accepted, bounded in number and time, and let go in order when the server ends.

use super::tls::Tls;
use crate::options::RequestLimits;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

/// The address of who asks, for handlers.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Serves until `ending` changes, then until all requests are answered, or time is up.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: RequestLimits,
    tls: Option<Tls>,
    mut ending: watch::Receiver<bool>,
) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                // A connection that went away, or no file descriptor is left: neither ends the server.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
            },
            _ = ending.changed() => break,
            // So that those that have ended do not pile up.
            Some(_) = connections.join_next() => continue,
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            tracing::debug!(%peer, "no room for another connection");
            drop(stream);
            continue;
        };
        let (router, ending, tls) = (router.clone(), ending.clone(), tls.clone());
        connections.spawn(async move {
            let _place = place;
            // Pieces of answers are small, and somebody waits for each.
            let _ = stream.set_nodelay(true);
            match tls {
                None => connection(stream, peer, router, limits, ending).await,
                Some(tls) => match tokio::time::timeout(limits.head, tls.accept(stream)).await {
                    Ok(Ok(stream)) => connection(stream, peer, router, limits, ending).await,
                    _ => tracing::debug!(%peer, "no TLS came about"),
                },
            }
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain, all).await.is_err() {
        tracing::warn!("some requests were not finished in time");
    }
    Ok(())
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    router: Router,
    limits: RequestLimits,
    mut ending: watch::Receiver<bool>,
) {
    let service = router.map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        request.map(axum::body::Body::new)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut served = std::pin::pin!(served);
    let result = tokio::select! {
        result = served.as_mut() => result,
        _ = ending.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%peer, %error, "a connection ended");
    }
}
