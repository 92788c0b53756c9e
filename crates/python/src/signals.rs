//! Ctrl-C while something is computed.

use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How often somebody looks whether a signal came.
pub const POLL: Duration = Duration::from_millis(50);

/// Asks Python now and then whether to go on, on the thread that computes without the GIL.
pub struct Signals {
    asked: Instant,
    /// What Python raises instead of going on.
    raised: Option<PyErr>,
}

impl Signals {
    pub fn new() -> Self {
        Self { asked: Instant::now(), raised: None }
    }

    /// Whether to go on.
    pub fn check(&mut self) -> ControlFlow<()> {
        if self.asked.elapsed() < POLL {
            return ControlFlow::Continue(());
        }
        self.asked = Instant::now();
        self.keep(Python::attach(|py| py.check_signals()))
    }

    /// Stops where there is an exception.
    pub fn keep(&mut self, result: PyResult<()>) -> ControlFlow<()> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(raised) => {
                self.raised.get_or_insert(raised);
                ControlFlow::Break(())
            }
        }
    }

    /// The exception, where there was one.
    pub fn finish(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
}

/// Runs something that cannot be interrupted on a thread of its own. After Ctrl-C nobody waits for it any more.
pub fn interruptible<R: Send + 'static>(
    py: Python<'_>,
    task: impl FnOnce() -> PyResult<R> + Send + 'static,
) -> PyResult<R> {
    let (done, mut result) = mpsc::channel();
    thread::Builder::new().name("akunu-load".into()).spawn(move || drop(done.send(task())))?;
    loop {
        let waited = &mut result;
        match py.detach(move || waited.recv_timeout(POLL)) {
            Ok(result) => return result,
            Err(mpsc::RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(crate::errors::Error::new_err("a fault in the engine ended it"));
            }
        }
    }
}
