//! The boundary: what every call passes on its way in and out.

use crate::types::*;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Why a call failed: its status, and one sentence.
#[derive(Debug)]
pub struct Failure {
    pub status: akunu_status,
    pub why: String,
}

impl Failure {
    pub fn new(status: akunu_status, why: impl Display) -> Self {
        Self { status, why: why.to_string() }
    }

    pub fn argument(why: impl Display) -> Self {
        Self::new(AKUNU_ERROR_ARGUMENT, why)
    }

    fn fault(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it does not say which");
        Self::new(AKUNU_ERROR_FAULT, format_args!("a fault in the library, which is a bug in it: {text}"))
    }
}

impl From<akunu::Error> for Failure {
    fn from(error: akunu::Error) -> Self {
        use akunu::Error::*;
        let status = match &error {
            DoesNotFit { .. } | KvFull { .. } => AKUNU_ERROR_MEMORY,
            ContextFull { .. } | ContextTooLong { .. } | TextTooLong { .. } => AKUNU_ERROR_CONTEXT,
            Format(_) | Model(_) | Build(_) | Kernel(_) | Load(_) | Audio(_) | Text(_) => AKUNU_ERROR_FILE,
            Device(_) => AKUNU_ERROR_DEVICE,
            NoTokenizer { .. } | NoAudioEncoder | NotSpeech { .. } | EnglishOnly { .. } | CannotTranslate => {
                AKUNU_ERROR_MODEL
            }
            OtherVocabulary { .. } | NoAudio => AKUNU_ERROR_MODEL,
            Token { .. } | EmptyPrompt | Language { .. } | NoTemperature | StepTooLarge { .. } => AKUNU_ERROR_ARGUMENT,
            LoadStopped => AKUNU_STOPPED,
            _ => AKUNU_ERROR_FAILED,
        };
        Self::new(status, error)
    }
}

/// What a call comes to: a status that is no error, or why it failed.
pub type Outcome = Result<akunu_status, Failure>;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
    /// Callbacks of the caller's that run on this thread, one inside the other.
    static CALLBACKS: Cell<u32> = const { Cell::new(0) };
}

/// The process that made the first handle; 0: none yet.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// After a fork the child has the handles, but not the threads that work for them, and locks may be taken for good.
fn check_process() -> Result<(), Failure> {
    let owner = OWNER.load(Ordering::Relaxed);
    if owner == 0 || owner == std::process::id() {
        return Ok(());
    }
    let why =
        "this process is the child of a fork: the library's handles stay with the process that made the first one";
    Err(Failure::new(AKUNU_ERROR_FORKED, why))
}

/// Called where the first handle is made.
pub fn own_process() {
    let _ = OWNER.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
}

/// Runs an exported function's body: the one way in and out.
pub fn call(body: impl FnOnce() -> Outcome) -> akunu_status {
    let run = || catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(Failure::fault(&*panic)));
    match check_process().and_then(|()| run()) {
        Ok(status) => status,
        Err(Failure { status, why }) => {
            let why = CString::new(why.replace('\0', " ")).unwrap_or_default();
            // A thread that is ending has no message.
            let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = why);
            status
        }
    }
}

/// Runs a callback of the caller's.
pub fn callback<R>(run: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            CALLBACKS.set(CALLBACKS.get() - 1);
        }
    }
    CALLBACKS.set(CALLBACKS.get() + 1);
    let _leave = Leave;
    run()
}

/// Waits for what other threads have in use; inside a callback that could be for ever, and is an error.
pub fn lock<'a, T>(what: &str, mutex: &'a Mutex<T>) -> Result<MutexGuard<'a, T>, Failure> {
    let locked = match CALLBACKS.get() {
        0 => mutex.lock().map_err(TryLockError::from),
        _ => mutex.try_lock(),
    };
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => {
            Failure::new(AKUNU_ERROR_BUSY, format_args!("the {what} is in use, and a callback cannot wait for it"))
        }
        TryLockError::Poisoned(_) => {
            Failure::new(AKUNU_ERROR_FAULT, format_args!("a fault has ended the {what}: free it and make another"))
        }
    })
}

/// The sentence of this thread's last call that failed; empty where none has. It is there until this thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_last_error() -> *const c_char {
    const NONE: &CStr = c"";
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(NONE.as_ptr())
}

/// The name of a status, such as `AKUNU_ERROR_HANDLE`; never null, and never freed.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_status_name(status: akunu_status) -> *const c_char {
    let name = match status {
        AKUNU_OK => c"AKUNU_OK",
        AKUNU_STOPPED => c"AKUNU_STOPPED",
        AKUNU_PENDING => c"AKUNU_PENDING",
        AKUNU_ERROR_ARGUMENT => c"AKUNU_ERROR_ARGUMENT",
        AKUNU_ERROR_HANDLE => c"AKUNU_ERROR_HANDLE",
        AKUNU_ERROR_BUSY => c"AKUNU_ERROR_BUSY",
        AKUNU_ERROR_BUFFER => c"AKUNU_ERROR_BUFFER",
        AKUNU_ERROR_FILE => c"AKUNU_ERROR_FILE",
        AKUNU_ERROR_MODEL => c"AKUNU_ERROR_MODEL",
        AKUNU_ERROR_DEVICE => c"AKUNU_ERROR_DEVICE",
        AKUNU_ERROR_MEMORY => c"AKUNU_ERROR_MEMORY",
        AKUNU_ERROR_CONTEXT => c"AKUNU_ERROR_CONTEXT",
        AKUNU_ERROR_GRAMMAR => c"AKUNU_ERROR_GRAMMAR",
        AKUNU_ERROR_TEMPLATE => c"AKUNU_ERROR_TEMPLATE",
        AKUNU_ERROR_FORKED => c"AKUNU_ERROR_FORKED",
        AKUNU_ERROR_FAULT => c"AKUNU_ERROR_FAULT",
        AKUNU_ERROR_FAILED => c"AKUNU_ERROR_FAILED",
        _ => c"no status of this library",
    };
    name.as_ptr()
}

/// The library's version, such as `0.1.0`; never freed.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_error() -> String {
        LAST_ERROR.with(|last| last.borrow().to_string_lossy().into_owned())
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(call(|| panic!("seven {}", 7)), AKUNU_ERROR_FAULT);
        assert!(last_error().ends_with("a bug in it: seven 7"), "{}", last_error());
        assert_eq!(call(|| Ok(AKUNU_PENDING)), AKUNU_PENDING);
        assert_eq!(call(|| Err(Failure::argument("a\0b"))), AKUNU_ERROR_ARGUMENT);
        assert_eq!(last_error(), "a b");
    }

    #[test]
    fn what_a_fault_has_ended_is_an_error() {
        let mutex = Mutex::new(());
        assert_eq!(call(|| lock("thing", &mutex).map(|_held| panic!("a fault"))), AKUNU_ERROR_FAULT);
        assert!(lock("thing", &mutex).unwrap_err().why.contains("has ended the thing"));
    }

    #[test]
    fn a_callback_does_not_wait() {
        let mutex = Mutex::new(());
        let held = lock("thing", &mutex).unwrap();
        assert_eq!(callback(|| lock("thing", &mutex).unwrap_err().status), AKUNU_ERROR_BUSY);
        drop(held);
        assert!(callback(|| lock("thing", &mutex).is_ok()) && lock("thing", &mutex).is_ok());
    }
}
