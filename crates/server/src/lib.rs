//! The APIs that people's tools already speak, over HTTP: one scheduler for each model, one internal form of a request, one
//! folder for each dialect.

#![forbid(unsafe_code)]

mod answer;
mod dialects;
mod http;
mod metrics;
mod models;
mod number;
mod options;
#[cfg_attr(not(feature = "otel"), path = "otel/absent.rs")]
mod otel;
mod problem;

pub use models::{Catalog, Entry, Source};
pub use options::{Options, RequestLimits};

use axum::Router;
use http::bodies::Bodies;
use http::guard::{Keys, guard};
use http::rate::Rates;
use http::tls::Tls;
use models::Models;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// What all requests share.
pub struct App {
    options: Arc<Options>,
    models: Arc<Models>,
    keys: Keys,
    rates: Rates,
    bodies: Bodies,
    tracer: otel::Tracer,
    responses: dialects::openai::Store,
    /// The second it began.
    started: u64,
    /// It has been asked to end.
    ending: AtomicBool,
}

/// A server that listens, and does not answer yet.
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    app: Arc<App>,
    tls: Option<Tls>,
}

impl Server {
    /// Takes the port.
    pub fn bind(catalog: Catalog, mut options: Options) -> io::Result<Server> {
        let limits = &mut options.limits;
        // One that is larger than all together may be would be told to come again for ever.
        limits.body = limits.body.min(limits.bodies);
        limits.upload = limits.upload.min(limits.bodies);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(64)
            .thread_name("akunu-http")
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind((options.host, options.port)))?;
        let tracer =
            runtime.block_on(async { otel::Tracer::new(options.otel.as_deref()) }).map_err(io::Error::other)?;
        let tls = options.tls.as_ref().map(|(certificate, key)| Tls::read(certificate, key)).transpose()?;
        let options = Arc::new(options);
        let models = Arc::new(Models::new(catalog.within(options.load.limits), options.clone()));
        let app = App {
            models,
            keys: Keys::new(&options.keys),
            rates: Rates::new(options.limits.rate),
            bodies: Bodies::new(options.limits.bodies),
            tracer,
            responses: dialects::openai::Store::default(),
            started: now(),
            ending: AtomicBool::new(false),
            options,
        };
        Ok(Server { runtime, listener, app: Arc::new(app), tls })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Loads the first model, so that the first request need not wait.
    pub fn warm(&self) -> Result<(), String> {
        let models = &self.app.models;
        match self.runtime.block_on(models.generator(None)) {
            Err(problem) if problem.kind != problem::Kind::NotFound => Err(problem.message),
            _ => Ok(()),
        }
    }

    /// Answers until SIGTERM or Ctrl-C, then until what runs is finished.
    pub fn run(self) -> io::Result<()> {
        let Server { runtime, listener, app, tls } = self;
        let router = router(app.clone());
        let (end, ending) = watch::channel(false);
        let served = runtime.block_on(async {
            let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            let drained = app.clone();
            tokio::spawn(async move {
                tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
                drained.ending.store(true, Ordering::Relaxed);
                let _ = end.send(true);
                // Asked twice, it does not wait.
                tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
                std::process::exit(130);
            });
            let served = http::listen::serve(listener, router, app.options.limits, tls, ending).await;
            app.tracer.end().await;
            served
        });
        runtime.shutdown_timeout(std::time::Duration::from_secs(1));
        served
    }
}

fn router(app: Arc<App>) -> Router {
    dialects::routes()
        .fallback(dialects::missing)
        .method_not_allowed_fallback(dialects::wrong_method)
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard))
        .layer(axum::middleware::from_fn_with_state(app.clone(), http::outer::outer))
        .layer(axum::middleware::from_fn(dialects::in_its_words))
        .with_state(app)
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// A new identifier.
fn id(prefix: &str) -> String {
    format!("{prefix}{:016x}{:08x}", random(), random() as u32)
}

/// The keys of a fresh hasher are the standard library's source of chance.
fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}
