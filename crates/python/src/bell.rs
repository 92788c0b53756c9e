//! How an asyncio event loop learns that something has come: a pipe that the loop watches, and the numbers of those who
//! wait. The thread that computes writes one byte; it never waits for the GIL.

use pyo3::prelude::*;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// One for each event loop.
#[pyclass(frozen, module = "akunu._akunu")]
pub struct Bell {
    read: UnixStream,
    rung: Arc<Rung>,
}

struct Rung {
    /// Those for whom something has come.
    numbers: Mutex<Vec<u64>>,
    write: UnixStream,
}

impl Rung {
    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Ring {
    rung: Arc<Rung>,
    number: u64,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        let mut numbers = self.rung.lock();
        numbers.push(self.number);
        if numbers.len() == 1 {
            // Where the pipe is full, the loop has something to read already.
            let _ = (&self.rung.write).write(&[0]);
        }
    }
}

impl Bell {
    /// What rings for `number`.
    pub fn waker(&self, number: u64) -> Waker {
        Arc::new(Ring { rung: self.rung.clone(), number }).into()
    }
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Self { read, rung: Arc::new(Rung { numbers: Mutex::default(), write }) })
    }

    /// What the loop watches.
    fn fileno(&self) -> i32 {
        self.read.as_raw_fd()
    }

    /// Those for whom it has rung since it was asked last.
    fn answer(&self) -> Vec<u64> {
        // Before the numbers are taken: what rings after this writes again.
        while matches!((&self.read).read(&mut [0; 64]), Ok(64)) {}
        std::mem::take(&mut self.rung.lock())
    }
}
