//! What a Python object holds: shared by threads, closed at will, unusable in a process that was forked from its own.

use crate::errors::{ClosedError, ForkedError};
use pyo3::prelude::*;
use std::process;
use std::sync::{PoisonError, RwLock};

pub struct Held<T> {
    value: RwLock<Option<T>>,
    /// Only here do the threads exist that the value needs.
    process: u32,
}

impl<T: Send + Sync> Held<T> {
    pub fn new(value: T) -> Self {
        Self { value: RwLock::new(Some(value)), process: process::id() }
    }

    /// Nothing else may be touched before: a lock that another thread held at the fork is never released.
    pub fn check_process(&self) -> PyResult<()> {
        if self.process == process::id() {
            return Ok(());
        }
        let sentence = "this process was forked after the model was loaded: load the model in the new process";
        Err(ForkedError::new_err(sentence))
    }

    /// Runs `task` without the GIL.
    pub fn with<R: Send>(&self, py: Python<'_>, task: impl FnOnce(&T) -> PyResult<R> + Send) -> PyResult<R> {
        self.check_process()?;
        py.detach(|| {
            let value = self.value.read().unwrap_or_else(PoisonError::into_inner);
            task(value.as_ref().ok_or_else(|| ClosedError::new_err("the model has been closed"))?)
        })
    }

    /// Ends what the value does, and frees it.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        py.detach(|| drop(self.value.write().unwrap_or_else(PoisonError::into_inner).take()));
        Ok(())
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if self.process != process::id() {
            // It would wait for threads that are not there.
            std::mem::forget(self.value.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
