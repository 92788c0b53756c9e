//! Work of libraries that may panic over what they are given, or recurse over it: a panic is a result, and the stack is ours.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// Address space; only what is touched becomes memory.
#[cfg(feature = "grammar")]
const STACK_BYTES: usize = 256 << 20;

thread_local! {
    /// Whether panics of this thread are results.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What `work` gives, or `None` where it panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                others(info);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    result.ok()
}

/// The same on a large stack, or `None` where there is no thread for it.
#[cfg(feature = "grammar")]
pub(crate) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, || caught(work)).ok()?.join().ok()?
    })
}
